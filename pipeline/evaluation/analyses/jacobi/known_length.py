"""What would it be worth to know the length of the translation? (Table 1 of the paper, in which PJ and PGJ know it.)

Their blocks end where the translation does, and finding its length was not on the paper's clock; only HGJ does without.
No user can know it: the decoders of `pipeline.decoding.jacobi` expect a length, and a translation may end before it or
after it. Here those of the baseline are timed with either, one long sentence at a time; the known length is that of
greedy search's translation.

With a small model most calls settle one token, so PJ takes as many calls with either length. On a CPU a call costs what
it reads, and the shorter length is faster: where translations are longer than expected, to know the length costs time.
The longest of them dominate the mean, because their calls are too wide to be compiled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.jacobi.context import GREEDY, jacobi_contestants, jacobi_decoders, speed_figures
from pipeline.evaluation.speed import measure


def ask(run: FinishedRun) -> Finding:
    """Of the baseline's Jacobi decoders, over long sources of the test split."""
    found = jacobi_contestants(run, run.device)
    if isinstance(found, Finding):
        return found
    params, sentences = run.params, found.sentences
    with torch.inference_mode():
        lengths = [int(found.decoders[GREEDY](found.network, sentence).lengths[0, 0]) for sentence in sentences]
    names, limit = jacobi_decoders(params), run.limit(found.network)
    decoders = {(GREEDY, ""): found.decoders[GREEDY]}
    for name in names:
        decoders[name, "expected"] = found.decoders[name]
        decoders[name, "known"] = with_known_length(name, params.decoder(name), limit, sentences, lengths)
    timings = measure(found.with_model({" ".join(name): decoder for name, decoder in decoders.items()}),
                      {1: sentences}, repetitions=params.speed.repetitions, warmup=params.speed.warmup,
                      device=run.device)[1]
    times, calls = timings.medians, timings.calls
    figures: dict[str, dict[str, dict[str, float]]] = {name: {} for name in names}
    for at, (name, length) in list(enumerate(decoders))[1:]:
        figures[name][length] = {**speed_figures(times[at], times[0]), "calls": float(calls[at].mean())}
    baseline = f"{found.family} {GREEDY}"
    return Finding({"baseline": baseline, "sentences": len(sentences), "rule": found.rule,
                    "repetitions": params.speed.repetitions, "device": run.device.type, "decoders": figures},
                   _draw(figures, baseline))


def with_known_length(name: str, entry: Mapping[str, Any], limit: LengthLimit, sentences: Sequence[Tensor],
                      lengths: Sequence[int]) -> Decoder:
    """A Jacobi decoder that knows the lengths of the translations of some sentences.

    It expects just that length, and its limit is where the translation ends, so that nothing is drafted after it.

    Args:
        name: of the decoder.
        entry: its entry of `decoders`, of algorithm `jacobi`.
        limit: under which the lengths were found.
        sentences: (1, S) ids each.
        lengths: words of their translations, without an end symbol.
    """
    decoders = {}
    for sentence, length in zip(sentences, lengths, strict=True):
        words = max(1, min(length, int(limit.words(sentence))))  # one that was cut has a word instead of an end symbol
        decoders[tuple(sentence[0].tolist())] = make_decoder(
            name, {**entry, "ratio": 0.0, "extra": length + 1}, LengthLimit(0, words, words))

    def search(model: Any, source: Tensor) -> Hypotheses:
        return decoders[tuple(source[0].tolist())](model, source)
    return search


def _draw(figures: Mapping[str, Mapping[str, Mapping[str, float]]], baseline: str) -> Figure:
    figure, (axes,) = chart.new_picture()
    chart.bars(axes, {f"{name}, length {length}": found["speedup_vs_greedy"] for name, lengths in figures.items()
                      for length, found in lengths.items()}, [chart.COLOURS[0], chart.COLOURS[1]] * len(figures))
    axes.axvline(1, color=chart.THEME.muted, linewidth=1, linestyle="--")
    chart.name_axes(axes, f"times as fast as {baseline}", "", "long sources, one at a time")
    return figure
