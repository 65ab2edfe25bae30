"""A batch of 32 sentences searched together, in one portion per thread, or in threads that take one or a few at a time.

Which is soonest depends on the model's size.

    python -m benchmarks.apart
    python -m benchmarks.apart --rounds 2 --output quick.json   # does it run?

Random weights in float32 and 8 bits, sources of 5 to 40 pieces, as many words out as pieces in: weights that have
learnt nothing seldom end a sentence before its limit. `engine/door.py` and `engine/bounds.py` take their bounds from
here.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.clock import RESULTS, about, argument_parser, interleave, median_ratio, table, timed
from benchmarks.shapes import BASE, DEFAULT
from pipeline.decoding import beam, greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.threaded import search_in_portions, search_in_threads
from pipeline.engine import bounds
from pipeline.engine.door import open_engine, sharing_by
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.formats import COMPILED, in_format
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import EOS, PAD, SPECIALS

MODELS = (
    (DEFAULT, 3000),
    (NetworkSettings(width=192, heads=6, feed_forward=768, encoder_layers=2, decoder_layers=2), 4000),
    (NetworkSettings(width=256, heads=4, feed_forward=1024, encoder_layers=3, decoder_layers=3), 8000),
    (BASE, 16000))
ROWS, SHORTEST, LONGEST = 32, 5, 40
LIMIT = LengthLimit(ratio=1.0, extra=0, longest=255)
Search = Callable[[torch.Tensor], Hypotheses]


def batch(vocabulary: int) -> torch.Tensor:
    """(32, 40) random ids, of lengths evenly spread."""
    random = torch.Generator().manual_seed(1)
    source = torch.randint(len(SPECIALS), vocabulary, (ROWS, LONGEST), generator=random)
    lengths = torch.linspace(SHORTEST, LONGEST, ROWS).long().unsqueeze(1)
    places = torch.arange(LONGEST)
    return source.masked_fill(places == lengths - 1, EOS).masked_fill(places >= lengths, PAD)


@torch.inference_mode()
def measure(settings: NetworkSettings, vocabulary: int, quantization: str, rounds: int) -> dict[str, Any]:
    """Seconds of a batch by each way, and how many times as fast as together the other two are."""
    network, source = random_model(OrderSettings("left_to_right"), vocabulary, settings), batch(vocabulary)
    model = open_engine(in_format(network, quantization))
    searches: dict[str, Search] = {
        "greedy": lambda rows: greedy.search(model, rows, LIMIT),
        "beam 5": lambda rows: beam.search(model, rows, LIMIT, beam.Settings(5))}

    def together(search: Search, rows: torch.Tensor) -> Hypotheses:
        with sharing_by(model):
            return search(rows)

    ways: dict[str, Callable[[Search, torch.Tensor], Hypotheses]] = {
        "together": together, "apart": search_in_threads,
        "a_few": partial(search_in_threads, at_once=bounds.sentences_per_call(ROWS)),
        "in_portions": partial(search_in_portions, portions=torch.get_num_threads())}
    seconds = interleave({f"{name}, {way}": timed(partial(run, search, source))
                          for name, search in searches.items() for way, run in ways.items()}, rounds, warmup=1)
    return {"network": asdict(settings), "vocabulary": vocabulary, "quantization": quantization,
            "megabytes": sum(one.numel() * one.element_size() for one in network.parameters()) / 2**20,
            "milliseconds": {name: float(1000 * sorted(one)[len(one) // 2]) for name, one in seconds.items()},
            **{f"{way}_over_together": {name: median_ratio(seconds[f"{name}, together"], seconds[f"{name}, {way}"])
                                        for name in searches} for way in ways if way != "together"}}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=RESULTS / "apart.json")
    options = parser.parse_args()
    description = about(["torch"])
    results = [measure(*model, quantization, options.rounds) for model in MODELS for quantization in COMPILED]
    write_json(options.output, {**description, "rounds": options.rounds, "rows": ROWS, "results": results})
    print(table(["model", "MB in float32", "format", "search", "together, ms", "apart, times as fast", "a few",
                 "in portions"], [
        ["d={width}, {encoder_layers}+{decoder_layers}".format(**row["network"]), f"{row['megabytes']:.0f}",
         row["quantization"], name, f"{row['milliseconds'][f'{name}, together']:.1f}",
         *("{:.2f} [{:.2f}, {:.2f}]".format(*row[f"{way}_over_together"][name])
           for way in ("apart", "a_few", "in_portions"))]
        for row in results for name in row["apart_over_together"]]))


if __name__ == "__main__":
    main()
