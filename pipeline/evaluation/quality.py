"""What a decoder wrote and how good it is: hypotheses on disk, scores with signatures, a paired test."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from pipeline.errors import PipelineError
from pipeline.evaluation.edits import score_edits
from pipeline.evaluation.gleu import score_gleu
from pipeline.files import write_text
from pipeline.lines import read_lines

_UNSPACED = {"zh", "ja-mecab", "ko-mecab"}
"""BLEU tokenizers of scripts without spaces, in which TER must cut characters apart to find any words."""

_RERUN = "run the evaluation of this family again"


@dataclass(frozen=True)
class HypothesisLine:
    """One line of `<evaluation>/<family>/<decoder>.jsonl`."""

    index: int
    """Position of the sentence in the test set, from 0."""
    hypothesis: str
    tokens: int
    """Words of the vocabulary in the hypothesis, without the end symbol."""
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
    """Corpus scores in percent over all references, each with the signature that makes it clear.

    What grammatical error correction is measured by is None unless it was asked for.
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
    """F0.5 of the edits, of which the two above are precision and recall."""
    edits_signature: str | None = None
    gleu: float | None = None
    gleu_signature: str | None = None


def write_hypotheses(path: Path, lines: Sequence[HypothesisLine], sentences: int) -> None:
    """Write the lines of all processes ordered by index, after a check that every sentence came exactly once.

    Args:
        lines: in any order.
        sentences: size of the test set; without it a lost last sentence could not be seen.

    Raises:
        PipelineError: an index in 0..sentences-1 is absent or doubled, or another one is present.
    """
    times = Counter(line.index for line in lines)
    faults = [f"sentence {index} is missing" for index in range(sentences) if not times[index]]
    faults += [f"sentence {index} came {n} times" for index, n in sorted(times.items()) if n > 1]
    faults += [f"sentence {index} is outside the test set of {sentences} sentences"
               for index in sorted(times) if not 0 <= index < sentences]
    if faults:
        raise PipelineError(f"{path}: not written: {faults[0]}; {_RERUN}")
    ordered = sorted(lines, key=lambda line: line.index)
    write_text(path, "".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in ordered))


def read_hypotheses(path: Path, sentences: int) -> list[HypothesisLine]:
    """Read what `write_hypotheses` wrote of a test set of so many sentences.

    Raises:
        PipelineError: the file is absent or of another test set, or a line is not a hypothesis or not the next
            sentence.
    """
    if not path.exists():
        raise PipelineError(f"{path}: not found; {_RERUN}")
    lines = []
    for number, text in enumerate(read_lines(path), start=1):
        try:
            line = HypothesisLine(**json.loads(text))
        except (json.JSONDecodeError, TypeError) as error:
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
          sources: Sequence[str] = (), metrics: Sequence[str] = ()) -> Quality:
    """Score detokenised text, with sacreBLEU and by further metrics.

    Args:
        hypotheses: (N,)
        references: (R, N), R of each sentence.
        tokenizer: sacreBLEU's name of BLEU's tokenizer: `13a` for spaced scripts, `zh`, `ja-mecab`, ...
        sources: (N,), which the further metrics need.
        metrics: any of `edits` and `gleu`.

    Raises:
        PipelineError: no sentences, another number of references than hypotheses, or an unknown tokenizer.
    """
    _check_counts("hypotheses", hypotheses, references)
    unspaced = tokenizer in _UNSPACED
    scorers: list[Metric] = [_bleu(tokenizer), CHRF(), TER(normalized=unspaced, asian_support=unspaced)]
    bleu, chrf, ter = [float(metric.corpus_score(hypotheses, references).score) for metric in scorers]
    signatures = [str(metric.get_signature()) for metric in scorers]
    quality = Quality(bleu, signatures[0], chrf, signatures[1], ter, signatures[2])
    if metrics:
        _check_counts("sources", sources, references)
    if "edits" in metrics:
        edits = score_edits(hypotheses, sources, references)
        quality = replace(quality, precision=edits.precision, recall=edits.recall, f05=edits.f05,
                          edits_signature=edits.signature)
    if "gleu" in metrics:
        gleu, signature = score_gleu(hypotheses, sources, references)
        quality = replace(quality, gleu=gleu, gleu_signature=signature)
    return quality


def paired_p_values(baseline: Sequence[str], systems: Mapping[str, Sequence[str]],
                    references: Sequence[Sequence[str]], *, tokenizer: str = "13a", samples: int = 1000,
                    seed: int = 12345) -> dict[str, float]:
    """How likely chance alone makes a BLEU difference as large: paired bootstrap (Koehn 2004).

    sacreBLEU calls systems without any difference significant (p = 1 / (samples + 1)); here they get 1.

    Args:
        systems: hypotheses (N,) of each system by its name.
        references: (R, N), R of each sentence.
        samples: bootstrap resamples of the test set; also the resolution, as no p is below 1 / (samples + 1).
        seed: positive; sacreBLEU takes 0 for "no seed".

    Raises:
        PipelineError: unequal numbers of sentences or an unknown tokenizer.
        ValueError: the seed is not positive.
    """
    if seed < 1:
        raise ValueError(f"seed {seed} is not positive")
    for name, hypotheses in {"the baseline": baseline, **systems}.items():
        _check_counts(f"hypotheses of {name}", hypotheses, references)
    different = [(name, list(texts)) for name, texts in systems.items() if list(texts) != list(baseline)]
    p_values = dict.fromkeys(systems, 1.0)
    if different:
        with _environment("SACREBLEU_SEED", str(seed)):  # the only way in that PairedTest has
            test = PairedTest([("", baseline), *different], {"BLEU": _bleu(tokenizer)}, references,
                              test_type="bs", n_samples=samples)
        results: Any = test()[1]["BLEU"][1:]  # without the baseline
        for (name, _), result in zip(different, results, strict=True):
            p_values[name] = float(result.p_value)
    return p_values


def _bleu(tokenizer: str) -> BLEU:
    if tokenizer not in BLEU.TOKENIZERS:
        raise PipelineError(f"evaluation: BLEU tokenizer {tokenizer!r} is unknown; use one of "
                            f"{', '.join(sorted(filter(None, BLEU.TOKENIZERS)))}")
    try:
        return BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError, OSError) as error:
        raise PipelineError(f"evaluation: BLEU tokenizer {tokenizer!r} cannot start "
                            f"({' '.join(str(error).split())}); install its package or files") from error


def _check_counts(what: str, texts: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    # sacreBLEU would score the shorter of the two without a word.
    if not references or not references[0]:
        raise PipelineError("evaluation: the test set is empty; give it at least one sentence")
    for one in references:
        if len(texts) != len(one):
            raise PipelineError(f"evaluation: {len(texts)} {what} for {len(one)} references; {_RERUN}")


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
