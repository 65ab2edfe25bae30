"""The settings of a decoder that drafts and verifies, for this machine (Ge et al. 2022, section 4.2.3).

Settings that do not change the output, which is that of greedy search, are chosen first: the fastest win. Then, if
params.yaml has relaxed variants of the decoder, their acceptance is chosen: the fastest whose loss of BLEU against
greedy search is within the variant's margin. Settings that are compared with each other are timed together by the one
clock, on sentences of the validation split.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import torch

from pipeline import layout
from pipeline.blocks import build, merge
from pipeline.corpus.bpe import Tokenizer
from pipeline.decoding import greedy
from pipeline.decoding.settings import make_decoder
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.evaluation.clock import clock_device
from pipeline.evaluation.speed import Contestant, measure
from pipeline.evaluation.validation import ValidationSample
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.formats import in_format
from pipeline.params import Params

Setting = Mapping[str, Any]
"""Values that replace those of the decoder's entry."""

MARGINS = {"quality": 0.1, "speed": 0.3}
"""How much BLEU the relaxed decoders NAME++_quality and NAME++_speed may lose against greedy search."""

_LONGER = 3
"""How many tokens longer than the exact decoder's the blocks of a relaxed one may be."""

EXACT_GROUPS = (("block",), ("shortest", "longest"))
"""Settings that do not change the output, chosen one group after the other if the decoder has them."""


@dataclass(frozen=True)
class SearchSpace:
    """The values to try of each setting."""

    block: tuple[int, ...] = (*range(1, 13), 16, 25, 30)
    shortest: tuple[int, ...] = (1, 2, 3)
    longest: tuple[int, ...] = (4, 8, 16)
    beta: tuple[int, ...] = (3, 5)
    tau: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name):
                raise PipelineError(f"tune: no value of {one.name} to try; give at least one")


@dataclass(frozen=True)
class Trial:
    """The figures of one setting."""

    setting: Setting
    milliseconds: float
    """Per sentence, one at a time: the mean over the sentences of their median repetitions."""
    calls: float
    """Calls of the verifier per sentence."""
    accepted: float
    """Tokens per call, end symbols not counted."""
    bleu: float | None = None
    """None where the output is that of greedy search."""


@dataclass(frozen=True)
class TuningRound:
    """Settings compared with each other and with greedy search, in one run of the clock."""

    greedy: Trial
    trials: list[Trial]
    refused: list[tuple[Setting, str]]
    """Settings that the decoder refuses, with its error message."""


def fastest(trials: Sequence[Trial], floor: float = -float("inf")) -> Trial:
    """The fastest trial whose BLEU, where it was measured, is at least `floor`; of equals, the first.

    Raises:
        PipelineError: there is none.
    """
    good = [trial for trial in trials if trial.bleu is None or trial.bleu >= floor]
    if not good:
        raise PipelineError(f"tune: none of {len(trials)} settings reaches {floor:.2f} BLEU; try smaller --taus")
    return min(good, key=lambda trial: trial.milliseconds)


def combinations(names: Sequence[str], values: SearchSpace, current: Setting) -> list[dict[str, Any]]:
    """Every combination of values of some settings; each setting's current value is among its values.

    >>> combinations(["shortest", "longest"], SearchSpace(shortest=(1,), longest=(4, 8)), {"shortest": 2, "longest": 8})
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'shortest': 1, 'longest': 4}, {'shortest': 1, 'longest': 8},
     {'shortest': 2, 'longest': 4}, {'shortest': 2, 'longest': 8}]
    """
    ranges = [sorted({*getattr(values, name), current[name]}) for name in names]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*ranges)]


def relaxations(values: SearchSpace, block: int) -> Iterator[dict[str, Any]]:
    """Every acceptance to try, the exact one first: where no other is faster, nothing should be relaxed.

    A relaxed decoder accepts more tokens, so its blocks may be longer than the exact one's, unless that is 0: all of
    the remaining source.
    """
    yield {"block": block, "acceptance": {"beta": 1, "tau": 0.0}}
    longer = [more for more in values.block if 0 < block < more <= block + _LONGER]
    for k, beta, tau in itertools.product([block, *longer], values.beta, values.tau):
        yield {"block": k, "acceptance": {"beta": beta, "tau": tau}}


def tune(bench: "TuningBench", space: SearchSpace, variants: Sequence[str],
         show: Callable[[TuningRound], None]) -> dict[str, Setting]:
    """Find the settings of an exact decoder and of its relaxed variants.

    Args:
        bench: of the exact decoder.
        space: values to try.
        variants: the relaxed ones, keys of `MARGINS`.
        show: called after every round.

    Returns:
        The settings of the exact decoder under the name "", and those of each variant under its name.
    """
    exact: dict[str, Any] = {}
    for names in EXACT_GROUPS:
        if bench.current.keys() >= set(names):
            settings = [exact | one for one in combinations(names, space, bench.current)]
            compared = bench.compare(settings, scored=False)
            show(compared)
            exact = dict(fastest(compared.trials).setting)
    found: dict[str, Setting] = {"": exact}
    if variants:
        compared = bench.compare([exact | one for one in relaxations(space, exact["block"])], scored=True)
        show(compared)
        assert compared.greedy.bleu is not None
        found |= {name: fastest(compared.trials, compared.greedy.bleu - MARGINS[name]).setting for name in variants}
    return found


class TuningBench:
    """A trained family, the entry of `decoders` to tune, and the sentences to try settings on."""

    def __init__(self, params: Params, family: str, decoder: str, sentences: int) -> None:
        """Args:
            params: of the folder that holds data/ and checkpoints/, with the clock's settings.
            family, decoder: names in params.
            sentences: how many of the validation split BLEU is measured on; `speed.sentences` of these are timed.

        Raises:
            PipelineError: unknown names, no such checkpoint, or a decoder that has nothing to tune or is not exact.
        """
        self._params, self._name, self._entry = params, decoder, dict(params.decoder(decoder))
        self._device = clock_device(params.speed)
        tokenizer = Tokenizer.load(layout.BPE)
        network, _ = load_checkpoint(layout.checkpoint(family), tokenizer.digest, params.family(family).order)
        self._network: Any = network.to(self._device)
        longest = network.settings.max_length
        self._limit = params.length_limit(longest)
        self.current = self._current()
        """The decoder's settings in params.yaml, defaults included."""

        self._sample = ValidationSample(params, tokenizer, self._device, sentences, longest)

    def _current(self) -> dict[str, Any]:
        make_decoder(self._name, self._entry, self._limit)  # checks the entry
        module = importlib.import_module(f"pipeline.decoding.{self._entry['algorithm']}")
        common = "algorithm", "deduplicate", "quantization"
        own = {key: value for key, value in self._entry.items() if key not in common}
        settings = build(module.Settings, own, f"decoders.{self._name}")
        if not (hasattr(settings, "block") and hasattr(settings, "acceptance")):
            raise PipelineError(f"--decoder: {self._name!r} drafts nothing, so there is nothing to tune; choose one of "
                                "algorithm gad, speculative, iad or blockwise")
        if not settings.acceptance.exact:
            raise PipelineError(f"--decoder: {self._name!r} is relaxed; tune the exact one, and its variants are "
                                "tuned with it")
        # A block of 0 may mean the block that the model was trained for.
        return asdict(settings) | {"block": settings.block or getattr(self._network, "block", 0)}

    def compare(self, settings: Sequence[Setting], *, scored: bool) -> TuningRound:
        """Time settings, interleaved with each other and with greedy search.

        Args:
            settings: laid over the decoder's entry.
            scored: whether BLEU is measured as well.

        Raises:
            PipelineError: the decoder accepts none of them.
        """
        network = in_format(self._network, self._params.quantization_of(self._name))
        verifier = open_engine(getattr(network, "verifier", network))
        contestants = [Contestant("", "greedy", partial(greedy.search, verifier, limit=self._limit))]
        tried: list[Setting] = [{}]
        refused = []
        for setting in settings:
            try:
                contestants.append(self._contestant(setting))
                tried.append(setting)
            except PipelineError as error:
                refused.append((setting, str(error)))
        if len(tried) == 1:
            raise PipelineError(f"--decoder: {self._name!r} accepts none of the settings to try; {refused[0][1]}")
        speed = self._params.speed
        timings = measure(contestants, {1: self._sample.sentences}, repetitions=speed.repetitions, warmup=speed.warmup,
                          device=self._device)[1]
        trials = [Trial(setting, 1000 * float(timings.medians[at].mean()), float(timings.calls[at].mean()),
                        float(timings.tokens[at].sum() / timings.calls[at].sum()),
                        self._sample.bleu(contestants[at]) if scored else None) for at, setting in enumerate(tried)]
        return TuningRound(trials[0], trials[1:], refused)

    def _contestant(self, setting: Setting) -> Contestant:
        """The decoder with a setting; it has already translated a sentence."""
        translate = partial(make_decoder(self._name, merge(self._entry, setting), self._limit), self._network)
        with torch.inference_mode():
            translate(self._sample.sentences[0])
        return Contestant("", str(setting), translate)
