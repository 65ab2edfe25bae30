"""How many times faster several words a step are, and where the rest of the time goes, on random weights.

    python -m benchmarks.multi_token
    python -m benchmarks.multi_token --rounds 2 --output quick.json   # does it run?

Alone in its batch, every system translates sources of 30 random pieces into 30 words. Its end symbol is out of reach
and it is cut at the length limit, whose last step is the one that the end would have taken: as many calls as for 30
words and their end (31, or 16 with two words a step, or 8 with four). One beam is greedy search.

* `double_token`: its pair beam against `ar`'s beam, over beams, vocabularies and models.
* `orders`: every multi-token order against `ar`.
* `depth`: the interleaved order with 2 decoder layers against `ar` with 6, under as many encoder layers.

A second run with a timer around each verb tells the sentence's fixed costs E (encode and start) from those of a call, s
(step, select and the search's own), so that a ratio can be read off: (E + n s) / (E' + n' s') with n calls.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.clock import RESULTS, Turn, about, argument_parser, interleave, median_ratio, table
from benchmarks.step import NETWORK, VERBS, Timed, shares
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import SPECIALS

WORDS = SOURCE = 30
VOCABULARY = 3000
WARMUP = 3
BASELINE = "ar"

MODELS = (NETWORK,
          NetworkSettings(width=256, heads=4, feed_forward=1024, encoder_layers=4, decoder_layers=4),
          NetworkSettings(width=512, heads=8, feed_forward=2048, encoder_layers=6, decoder_layers=6))


@dataclass(frozen=True)
class System:
    """An order, the network that has it and the algorithm that searches it where there is more than one beam."""

    order: OrderSettings
    network: NetworkSettings = NETWORK
    algorithm: str = "beam"

    def decoder(self, beams: int) -> Decoder:
        block = {"algorithm": "greedy"} if beams == 1 else {"algorithm": self.algorithm, "beams": beams}
        return make_decoder(self.algorithm, block, LengthLimit(ratio=0, extra=WORDS, longest=WORDS))


AR = System(OrderSettings("left_to_right"))
ORDERS = {
    BASELINE: AR,
    "semi_autoregressive": System(OrderSettings("left_to_right", words=2)),
    "interleaved": System(OrderSettings("interleaved")),
    "interleaved_sa": System(OrderSettings("interleaved", words=2)),
    "multi_directional": System(OrderSettings("multi_directional", directions=4)),
}


def measure(systems: Mapping[str, System], beams: int, vocabulary: int, rounds: int) -> dict[str, Any]:
    """Times of all systems in turn, ratios to the first, and what they consist of."""
    random = torch.Generator().manual_seed(1)
    sources = [torch.randint(len(SPECIALS), vocabulary, (1, SOURCE), generator=random) for _ in range(rounds)]
    models = {name: random_model(system.order, vocabulary, system.network) for name, system in systems.items()}
    decoders = {name: system.decoder(beams) for name, system in systems.items()}

    verbs = {name: np.zeros((rounds, len(VERBS))) for name in systems}
    calls = {name: np.zeros(rounds) for name in systems}

    def plain(name: str) -> Turn:
        return lambda item: _translate(decoders[name], models[name], sources[item])[0]

    def dissecting(name: str) -> Turn:
        def turn(item: int) -> float:
            timed = Timed(models[name])
            taken, calls[name][item] = _translate(decoders[name], timed, sources[item])
            verbs[name][item] = list(timed.seconds.values())
            return taken
        return turn

    seconds = interleave({name: plain(name) for name in systems}, rounds, warmup=WARMUP)
    dissected = interleave({name: dissecting(name) for name in systems}, rounds, warmup=1)
    parts = {name: {**shares(dissected[name], verbs[name], calls[name]),
                    "ms_per_sentence": 1e3 * float(np.median(seconds[name]))} for name in systems}
    others = [name for name in systems if name != BASELINE]
    return {
        "beams": beams, "vocabulary": vocabulary,
        "systems": {name: {"order": asdict(system.order), "algorithm": system.algorithm if beams > 1 else "greedy",
                           "network": asdict(system.network), **parts[name]} for name, system in systems.items()},
        "ratios": {name: median_ratio(seconds[BASELINE], seconds[name]) for name in others},
        "ratios_by_arithmetic": {name: _total(parts[BASELINE]) / _total(parts[name]) for name in others},
    }


def _translate(decode: Decoder, model: Any, source: Tensor) -> tuple[float, int]:
    """Seconds and calls of one sentence."""
    start = time.perf_counter()
    found = decode(model, source)
    taken = time.perf_counter() - start
    if bool(found.ended.any()):
        raise ValueError("the search ended before its limit: its time is not that of 30 words")
    return taken, int(found.calls[0])


def _fixed(parts: Mapping[str, float]) -> float:
    """E, milliseconds a sentence."""
    return parts["encode_ms"] + parts["start_ms"]


def _own(parts: Mapping[str, float]) -> float:
    """The search's share of s, milliseconds a call."""
    return (parts["select_us_per_call"] + parts["search_us_per_call"]) / 1e3


def _total(parts: Mapping[str, float]) -> float:
    """E + n s, milliseconds."""
    return _fixed(parts) + parts["calls"] * (parts["step_us_per_call"] / 1e3 + _own(parts))


def measure_double_token(rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The double-token ratio over one number at a time, rising; a point that several series share is measured once."""
    series = {
        "beam": {str(beams): (NETWORK, VOCABULARY, beams) for beams in (1, 4, 10)},
        "vocabulary": {str(size): (NETWORK, size, 10) for size in (1000, 3000, 8000, 16000)},
        "model": {describe(network): (network, VOCABULARY, 10) for network in MODELS},
    }
    found = {}
    for point in dict.fromkeys(point for points in series.values() for point in points.values()):
        network, vocabulary, beams = point
        systems = {BASELINE: replace(AR, network=network),
                   "double_token": System(OrderSettings("double_token"), network, "pair_beam")}
        found[point] = measure(systems, beams, vocabulary, rounds)
    return {varied: [{"setting": setting, "ratio": found[point]["ratios"]["double_token"], **found[point]}
                     for setting, point in points.items()] for varied, points in series.items()}


def measure_orders(rounds: int) -> list[dict[str, Any]]:
    """Every multi-token order."""
    return [{"setting": f"beam {beams}", **measure(ORDERS, beams, VOCABULARY, rounds)} for beams in (1, 4)]


def measure_depth(rounds: int) -> list[dict[str, Any]]:
    """Two decoder layers against six."""
    rows = []
    for network in (NETWORK, MODELS[-1]):
        deep, shallow = replace(network, decoder_layers=6), replace(network, decoder_layers=2)
        systems = {BASELINE: System(AR.order, deep), "interleaved": System(OrderSettings("interleaved"), shallow)}
        rows += [{"setting": f"{describe(deep)} against {network.encoder_layers}+2, beam {beams}",
                  **measure(systems, beams, VOCABULARY, rounds)} for beams in (1, 4)]
    return rows


def describe(network: NetworkSettings) -> str:
    return f"d={network.width} {network.encoder_layers}+{network.decoder_layers}"


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of measurements, the arithmetic of each ratio included."""
    header = [title, "calls", "ms", "encode, start", "step, ms a call", "search", "times faster", "by arithmetic"]
    lines = []
    for row in rows:
        for name, parts in row["systems"].items():
            ratio = row["ratios"].get(name)
            lines.append([f"{row['setting']}: {name}", f"{parts['calls']:.0f}", f"{parts['ms_per_sentence']:.2f}",
                          f"{_fixed(parts):.2f}", f"{parts['step_us_per_call'] / 1e3:.3f}", f"{_own(parts):.3f}",
                          "{:.2f} ({:.2f} to {:.2f})".format(*ratio) if ratio else "",
                          f"{row['ratios_by_arithmetic'][name]:.2f}" if ratio else ""])
    return table(header, lines)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="sentences of each measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "multi_token.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    description = about(["numpy"])
    double_token = measure_double_token(options.rounds)
    orders, depth = measure_orders(options.rounds), measure_depth(options.rounds)
    write_json(options.output, {**description, "weights": "random", "words": WORDS, "rounds": options.rounds,
                                "double_token": double_token, "orders": orders, "depth": depth})
    for title, rows in [*double_token.items(), ("orders", orders), ("depth", depth)]:
        print(show(title, rows), end="\n\n")


if __name__ == "__main__":
    main()
