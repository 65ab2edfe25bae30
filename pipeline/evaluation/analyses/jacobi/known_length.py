"""What would it be worth to know the length of the translation? (Table 1 of the paper, whose decoders know it.)

Blocks of the paper end where the translation does, and finding its length was not on its clock. No user can know it:
the decoders of `pipeline.decoding.jacobi` expect a length, and a translation may end before it or after it. Here those
of the baseline are timed in both ways, one long sentence at a time; what they are told is the length of greedy search's
translation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.jacobi.scaling import ALGORITHM, GREEDY, jacobi_decoders, long_sentences
from pipeline.evaluation.analyses.lab import Lab
from pipeline.evaluation.speed import Contestant, measure, speed_ratio

LENGTHS = ("expected", "known")


class Cost(NamedTuple):
    """Of a decoder."""

    milliseconds: float
    """Per sentence."""
    speedup: tuple[float, float, float]
    """Against greedy search, with the 95 % interval of a bootstrap over the sentences."""
    calls: float
    """Of the model, per sentence."""

    def figures(self) -> dict[str, float]:
        ratio, low, high = self.speedup
        return {"milliseconds": self.milliseconds, "speedup_vs_greedy": ratio, "speedup_low": low,
                "speedup_high": high, "calls": self.calls}


def ask_known_length(lab: Lab) -> Finding:
    """Of the baseline's Jacobi decoders, over long sources of the test split."""
    params = lab.params
    names = jacobi_decoders(params)
    if not names:
        return not_measured(f"no decoder of family {params.baseline!r} is of algorithm {ALGORITHM}")
    network = lab.network(params.baseline)
    assert network is not None  # it is one of the systems
    sentences = [sentence.to(lab.device) for sentence in long_sentences(lab, network)]
    if not sentences:
        return not_measured(f"no test source has {params.speed.long_tokens} pieces (speed.long_tokens)")
    limit = lab.limit(network)
    greedy = make_decoder(GREEDY, params.decoder(GREEDY), limit)
    with torch.inference_mode():
        lengths = [int(greedy(network, sentence).lengths[0, 0]) for sentence in sentences]
    searches = {GREEDY: greedy}
    for name in names:
        searches[f"{name} {LENGTHS[0]}"] = make_decoder(name, params.decoder(name), limit)
        searches[f"{name} {LENGTHS[1]}"] = told(name, params.decoder(name), limit, sentences, lengths)
    contestants = [Contestant(params.baseline, name, lambda source, s=search: s(network, source))  # type: ignore[misc]
                   for name, search in searches.items()]
    timings = measure(contestants, sentences, repetitions=params.speed.repetitions, warmup=params.speed.warmup,
                      device=lab.device, batch_sizes=(1,))[1]
    times, calls = timings.medians, timings.calls
    costs = {name: Cost(1000 * float(times[at].mean()), speed_ratio(times[0], times[at]), float(calls[at].mean()))
             for at, name in enumerate(searches)}
    return known_length({name: (costs[f"{name} {LENGTHS[0]}"], costs[f"{name} {LENGTHS[1]}"]) for name in names}, {
        "baseline": f"{params.baseline} {GREEDY}", "sentences": len(sentences),
        "rule": f"sources of at least {params.speed.long_tokens} pieces", "repetitions": params.speed.repetitions,
        "device": lab.device.type})


def told(name: str, entry: Mapping[str, Any], limit: LengthLimit, sentences: Sequence[Tensor],
         lengths: Sequence[int]) -> Decoder:
    """A Jacobi decoder that is told how long the translations of some sentences are.

    It expects just that length, and its limit is where the translation ends, so that nothing is drafted after it.

    Args:
        name: of the decoder.
        entry: its entry of `decoders`, of algorithm `jacobi`.
        limit: under which the lengths were found.
        sentences: (1, S) ids each.
        lengths: words of their translations, without an end symbol.
    """
    searches = {}
    for sentence, length in zip(sentences, lengths, strict=True):
        words = max(1, min(length, int(limit.words(sentence))))  # one that was cut has a word in the place of its end
        searches[tuple(sentence[0].tolist())] = make_decoder(
            name, {**entry, "ratio": 0.0, "extra": length + 1}, LengthLimit(0, words, words))

    def search(model: Any, source: Tensor) -> Hypotheses:
        return searches[tuple(source[0].tolist())](model, source)
    return search


def known_length(costs: Mapping[str, tuple[Cost, Cost]], header: Mapping[str, Any]) -> Finding:
    """Set decoders side by side with themselves.

    Args:
        costs: of every decoder, with a length that it expects and with the one that it is told.
        header: of the metric: what was timed, and how.
    """
    rows = [(name, length, cost) for name, both in costs.items() for length, cost in zip(LENGTHS, both, strict=True)]
    metric = {**header, "decoders": {name: {length: cost.figures() for length, cost in zip(LENGTHS, both, strict=True)}
                                     for name, both in costs.items()}}
    return Finding(metric, _draw(rows, str(header["baseline"])))


def _draw(rows: Sequence[tuple[str, str, Cost]], baseline: str) -> Figure:
    figure, (axes,) = chart.new_picture()
    chart.bars(axes, {f"{name}, length {length}": cost.speedup[0] for name, length, cost in rows},
               [chart.COLOURS[LENGTHS.index(length)] for _, length, _ in rows])
    axes.axvline(1, color=chart.THEME.muted, linewidth=1, linestyle="--")
    chart.name_axes(axes, f"times as fast as {baseline}", "", "long sentences, one at a time")
    return figure
