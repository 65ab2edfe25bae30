"""Where a run of Lightning's command line writes."""

from dataclasses import dataclass
from pathlib import Path

from pipeline import layout


@dataclass(frozen=True)
class Places:
    """The files of one run, of the pipeline or of a user who tries options."""

    checkpoint: Path
    """Folder of the final weights."""
    work: Path
    """Folder of unfinished work."""
    curve: Path
    """Folder of the training curve."""
    hypotheses: Path
    """Folder of the translations of the test split."""
    quality: Path
    """File of their scores."""


def of_pipeline(family: str) -> Places:
    """The artifacts that dvc.yaml declares."""
    return Places(layout.checkpoint(family), layout.WORK / family, layout.REPORTS / "training" / family,
                  layout.HYPOTHESES / family, layout.REPORTS / "quality" / f"{family}.json")


def within(folder: Path) -> Places:
    """Everything in one folder."""
    return Places(folder / "model", folder / "work", folder / "curve", folder / "hypotheses", folder / "quality.json")
