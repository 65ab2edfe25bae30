"""The settings of a decoder that drafts and verifies, for this machine (Ge et al. 2022, section 4.2.3).

First those that leave the output greedy search's: the fastest win. Then, if params.yaml has relaxed variants of the
decoder, their acceptance: the fastest that loses at most so much BLEU against greedy search. All that is compared is
timed together by the one clock, on sentences of the validation split.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline import layout
from pipeline.blocks import build, merge
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Pairs
from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.evaluation.clock import spread
from pipeline.evaluation.quality import score
from pipeline.evaluation.speed import Contestant, measure
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params
from pipeline.translation import pick_device

Setting = Mapping[str, Any]
"""What is laid over the decoder's entry."""

MARGINS = {"quality": 0.1, "speed": 0.3}
"""BLEU that the relaxed decoders NAME++_quality and NAME++_speed may lose against greedy search."""

_LONGER = 3
"""Tokens that a relaxed decoder's blocks may have more than the exact one's."""

EXACT_STAGES = (("block",), ("shortest", "longest"))
"""Settings that leave the output as it is, chosen one group after the other; of a decoder that has them."""


@dataclass(frozen=True)
class Grid:
    """Values to try."""

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
    """How one setting did."""

    setting: Setting
    milliseconds: float
    """A sentence, one at a time: the mean over the sentences of their median repetitions."""
    calls: float
    """Of the verifier, a sentence."""
    accepted: float
    """Words a call, end symbols not counted."""
    bleu: float | None = None
    """None where the output is greedy search's."""


@dataclass(frozen=True)
class Stage:
    """Settings compared with each other and with greedy search, in one run of the clock."""

    greedy: Trial
    trials: list[Trial]
    refused: list[tuple[Setting, str]]
    """Settings that the decoder does not take, and what it says of them."""


def fastest(trials: Sequence[Trial], floor: float = -float("inf")) -> Trial:
    """The fastest trial whose BLEU, where it was measured, is at least `floor`; of equals, the first.

    Raises:
        PipelineError: there is none.
    """
    good = [trial for trial in trials if trial.bleu is None or trial.bleu >= floor]
    if not good:
        raise PipelineError(f"tune: none of {len(trials)} settings reaches {floor:.2f} BLEU; try smaller --taus")
    return min(good, key=lambda trial: trial.milliseconds)


def combinations(names: Sequence[str], values: Grid, present: Setting) -> list[dict[str, Any]]:
    """Every combination of values of some settings; what a setting has at present is among its values.

    >>> combinations(["shortest", "longest"], Grid(shortest=(1,), longest=(4, 8)), {"shortest": 2, "longest": 8})
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'shortest': 1, 'longest': 4}, {'shortest': 1, 'longest': 8},
     {'shortest': 2, 'longest': 4}, {'shortest': 2, 'longest': 8}]
    """
    ranges = [sorted({*getattr(values, name), present[name]}) for name in names]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*ranges)]


def relaxations(values: Grid, block: int) -> Iterator[dict[str, Any]]:
    """Every acceptance to try, the exact one first: where no other is faster, nothing should be relaxed.

    What is accepted more often may be drafted in longer blocks than the exact decoder's; none is longer than one of 0,
    all that is left of the source.
    """
    yield {"block": block, "acceptance": {"beta": 1, "tau": 0.0}}
    longer = [more for more in values.block if 0 < block < more <= block + _LONGER]
    for k, beta, tau in itertools.product([block, *longer], values.beta, values.tau):
        yield {"block": k, "acceptance": {"beta": beta, "tau": tau}}


def tune(bench: "Bench", grid: Grid, variants: Sequence[str], show: Callable[[Stage], None]) -> dict[str, Setting]:
    """Find the settings of an exact decoder and of its relaxed variants.

    Args:
        bench: of the exact decoder.
        grid: values to try.
        variants: the relaxed ones, keys of `MARGINS`.
        show: is told about every stage when it is over.

    Returns:
        Settings of the exact decoder, by the name "", and of its variants by theirs.
    """
    exact: dict[str, Any] = {}
    for names in EXACT_STAGES:
        if bench.present.keys() >= set(names):
            settings = [exact | one for one in combinations(names, grid, bench.present)]
            stage = bench.compare(settings, scored=False)
            show(stage)
            exact = dict(fastest(stage.trials).setting)
    found: dict[str, Setting] = {"": exact}
    if variants:
        stage = bench.compare([exact | one for one in relaxations(grid, exact["block"])], scored=True)
        show(stage)
        assert stage.greedy.bleu is not None
        found |= {name: fastest(stage.trials, stage.greedy.bleu - MARGINS[name]).setting for name in variants}
    return found


class Bench:
    """A trained family, the entry of `decoders` to tune, and the sentences to try settings on."""

    def __init__(self, params: Params, family: str, decoder: str, sentences: int) -> None:
        """Args:
            params: of the folder that holds data/ and checkpoints/; the block `speed` is the clock's.
            family, decoder: names in it.
            sentences: of the validation split, for BLEU; `speed.sentences` of these are timed.

        Raises:
            PipelineError: unknown names, no such checkpoint, or a decoder that has nothing to tune or is not exact.
        """
        self._params, self._name, self._entry = params, decoder, dict(params.decoder(decoder))
        self._device = torch.device(pick_device(params.speed.device))
        if params.speed.threads:
            torch.set_num_threads(params.speed.threads)
        self._tokenizer = Tokenizer.load(layout.BPE)
        network, _ = load_checkpoint(layout.checkpoint(family), self._tokenizer.digest, params.family(family).order)
        self._network: Any = network.to(self._device)
        longest = network.settings.max_length
        self._limit = LengthLimit(params.limit.ratio, params.limit.extra, longest - 1)
        self.present = self._present()
        """The decoder's settings as they are."""

        pairs = Pairs.open(layout.BPE / "validation.pairs", self._tokenizer.digest)
        rows = spread(pairs.source_lengths, np.arange(len(pairs)), sentences)
        timed = spread(pairs.source_lengths, np.array(rows), params.speed.sentences)
        size = params.evaluation.batch_rows
        self._sentences = [pad_sources([pairs.source(row)], longest).to(self._device) for row in timed]
        self._batches = [pad_sources([pairs.source(row) for row in rows[start:start + size]], longest).to(self._device)
                         for start in range(0, len(rows), size)]
        every = [layout.read_lines(path) for path in layout.references("validation")]
        self._references = [[one[row] for row in rows] for one in every]

    def _present(self) -> dict[str, Any]:
        make_decoder(self._name, self._entry, self._limit)  # says what is wrong with the entry
        module = importlib.import_module(f"pipeline.decoding.{self._entry['algorithm']}")
        own = {key: value for key, value in self._entry.items() if key not in ("algorithm", "deduplicate")}
        settings = build(module.Settings, own, f"decoders.{self._name}")
        if not (hasattr(settings, "block") and hasattr(settings, "acceptance")):
            raise PipelineError(f"--decoder: {self._name!r} drafts nothing, so there is nothing to tune; choose one of "
                                "algorithm gad, speculative, iad or blockwise")
        if not settings.acceptance.exact:
            raise PipelineError(f"--decoder: {self._name!r} is relaxed; tune the exact one, and its variants are "
                                "tuned with it")
        # A block of 0 may stand for what the model was trained for.
        return asdict(settings) | {"block": settings.block or getattr(self._network, "block", 0)}

    def compare(self, settings: Sequence[Setting], *, scored: bool) -> Stage:
        """Time settings, interleaved with each other and with greedy search.

        Args:
            settings: laid over the decoder's entry.
            scored: whether BLEU is measured besides.

        Raises:
            PipelineError: the decoder takes none of them.
        """
        verifier = open_engine(getattr(self._network, "verifier", self._network))
        contestants = [Contestant("", "greedy", lambda source: greedy.search(verifier, source, self._limit))]
        tried: list[Setting] = [{}]
        refused = []
        for setting in settings:
            try:
                contestants.append(self._contestant(setting))
                tried.append(setting)
            except PipelineError as error:
                refused.append((setting, str(error)))
        if len(tried) == 1:
            raise PipelineError(f"--decoder: {self._name!r} takes none of the settings to try; {refused[0][1]}")
        speed = self._params.speed
        timings = measure(contestants, self._sentences, repetitions=speed.repetitions, warmup=speed.warmup,
                          device=self._device, batch_sizes=(1,))[1]
        trials = [Trial(setting, 1000 * float(timings.medians[at].mean()), float(timings.calls[at].mean()),
                        float(timings.tokens[at].sum() / timings.calls[at].sum()),
                        self._bleu(contestants[at]) if scored else None) for at, setting in enumerate(tried)]
        return Stage(trials[0], trials[1:], refused)

    def _contestant(self, setting: Setting) -> Contestant:
        """A setting ready to run, which has translated a sentence."""
        decode = make_decoder(self._name, merge(self._entry, setting), self._limit)

        def translate(source: Tensor) -> Hypotheses:
            return decode(self._network, source)
        with torch.inference_mode():
            translate(self._sentences[0])
        return Contestant("", str(setting), translate)

    def _bleu(self, contestant: Contestant) -> float:
        texts: list[str] = []
        for batch in self._batches:
            found = contestant.translate(batch)
            texts += self._tokenizer.decode_targets(
                row[:length] for row, length in zip(found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(),
                                                    strict=True))
        return score(texts, self._references, self._params.evaluation.bleu_tokenizer).bleu
