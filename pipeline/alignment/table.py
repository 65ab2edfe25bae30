"""The lexical table as text."""

from pathlib import Path

import numpy as np

from pipeline.alignment.fast_align import AlignmentModel
from pipeline.files import atomic_path

NO_WORD = "<eps>"
"""Stands for no source word."""


def write_table(path: Path, model: AlignmentModel, source_words: list[str], target_words: list[str],
                minimum: float) -> None:
    """Write `source word, target word, P(target | source)`, tab-separated, the best translations of a word first.

    Words are by id, in the model's direction; pairs of less than the minimum are omitted.

    Raises:
        PipelineError: the file cannot be written.
    """
    entries = np.flatnonzero(model.probabilities >= minimum)
    rows = np.searchsorted(model.lexicon.starts, entries, side="right") - 1
    order = np.lexsort((-model.probabilities[entries], rows))
    lines = zip(rows[order].tolist(), model.lexicon.words[entries[order]].tolist(),
                model.probabilities[entries[order]].tolist(), strict=True)
    with atomic_path(path) as aside, open(aside, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{source_words[row - 1] if row else NO_WORD}\t{target_words[word]}\t{probability:.6g}\n"
                        for row, word, probability in lines)
