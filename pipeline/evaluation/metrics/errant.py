"""English grammatical error correction by the edits of ERRANT (Bryant et al. 2017), as the BEA-2019 shared task scores.

ERRANT finds the edits of hypotheses and of references by a linguistic alignment with the source and merges them by
rules; they are counted as its own scorer counts them, by span and correction, without types, and with the reference
that has the best F0.5 of four decimals. The text must be tokenised as in M2 files, with spaces between tokens. ERRANT
and a model of spaCy are the optional extra `errant`.
"""

import importlib.metadata
from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import Any

from pipeline.errors import PipelineError
from pipeline.evaluation.metrics.edits import BETA, Edit, EditScore, count_edits

_DECIMALS = 4
_INSTALL = "pip install -c constraints.txt -e '.[errant]' && python -m spacy download en_core_web_sm"


@cache
def load_annotator() -> Any:
    """ERRANT's annotator of English.

    Raises:
        PipelineError: ERRANT or its model is not installed.
    """
    try:
        import errant

        return errant.load("en")
    except (ImportError, OSError) as error:  # the latter from spaCy, if it does not find the model
        missing = "ERRANT" if isinstance(error, ImportError) else "spaCy's model en_core_web_sm"
        raise PipelineError(f"evaluation.metrics: 'errant' needs {missing}, which is not installed; run {_INSTALL}, or "
                            "choose 'edits', which needs neither") from None


def score_errant(hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> EditScore:
    """Score corrected sentences; see `edits.score_edits` for arguments.

    Raises:
        PipelineError: as `load_annotator`.
        ValueError: unequal numbers of sentences.
    """
    annotator = load_annotator()

    def edits() -> Iterator[tuple[Set[Edit], list[Set[Edit]]]]:
        for source, hypothesis, *correct in zip(sources, hypotheses, *references, strict=True):
            parsed = annotator.parse(source)
            yield (_edits_of(annotator, parsed, source, hypothesis),
                   [_edits_of(annotator, parsed, source, reference) for reference in dict.fromkeys(correct)])

    signature = (f"errant|refs:{len(references)}|case:mixed|tok:spaces|merge:rules|beta:{BETA}|"
                 f"version:{importlib.metadata.version('errant')}|model:{_model(annotator)}")
    return count_edits(edits(), signature, _DECIMALS)


def _edits_of(annotator: Any, parsed: Any, source: str, target: str) -> Set[Edit]:
    """The edits that turn a source into a target."""
    if source.split() == target.split():
        return set()
    return {Edit(edit.o_start, edit.o_end, tuple(edit.c_str.split()))
            for edit in annotator.annotate(parsed, annotator.parse(target)) if edit.type != "UNK"}  # as ERRANT's scorer


def _model(annotator: Any) -> str:
    meta = annotator.nlp.meta
    return f"{meta['lang']}_{meta['name']}-{meta['version']}"
