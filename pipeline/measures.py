"""The measures of quality, as reports name them and as people do."""

from typing import NamedTuple


class Measure(NamedTuple):
    """A score of a corpus, in percent."""

    field: str
    """Of `evaluation.quality.Quality`, of quality reports and of rows."""
    title: str
    signature: str
    """The field of its signature: scores with different ones cannot be compared."""


MEASURES = (
    Measure("bleu", "BLEU", "bleu_signature"), Measure("chrf", "chrF", "chrf_signature"),
    Measure("ter", "TER", "ter_signature"), Measure("f05", "F0.5", "edits_signature"),
    Measure("gleu", "GLEU", "gleu_signature"), Measure("sari", "SARI", "sari_signature"),
    Measure("rouge_l", "ROUGE-L", "rouge_signature"), Measure("moses_bleu", "BLEU, Moses tokens", "moses_signature"))
