"""What a step over more rows costs against one over one row, and how near it is to the time of reading its weights.

    python -m benchmarks.rows
    python -m benchmarks.rows --width 256 1024 --repetitions 10

A model of base size (6+6 layers, feed-forward blocks of four times the width, a head per 64 numbers, vocabulary 16,000)
with random weights in float32. The rows are beams of one sentence of 25 pieces that have read 12 tokens; a step ends
with all logits. Every time is the least of all repetitions, in which all contestants take turns. A step has to read all
weights, so it takes at least their bytes over the bandwidth of a core: that of NumPy's sum of as many bytes as integers
of 64 bits, which is faster than half a copy.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.clock import RESULTS, Turn, about, argument_parser, interleave, table
from benchmarks.step import SOURCE, random_model, read_and_forget, timed
from pipeline.files import write_json
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import SPECIALS

ROWS = (1, 2, 4, 5, 8, 10, 16, 20, 32, 64)
LAYERS, VOCABULARY, PAST = 6, 16000, 12


@torch.inference_mode()
def measure(width: int, repetitions: int) -> dict[str, Any]:
    """Milliseconds of a step over each number of rows, compiled and by torch, and of reading as much as its weights."""
    model: Any = random_model(OrderSettings("left_to_right"), VOCABULARY, NetworkSettings(
        width=width, heads=max(width // 64, 1), feed_forward=4 * width, encoder_layers=LAYERS, decoder_layers=LAYERS))
    random = torch.Generator().manual_seed(1)
    memory = model.encode(torch.randint(len(SPECIALS), VOCABULARY, (1, SOURCE), generator=random))
    contestants: dict[str, Turn] = {}
    for rows in ROWS:
        tokens = torch.randint(len(SPECIALS), VOCABULARY, (rows, 1), generator=random)
        state = model.start(memory, beams=rows)
        while state.length < PAST:
            model.step(tokens, state)
        step: Callable[..., None] = partial(read_and_forget, model, state, tokens, kept=PAST)
        contestants[f"{rows} compiled"] = timed(partial(step, few=10**9))
        contestants[f"{rows} torch"] = timed(partial(step, few=0))
    packed = model.packs.decoder
    weights = np.ones((packed.matrices.nbytes + packed.outputs.nbytes) // 8, np.int64)
    contestants["reading"] = timed(weights.sum)
    least = {name: 1e3 * float(one.min()) for name, one in interleave(contestants, repetitions, warmup=2).items()}
    reading = least["reading"]
    return {"width": width, "megabytes": weights.nbytes / 1e6, "gigabytes_per_second": weights.nbytes / reading / 1e6,
            "steps": [{"rows": rows, "ms": least[f"{rows} compiled"], "torch_ms": least[f"{rows} torch"],
                       "over_one_row": least[f"{rows} compiled"] / least["1 compiled"],
                       "over_reading": least[f"{rows} compiled"] / reading} for rows in ROWS]}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--width", type=int, nargs="+", default=[512])
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2, help="of torch; a compiled step takes one")
    parser.add_argument("--output", type=Path, default=RESULTS / "rows.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    description = about(["numba", "torch"])
    results = [measure(width, options.repetitions) for width in options.width]
    write_json(options.output, {**description, "repetitions": options.repetitions, "widths": results})
    for found in results:
        print("width {width}: {megabytes:.0f} MB of weights a step, {gigabytes_per_second:.1f} GB/s".format(**found))
        print(table(["rows", "ms", "over one row", "over reading", "ms by torch"], [
            [str(step["rows"]), *(f"{step[name]:.2f}" for name in ("ms", "over_one_row", "over_reading", "torch_ms"))]
            for step in found["steps"]]))


if __name__ == "__main__":
    main()
