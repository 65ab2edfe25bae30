"""BLEU of text in Moses tokens, which `multi-bleu.perl` computes and papers before sacreBLEU report.

Hypotheses and references are tokenised by sacremoses, the Python port of Moses' tokenizer, by the rules of a language,
English if it does not know it. No n-gram counts are smoothed.
"""

import importlib.metadata
from collections.abc import Sequence
from typing import NamedTuple

from sacremoses import MosesTokenizer

from pipeline.bleu import make_bleu


class MosesScore(NamedTuple):
    """The score of a corpus in percent."""

    moses_bleu: float
    moses_signature: str


def score_moses(hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str) -> MosesScore:
    """Score detokenised text.

    Args:
        hypotheses: (N,)
        references: (R, N).
        language: of both.
    """
    tokenizer, bleu = MosesTokenizer(language), make_bleu("none", smooth_method="none", force=True)
    tokenised = [[tokenizer.tokenize(line, return_str=True, escape=False) for line in lines]
                 for lines in (hypotheses, *references)]
    found = bleu.corpus_score(tokenised[0], tokenised[1:])
    return MosesScore(float(found.score),
                      f"{bleu.get_signature()}|moses:{language}|sacremoses:{importlib.metadata.version('sacremoses')}")
