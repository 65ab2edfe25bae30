"""Where a run keeps its files, relative to the folder of its params.yaml. dvc.yaml declares the same paths."""

from itertools import count, takewhile
from pathlib import Path

SPLITS = ("train", "validation", "test")
SYNTHETIC = "synthetic"
"""Training pairs made from the targets of train (`corpus.noise`), in files beside those of the splits."""
CORPUS = Path("data/corpus")
BPE = Path("data/bpe")
DISTILLED = Path("data/distilled")
ALIGNMENT = Path("data/alignment")
COUNTS = Path("data/counts")
TRAINING_SIDES = {"raw": BPE / "train.pairs", "distilled": DISTILLED / "train.pairs"}
"""Encoded training pairs: with the corpus's targets, and with the teacher's."""
HYPOTHESES = Path("data/hypotheses")
PEERS = Path("data/peers")
"""The baseline in the formats of other libraries."""
PAGE = Path("data/page/index.html")
MACHINE = Path("data/machine.json")
INPUTS = Path("data/inputs.json")
"""Both are facts that DVC cannot see by itself (`pipeline.commands.facts`)."""
CHECKPOINTS = Path("checkpoints")
WORK = Path("checkpoints/.work")
"""Unfinished work that a killed run resumes from; never an output. What begins with a dot there is of no family."""
REPORTS = Path("reports")


def checkpoint(family: str) -> Path:
    """Folder of a family's final weights."""
    return CHECKPOINTS / family


def counts(side: str) -> Path:
    """File of the count model of a side: raw, distilled or both."""
    return COUNTS / f"{side}.safetensors"


def references(split: str = "test") -> list[Path]:
    """Files of a split's references, one sentence a line: `SPLIT.target`, then `SPLIT.target2`, … as far as they go."""
    further = (CORPUS / f"{split}.target{number}" for number in count(2))
    return [CORPUS / f"{split}.target", *takewhile(Path.exists, further)]


def read_lines(path: Path) -> list[str]:
    """Sentences of a corpus file, one a line feed (a sentence may hold other line separators of Unicode)."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]
