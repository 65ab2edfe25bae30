"""How long does the first search of each kind compile, where there is no machine code yet?

    python -m benchmarks.compiling

One process with an empty folder for machine code translates a sentence by one search after the other, each twice; what
the first time takes longer than the second is compiling. A search compiles what those before it have not compiled.
Random weights of the default model's shape with 3,000 pieces, float32.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.clock import RESULTS, about, argument_parser, table
from pipeline.files import write_json

SEARCHES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ar greedy": ("ar", {"algorithm": "greedy"}),
    "ar beam5": ("ar", {"algorithm": "beam", "beams": 5}),
    "ar iad": ("ar", {"algorithm": "iad", "block": 4}),
    "ar pgj3": ("ar", {"algorithm": "jacobi", "block": 3}),
    "speculative speculative": ("speculative", {"algorithm": "speculative", "block": 2}),
    "drafter gad": ("drafter", {"algorithm": "gad", "block": 2}),
}
"""By system and decoder, one after the other: the model (`regimes.make_model`) and the entry of `decoders`."""
VOCABULARY, SOURCE, LONGEST, WIDTH = 3000, 12, 20, 128
_CHILD = "import json; from benchmarks.compiling import compile_all; print(json.dumps(compile_all()))"


def compile_all() -> dict[str, float]:
    """Seconds of compiling by search, in this process."""
    import torch  # only in the process that has the empty folder

    from benchmarks.regimes import make_model
    from benchmarks.shapes import SHAPES
    from docs.reports import parameters
    from pipeline.decoding.limits import LengthLimit
    from pipeline.decoding.settings import make_decoder
    from pipeline.evaluation.analyses.random_weights import random_model
    from pipeline.model.settings import OrderSettings

    torch.set_num_threads(1)
    verifier = random_model(OrderSettings("left_to_right"), VOCABULARY, SHAPES[WIDTH])
    source = torch.randint(10, VOCABULARY, (1, SOURCE), generator=torch.Generator().manual_seed(1))
    seconds = {}
    for name, (model, entry) in SEARCHES.items():
        made = make_model(model, verifier, SHAPES[WIDTH], VOCABULARY, torch.device("cpu"), parameters().family(model))
        decode = make_decoder(name, entry, LengthLimit(ratio=0, extra=LONGEST, longest=LONGEST))
        times = []
        for _ in range(2):
            began = time.perf_counter()
            decode(made, source)
            times.append(time.perf_counter() - began)
        seconds[name] = times[0] - times[1]
    return seconds


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "compiling.json", help="where the result is written")
    output = parser.parse_args().output
    found = about(["numba", "llvmlite", "torch"])
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run([sys.executable, "-c", _CHILD], env={**os.environ, "NUMBA_CACHE_DIR": empty},
                              stdout=subprocess.PIPE, check=True)
    found["seconds"] = json.loads(done.stdout)
    write_json(output, found)
    print(table(["first search", "s"], [[name, f"{took:.1f}"] for name, took in found["seconds"].items()]))


if __name__ == "__main__":
    main()
