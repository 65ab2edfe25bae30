"""What a step over more rows costs against one over one row, and how near it is to the time of reading its weights.

    python -m benchmarks.rows
    python -m benchmarks.rows --width 256 1024 --repetitions 10

A model of base size (6+6 layers, feed-forward blocks of four times the width, a head per 64 numbers, vocabulary 16,000)
with random weights, in float32 and with 8 bits. The rows are beams of one sentence of 25 pieces that have read 12
tokens; a step ends with all logits. It is taken by one thread, by all of a team, and by torch in as many threads. Every
time is the least of all repetitions, in which all contestants take turns. A step has to read all weights, so it takes
at least their bytes over the bandwidth: that of NumPy's sum of as many bytes as integers of 64 bits, which is faster
than half a copy, by one thread or, each of them a share, by as many as a team has.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.clock import RESULTS, Turn, about, argument_parser, interleave, table, timed
from benchmarks.step import ALWAYS, NEVER, SOURCE, read_and_forget
from pipeline.engine.door import open_engine
from pipeline.engine.helpers import together, using_all_cores
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.formats import COMPILED, in_format
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import SPECIALS

ROWS = (1, 2, 4, 5, 8, 10, 16, 20, 32, 64)
LAYERS, VOCABULARY, PAST = 6, 16000, 12
STEPS = 5
"""Steps of a turn, as a search takes them: helpers need a moment to begin."""


@torch.inference_mode()
def measure(width: int, quantization: str, repetitions: int) -> dict[str, Any]:
    """Milliseconds of a step over each number of rows, and of reading as much as its weights, by one thread and all."""
    network: Any = random_model(OrderSettings("left_to_right"), VOCABULARY, NetworkSettings(
        width=width, heads=max(width // 64, 1), feed_forward=4 * width, encoder_layers=LAYERS, decoder_layers=LAYERS))
    model, random = open_engine(in_format(network, quantization)), torch.Generator().manual_seed(1)
    memory = model.encode(torch.randint(len(SPECIALS), VOCABULARY, (1, SOURCE), generator=random))
    contestants: dict[str, Turn] = {}
    for rows in ROWS:
        tokens = torch.randint(len(SPECIALS), VOCABULARY, (rows, 1), generator=random)
        state = model.start(memory, beams=rows)
        while state.length < PAST:
            model.step(tokens, state)
        contestants |= {f"{rows} {way}": timed(one) for way, one in _ways(model, state, tokens, quantization).items()}
    turns = list(contestants)
    packed = model.packs.decoder
    weights = np.ones((packed.matrices.nbytes + packed.outputs.nbytes) // 8, np.int64)
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        shares = np.array_split(weights, threads)
        contestants["reading alone"] = timed(weights.sum)
        contestants["reading together"] = timed(lambda: list(pool.map(np.sum, shares)))
        least = {name: 1e3 * float(one.min()) / (STEPS if name in turns else 1)
                 for name, one in interleave(contestants, repetitions, warmup=2).items()}
    return {"width": width, "quantization": quantization, "megabytes": weights.nbytes / 1e6,
            **{f"gigabytes_per_second_{way}": weights.nbytes / least[f"reading {way}"] / 1e6
               for way in ("alone", "together")},
            "steps": [{"rows": rows, "ms": least[f"{rows} alone"], "together_ms": least[f"{rows} together"],
                       **({"torch_ms": least[f"{rows} torch"]} if f"{rows} torch" in least else {}),
                       "over_one_row": least[f"{rows} alone"] / least["1 alone"],
                       "over_reading": least[f"{rows} alone"] / least["reading alone"],
                       "together_over_reading": least[f"{rows} together"] / least["reading together"]}
                      for rows in ROWS]}


def _ways(model: Any, state: Any, tokens: Tensor, quantization: str) -> dict[str, Callable[[], None]]:
    """Some steps by one thread, by all and by torch, which has no products of bytes."""
    step: Callable[..., None] = partial(read_and_forget, model, state, tokens, kept=PAST)

    def alone() -> None:
        with using_all_cores():
            for _ in range(STEPS):
                step(ALWAYS)

    def shared() -> None:
        with together():
            for _ in range(STEPS):
                step(ALWAYS)

    def by_torch() -> None:
        for _ in range(STEPS):
            step(NEVER)
    ways = {"alone": alone, "together": shared}
    return ways if quantization != COMPILED[0] else ways | {"torch": by_torch}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--width", type=int, nargs="+", default=[512])
    parser.add_argument("--quantization", nargs="+", choices=COMPILED, default=list(COMPILED))
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "rows.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    description = about(["numba", "torch"])
    results = [measure(width, quantization, options.repetitions)
               for width in options.width for quantization in options.quantization]
    write_json(options.output, {**description, "threads": options.threads, "repetitions": options.repetitions,
                                "widths": results})
    for found in results:
        print("width {width}, {quantization}: {megabytes:.0f} MB of weights a step, {gigabytes_per_second_alone:.1f} "
              "GB/s by one thread, {gigabytes_per_second_together:.1f} by all".format(**found))
        columns = ("ms", "over_one_row", "over_reading", "together_ms", "together_over_reading", "torch_ms")
        print(table(["rows", "ms", "over one row", "over reading", "ms together", "over reading", "ms by torch"], [
            [str(step["rows"]), *(f"{step[name]:.2f}" if name in step else "-" for name in columns)]
            for step in found["steps"]]))


if __name__ == "__main__":
    main()
