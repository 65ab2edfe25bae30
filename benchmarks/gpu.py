"""Everything that only a GPU can show, in one go and without network: for a machine that is lent for minutes.

    python -m pipeline repro --profile gpu bpe           # where the network is: profiles/gpu/data has to come along
    python -m benchmarks.gpu --output out                # about twelve minutes
    python -m benchmarks.gpu --parts steps --output out

Each part is a process of its own, with a limit, and writes a file into the folder; the others run if one fails.

* `tests`: the tests marked `gpu`, two processes on one GPU among them.
* `systems`: Transformer base of `presets/gpu.yaml`, from the teacher's training over distillation and students to the
  evaluation of every decoder (`benchmarks.stages`).
* `speed`: those systems on the pipeline's clock, Hugging Face's `generate` among them, and their report.
* `steps`: a step of greedy search, computed operation by operation and launched as a recorded graph, against the time
  of reading its weights, at d=128 and d=512, for 1 to 128 sentences, in float32, bfloat16 and float16.
* `viterbi`: a lattice's best path, serial, as search takes it and as a scan, for K = 16 to 128.
* `searches`: every decoder over greedy search (`benchmarks.regimes`), for 1 to 128 sentences, with random weights and
  the tokens per call of trained drafters.
* `training`: target tokens per second of Transformer base (`benchmarks.trainers`), ours and Hugging Face's Trainer.

`summary.json` has the seconds and the exit status of each part, and the figures that it wrote. What `systems` and
`speed` make is in profiles/gpu. For a machine without git, `--commit` names the commit of the code.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.clock import about, argument_parser
from benchmarks.shapes import SHAPES
from pipeline import guard
from pipeline.decoding.chain import Edges, best_paths, recorded_viterbi
from pipeline.engine.door import open_engine, use_engine
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.formats import FORMATS, HALVES, in_format
from pipeline.model.settings import OrderSettings
from pipeline.vocabulary import EOS, SPECIALS
from pipeline.workspace import PROFILES

PYTHON = [sys.executable, "-m"]
PROFILE = "gpu"
FOLDER = PROFILES / PROFILE


class Part(NamedTuple):
    """A process."""

    command: list[str]
    """After `python -m`."""
    limit: int
    """In seconds."""
    folder: Path = Path()
    """Where it runs."""
    writes: bool = True
    """Whether it takes `--output` and writes JSON."""


PARTS = {
    "tests": Part(["pytest", "-m", "gpu", "-n", "6", "-p", "no:cacheprovider", "tests/engine",
                   "tests/training/test_devices.py"], 150, writes=False),
    "systems": Part(["benchmarks.stages", PROFILE, "--jobs", "6"], 420),
    "speed": Part(["pipeline", "speed"], 180, FOLDER, writes=False),
    "steps": Part(["benchmarks.gpu", "--part", "steps"], 75),
    "viterbi": Part(["benchmarks.gpu", "--part", "viterbi"], 30),
    "searches": Part(["benchmarks.regimes", "--device", "cuda", "--widths", "512", "128", "--precisions", "bfloat16",
                      "--sentences", "1", "8", "32", "128", "--rounds", "6"], 130),
    "training": Part(["benchmarks.trainers", "--device", "cuda", "--batch-tokens", "4000", "--steps", "60", "--rounds",
                      "2", "--precisions", "bfloat16"], 120),
}
VOCABULARY, SOURCE, TOKENS, REPETITIONS = 3000, 25, 30, 20
SIZES, WIDTHS, CANDIDATES = (1, 8, 32, 128), (512, 128), (16, 32, 64, 128)


def bandwidth() -> float:
    """Bytes per second that the GPU reads, in a copy of a gigabyte."""
    one = torch.empty(2**28, device="cuda")
    other = torch.empty_like(one)
    return one.numel() * one.element_size() / seconds_of(lambda: other.copy_(one)) * 2


def seconds_of(work: Callable[[], object], repetitions: int = REPETITIONS) -> float:
    """The median of several times of some work on the GPU, by its own clock."""
    times = []
    for _ in range(3):
        work()
    for _ in range(repetitions):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def steps() -> list[dict[str, Any]]:
    """Milliseconds per step of 30, by width, format, sentences and engine, and the time of reading the weights."""
    rows, read = [], bandwidth()
    for width in WIDTHS:
        network = random_model(OrderSettings("left_to_right"), VOCABULARY, SHAPES[width], torch.device("cuda"))
        for precision in (FORMATS[0], *HALVES):
            model = in_format(network, precision)
            decoder = sum(one.numel() * one.element_size() for name, one in model.named_parameters()
                          if name.startswith("decoder") or name == "projection.weight")
            for size in SIZES:
                source = torch.randint(len(SPECIALS), VOCABULARY, (size, SOURCE), device="cuda")
                source[:, -1] = EOS
                row = {"width": width, "precision": precision, "sentences": size,
                       "reading_ms": 1e3 * decoder / read}
                for engine, name in (("torch", "eager_ms"), ("compiled", "graph_ms")):
                    with use_engine(engine), torch.inference_mode():  # type: ignore[arg-type]
                        row[name] = 1e3 * seconds_of(walk(open_engine(model), source)) / TOKENS
                rows.append(row)
                print(row, flush=True)
    return rows


def walk(model: Any, source: Tensor) -> Callable[[], None]:
    """Thirty steps of one token, each the best after the last one."""
    memory = model.encode(source)

    def walked() -> None:
        state, tokens = model.start(memory, capacity=TOKENS), source[:, :1]
        for _ in range(TOKENS):
            tokens = model.step(tokens, state).argmax(2)
    return walked


def viterbi() -> list[dict[str, Any]]:
    """Milliseconds of the best path of lattices of 30 positions: serial, as search takes it, and as a scan."""
    rows = []
    for size in (1, 32):
        for K in CANDIDATES:
            draw = torch.Generator("cuda").manual_seed(1)
            edges = Edges(*(torch.randn(shape, device="cuda", generator=draw)
                            for shape in ((size, K), (size, TOKENS - 1, K, K), (size, TOKENS, K))))
            row: dict[str, Any] = {"candidates": K, "sentences": size}
            for name, search in (("serial_ms", lambda e: best_paths(e, 1)), ("recorded_ms", recorded_viterbi),
                                 ("scan_ms", lambda e: best_paths(e, 1, associative=True))):
                row[name] = 1e3 * seconds_of(partial(search, edges))
            rows.append(row)
            print(row, flush=True)
    return rows


def run_parts(names: list[str], folder: Path, commit: str | None) -> dict[str, Any]:
    """Run each part in a process; what came of it, and the figures that it wrote, which get the commit."""
    found = {}
    for name in names:
        part, output = PARTS[name], folder / f"{name}.json"
        more = ["--output", str(output.absolute())] if part.writes else []
        start = time.perf_counter()
        with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
            process = guard.start([*PYTHON, *part.command, *more], part.folder, os.environ, log.fileno())
            try:
                code: int | str = process.wait(part.limit)
            except subprocess.TimeoutExpired:
                code = f"over its limit of {part.limit} s"
            finally:  # with its own processes, which would stay on the GPU
                guard.stop([process])
        figures = json.loads(output.read_text(encoding="utf-8")) if output.exists() else None
        if commit and figures and "made" in figures:
            figures["made"]["commit"] = commit
            write_json(output, figures)
        found[name] = {"exit": code, "seconds": round(time.perf_counter() - start, 1), "figures": figures}
        print(f"{name}: exit {code}, {found[name]['seconds']} s", flush=True)
        print("".join((folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines(True)[-12:]))
    return found


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--part", choices=("steps", "viterbi"), help="run this one here; --output is then its file")
    parser.add_argument("--output", type=Path, default=Path("gpu"))
    parser.add_argument("--commit", help="of the code (default: git's answer)")
    options = parser.parse_args()
    if options.part is not None:
        rows = {"steps": steps, "viterbi": viterbi}[options.part]()
        write_json(options.output, {**about([]), "rows": rows})
        return
    options.output.mkdir(parents=True, exist_ok=True)
    description = about([])
    description["made"]["commit"] = options.commit or description["made"]["commit"]
    found = run_parts(options.parts, options.output, options.commit)
    write_json(options.output / "summary.json", {**description, "parts": found})


if __name__ == "__main__":
    main()
