"""What a decoder wrote and how good it is: hypotheses on disk, scores with signatures."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pipeline.bleu import make_bleu
from pipeline.checksums import check
from pipeline.errors import PipelineError
from pipeline.evaluation.metrics.edits import score_edits
from pipeline.evaluation.metrics.errant import load_annotator, score_errant
from pipeline.evaluation.metrics.gleu import score_gleu
from pipeline.evaluation.metrics.moses import score_moses
from pipeline.evaluation.metrics.rouge import score_rouge
from pipeline.evaluation.metrics.sari import score_sari
from pipeline.files import write_text
from pipeline.lines import read_lines
from pipeline.params import EvaluationSettings

_ASIAN = {"zh", "ja-mecab"}
"""BLEU tokenizers of scripts without spaces whose characters TER can separate."""

_RERUN = "run the evaluation of this family again"


@dataclass(frozen=True)
class HypothesisLine:
    """One line of `<evaluation>/<family>/<decoder>.jsonl`."""

    index: int
    """Position of the sentence in the test set, from 0."""
    hypothesis: str
    tokens: int
    """Vocabulary tokens in the hypothesis, without the end symbol."""
    calls: int | None
    """Decoder calls that the sentence took part in; None where they are not known."""
    ended: bool
    """False where the length limit cut the hypothesis."""

    def __post_init__(self) -> None:
        for name, kind in self.__annotations__.items():
            value = getattr(self, name)
            if type(value) not in (get_args(kind) or (kind,)):
                raise TypeError(f"{name} is {value!r}, not of type {getattr(kind, '__name__', kind)}")


@dataclass(frozen=True)
class Quality:
    """Corpus scores in percent over all references, each with the signature that defines it.

    Those that are not for every run are None unless they were asked for.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    ter: float
    ter_signature: str
    precision: float | None = None
    recall: float | None = None
    f05: float | None = None
    """F0.5 of the edits, like precision and recall, which the metric `edits` or `errant` finds."""
    edits_signature: str | None = None
    gleu: float | None = None
    gleu_signature: str | None = None
    sari: float | None = None
    sari_signature: str | None = None
    rouge_l: float | None = None
    rouge_signature: str | None = None
    moses_bleu: float | None = None
    moses_signature: str | None = None


def write_hypotheses(path: Path, lines: Sequence[HypothesisLine], sentences: Sequence[int]) -> None:
    """Write the lines of all processes ordered by index, after a check that every sentence occurs exactly once.

    Args:
        path: file to write.
        lines: in any order.
        sentences: indices of the test set; without them a lost last sentence would not be noticed.

    Raises:
        PipelineError: one of the indices is absent or doubled, or another one is present.
    """
    times = Counter(line.index for line in lines)
    faults = [f"sentence {index} is missing" for index in sentences if not times[index]]
    faults += [f"sentence {index} occurs {n} times" for index, n in sorted(times.items()) if n > 1]
    faults += [f"sentence {index} is outside the test set of {len(sentences)} sentences"
               for index in sorted(times) if index not in sentences]
    if faults:
        raise PipelineError(f"{path}: not written: {faults[0]}; {_RERUN}")
    ordered = sorted(lines, key=lambda line: line.index)
    write_text(path, "".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in ordered))


def read_hypotheses(path: Path, sentences: int) -> list[HypothesisLine]:
    """Read the hypotheses of a test set of `sentences` sentences, as `write_hypotheses` wrote them.

    Raises:
        PipelineError: the file is absent or of another test set, or a line is not a hypothesis or not the next
            sentence.
    """
    if not path.exists():
        raise PipelineError(f"{path}: not found; {_RERUN}")
    check(path)
    lines = []
    for number, text in enumerate(read_lines(path), start=1):
        try:
            line = HypothesisLine(**json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise PipelineError(f"{path}:{number}: not a hypothesis ({error}); "
                                f"remove the file and {_RERUN}") from None
        if line.index != number - 1:
            raise PipelineError(f"{path}:{number}: sentence {line.index} where {number - 1} should be; "
                                f"remove the file and {_RERUN}")
        lines.append(line)
    if len(lines) != sentences:
        raise PipelineError(f"{path}: {len(lines)} hypotheses for {sentences} references; {_RERUN}")
    return lines


def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str = "13a", *,
          sources: Sequence[str] = (), metrics: Sequence[str] = (), moses: str | None = None) -> Quality:
    """Score detokenised text, with sacreBLEU and by further metrics.

    Args:
        hypotheses: (N,)
        references: (R, N), R per sentence.
        tokenizer: sacreBLEU's name of BLEU's tokenizer: `13a` for spaced scripts, `zh`, `ja-mecab`, ...
        sources: (N,), which the further metrics need.
        metrics, moses: see `EvaluationSettings`.

    Raises:
        PipelineError: no sentences, another number of references than hypotheses, or an unknown tokenizer.
    """
    check_counts("hypotheses", hypotheses, references)
    figures: dict[str, Any] = {}
    for name, metric in {"bleu": make_bleu(tokenizer), "chrf": CHRF()}.items():
        figures[name] = float(metric.corpus_score(hypotheses, references).score)
        figures[f"{name}_signature"] = str(metric.get_signature())
    figures |= _ter(hypotheses, references, tokenizer)
    if metrics:
        check_counts("sources", sources, references)
    if "edits" in metrics:
        figures |= score_edits(hypotheses, sources, references)._asdict()
    if "errant" in metrics:
        figures |= score_errant(hypotheses, sources, references)._asdict()
    if "gleu" in metrics:
        figures |= score_gleu(hypotheses, sources, references)._asdict()
    if "sari" in metrics:
        figures |= score_sari(hypotheses, sources, references)._asdict()
    if "rouge" in metrics:
        figures |= score_rouge(hypotheses, references)._asdict()
    if moses is not None:
        figures |= score_moses(hypotheses, references, moses)._asdict()
    return Quality(**figures)


def _ter(hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str) -> dict[str, Any]:
    """TER over words, or over characters where BLEU counts these or the script has no spaces."""
    if tokenizer == "char":
        hypotheses, *references = ([" ".join(line) for line in lines] for lines in (hypotheses, *references))
    metric = TER(normalized=tokenizer in _ASIAN, asian_support=tokenizer in _ASIAN)
    found = float(metric.corpus_score(hypotheses, references).score)
    return {"ter": found, "ter_signature": f"{metric.get_signature()}{'|words:char' if tokenizer == 'char' else ''}"}


def check_scorers(settings: EvaluationSettings) -> None:
    """Raise a PipelineError unless everything that scores is installed, so that a run fails before it trains."""
    make_bleu(settings.bleu_tokenizer)
    if "errant" in settings.metrics:
        load_annotator()


def figures_of(lines: Sequence[HypothesisLine], references: Sequence[Sequence[str]], sources: Sequence[str],
               settings: EvaluationSettings) -> dict[str, Any]:
    """A decoder's entry in the quality report: the fields of `Quality`, mean calls and mean tokens per sentence.

    Args:
        lines: (N,) in the order of the test set. The mean of their calls is None where some are not known.
        references: (R, N), R per sentence.
        sources: (N,)
        settings: tokenizer and metrics.
    """
    quality = score([line.hypothesis for line in lines], references, settings.bleu_tokenizer, sources=sources,
                    metrics=settings.metrics, moses=settings.moses)
    calls = [line.calls for line in lines if line.calls is not None]
    return {**asdict(quality), "calls": sum(calls) / len(calls) if len(calls) == len(lines) else None,
            "tokens": sum(line.tokens for line in lines) / len(lines)}


def check_counts(what: str, texts: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Insist that there is a text per sentence of each reference; sacreBLEU would score the shorter of the two.

    Raises:
        PipelineError: there are not, or there are no references.
    """
    if not references or not references[0]:
        raise PipelineError("evaluation: the test set is empty; give it at least one sentence")
    for one in references:
        if len(texts) != len(one):
            raise PipelineError(f"evaluation: {len(texts)} {what} for {len(one)} references; {_RERUN}")
