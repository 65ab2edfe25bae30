"""The table of how much each family of a run was still learning when its training ended: from the training curves."""

import csv
from collections.abc import Sequence
from pathlib import Path

from docs.reports import ROOT, decoders, steps
from docs.tables import table
from pipeline.peer_settings import FAMILY as PEER

PARTS = ("first third", "second third", "last third")
"""Parts of a training, of as many steps each, whose best validations are compared."""
METRICS = {"accepted": ("tokens per call", ".2f"), "bleu": ("BLEU", ".1f")}
"""What is shown of a training, the first that its curve has: the title and the format."""


def curves(run: str) -> str:
    """The best validation of each third of a training: BLEU or, of a drafter, its accepted tokens per call."""
    def row(family: str) -> list[str]:
        metric = next(metric for metric in METRICS if curve(run, family, metric).exists())
        title, form = METRICS[metric]
        return [family, title, f"{steps(run, family):,}",
                *(format(one, form) for one in best(validations(run, family, metric)))]

    families = dict.fromkeys(row["family"] for row in decoders(run) if row["family"] != PEER)
    return table(["family", "on validation", "steps", *PARTS], [row(family) for family in families], texts=2)


def curve(run: str, family: str, metric: str) -> Path:
    """The file of a training's validations."""
    return ROOT / run / f"training/{family}/plots/metrics/validation_{metric}.tsv"


def validations(run: str, family: str, metric: str) -> list[tuple[int, float]]:
    """The steps that a training's validations were made after, ascending, with a metric of each."""
    with curve(run, family, metric).open(encoding="utf-8") as opened:
        return [(int(line["step"]) + 1, float(line[f"validation_{metric}"]))  # from 0
                for line in csv.DictReader(opened, delimiter="\t")]


def best(validations: Sequence[tuple[int, float]]) -> list[float]:
    """The best validation of each part of a training.

    Args:
        validations: the steps that they were made after, ascending up to the last, with their values. Each part must
            have one.

    >>> best([(1, 3.0), (2, 5.0), (3, 4.0), (4, 4.5), (5, 6.0), (6, 5.5)])
    [5.0, 4.5, 6.0]
    """
    last, _ = validations[-1]
    return [max(value for step, value in validations if part * last < step * len(PARTS) <= (part + 1) * last)
            for part in range(len(PARTS))]
