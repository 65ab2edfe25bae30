"""How many times faster several words per step are, and where the rest of the time goes, on random weights.

    python -m benchmarks.multi_token
    python -m benchmarks.multi_token --rounds 2 --output quick.json   # does it run?

Alone in its batch, every system translates sources of 30 random pieces into 30 words. Its end symbol is out of reach
and it is cut at the length limit, whose last step is the one that the end would have taken: as many calls as for 30
words and their end (31, or 16 with two words per step, or 8 with four). One beam is greedy search.

* `double_token`: its pair beam against `ar`'s beam, over beams, vocabularies and models.
* `orders`: every multi-token order against `ar`.
* `depth`: the interleaved order with 2 decoder layers against `ar` with 6, under as many encoder layers.

Searches of half as many words take turns with them, and tell the sentence's fixed costs E from those of a call, s, in
the search as it is: a sentence of n calls takes E + n s, so a ratio is (E + n s) / (E' + n' s').
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.clock import RESULTS, Floats, Turn, about, argument_parser, interleave, median_ratio, table
from benchmarks.shapes import BASE, DEFAULT, MIDDLE
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import SPECIALS

WORDS = SOURCE = 30
FEWER = 15
"""Words of the shorter outputs."""
VOCABULARY = 3000
WARMUP = 3
BASELINE = "ar"

MODELS = (DEFAULT, MIDDLE, BASE)


@dataclass(frozen=True)
class System:
    """An order, the network that has it and the algorithm that searches it where there is more than one beam."""

    order: OrderSettings
    network: NetworkSettings = DEFAULT
    algorithm: str = "beam"

    def decoder(self, beams: int, words: int) -> Decoder:
        block = {"algorithm": "greedy"} if beams == 1 else {"algorithm": self.algorithm, "beams": beams}
        return make_decoder(self.algorithm, block, LengthLimit(ratio=0, extra=words, longest=words))


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
    calls: dict[str, int] = {}

    def translating(name: str, words: int) -> Turn:
        decode = systems[name].decoder(beams, words)

        def turn(item: int) -> float:
            taken, calls[f"{name} {words}"] = _translate(decode, models[name], sources[item])
            return taken
        return turn

    seconds = interleave({f"{name} {words}": translating(name, words) for name in systems for words in (WORDS, FEWER)},
                         rounds, warmup=WARMUP)
    parts = {name: fit(seconds[f"{name} {WORDS}"], calls[f"{name} {WORDS}"],
                       seconds[f"{name} {FEWER}"], calls[f"{name} {FEWER}"]) for name in systems}
    others = [name for name in systems if name != BASELINE]
    return {
        "beams": beams, "vocabulary": vocabulary,
        "systems": {name: {"order": asdict(system.order), "algorithm": system.algorithm if beams > 1 else "greedy",
                           "network": asdict(system.network), **parts[name]} for name, system in systems.items()},
        "ratios": {name: median_ratio(seconds[f"{BASELINE} {WORDS}"], seconds[f"{name} {WORDS}"]) for name in others},
    }


def fit(seconds: Floats, calls: int, shorter: Floats, fewer: int) -> dict[str, float]:
    """What a sentence costs whatever its length and what each call adds to it, from outputs of two lengths.

    Args:
        seconds: (N,) of each sentence.
        calls: of its decoder, the same for all.
        shorter: (N,) of the same sentences with shorter outputs.
        fewer: calls of these.

    >>> fit(np.array([0.005]), 4, np.array([0.003]), 2)
    {'calls': 4, 'ms_per_sentence': 5.0, 'fixed_ms': 1.0, 'ms_per_call': 1.0}
    """
    longer, less = (1e3 * float(np.median(one)) for one in (seconds, shorter))
    per_call = (longer - less) / (calls - fewer)
    return {"calls": calls, "ms_per_sentence": longer, "fixed_ms": longer - calls * per_call, "ms_per_call": per_call}


def _translate(decode: Decoder, model: Any, source: Tensor) -> tuple[float, int]:
    """Seconds and calls of one sentence."""
    start = time.perf_counter()
    found = decode(model, source)
    taken = time.perf_counter() - start
    if bool(found.ended.any()):
        raise ValueError("the search ended before its limit: its time is not that of as many words")
    return taken, int(found.calls[0])


def measure_double_token(rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The double-token ratio over one number at a time, rising; a point that several series share is measured once."""
    series = {
        "beam": {str(beams): (DEFAULT, VOCABULARY, beams) for beams in (1, 4, 10)},
        "vocabulary": {str(size): (DEFAULT, size, 10) for size in (1000, 3000, 8000, 16000)},
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
    for network in (DEFAULT, BASE):
        deep, shallow = replace(network, decoder_layers=6), replace(network, decoder_layers=2)
        systems = {BASELINE: System(AR.order, deep), "interleaved": System(OrderSettings("interleaved"), shallow)}
        rows += [{"setting": f"{describe(deep)} against {network.encoder_layers}+2, beam {beams}",
                  **measure(systems, beams, VOCABULARY, rounds)} for beams in (1, 4)]
    return rows


def describe(network: NetworkSettings) -> str:
    return f"d={network.width} {network.encoder_layers}+{network.decoder_layers}"


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of measurements."""
    header = [title, "calls", "ms", "E, ms", "s, ms a call", "times faster"]
    lines = []
    for row in rows:
        for name, parts in row["systems"].items():
            ratio = row["ratios"].get(name)
            lines.append([f"{row['setting']}: {name}", f"{parts['calls']}", f"{parts['ms_per_sentence']:.2f}",
                          f"{parts['fixed_ms']:.2f}", f"{parts['ms_per_call']:.3f}",
                          "{:.2f} ({:.2f} to {:.2f})".format(*ratio) if ratio else ""])
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
