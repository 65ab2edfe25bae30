"""Run a preset's stages without DVC, network and git, each as soon as what it reads is there.

    python -m pipeline repro --profile gpu bpe                           # where the network is: corpus and tokeniser
    python -m benchmarks.stages gpu --jobs 6 --output stages.json        # where profiles/gpu/data came along

The commands are those of dvc.yaml, up to the evaluation of every system; `python -m pipeline speed` in profiles/NAME
then needs the machine for itself. A stage that fails ends neither those that run nor those that do not need it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clock import argument_parser
from pipeline.files import write_json
from pipeline.params import PARAMS, Params, load_params
from pipeline.systems import TEACHER
from pipeline.workspace import prepare


class Stage(NamedTuple):
    """What to run, and after which others."""

    command: list[str]
    """After `python -m pipeline`."""
    needs: set[str]


def stages_of(params: Params) -> dict[str, Stage]:
    """The stages of a run by the names that dvc.yaml gives them, without those of its corpus."""
    found = {"facts": Stage(["facts"], set()),
             TEACHER: Stage(["fit", "--family", TEACHER], {"facts"}),
             "distill": Stage(["distill"], {TEACHER}),
             "align": Stage(["align"], {"distill"}),
             "counts": Stage(["counts"], {"align"})}
    fits = {TEACHER: TEACHER, **{family: f"fit@{family}" for family in params.starts}}
    found["peers"] = Stage(["peers"], {fits[params.baseline]})
    for family, start in params.starts.items():
        reads = {"distill", fits[start], *({"counts"} if params.family(family).kind == "lattice" else set())}
        found[fits[family]] = Stage(["fit", "--family", family], reads)
    for family in params.systems:
        found[f"evaluate@{family}"] = Stage(["test", "--family", family], {fits[family]})
    return found


def run_stages(stages: Mapping[str, Stage], folder: Path, logs: Path, jobs: int) -> dict[str, Any]:
    """Run stages in a folder, some at once; of each its exit status, and when it started and ended, in seconds."""
    begin, done, waiting = time.perf_counter(), dict[str, Any](), dict(stages)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs)), "PYTHONUNBUFFERED": "1"}

    def run(name: str) -> str:
        start = time.perf_counter() - begin
        with (logs / f"{name}.log").open("w", encoding="utf-8") as log:
            code = subprocess.run([sys.executable, "-m", "pipeline", *stages[name].command], cwd=folder,
                                  env=environment, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
        done[name] = {"exit": code, "start": round(start, 1), "end": round(time.perf_counter() - begin, 1)}
        print(json.dumps({name: done[name]}), flush=True)
        return name

    running = set[Future[str]]()
    with ThreadPoolExecutor(jobs) as pool:
        while True:
            succeeded = {name for name, what in done.items() if what["exit"] == 0}
            for name in [name for name, stage in waiting.items() if stage.needs <= succeeded]:
                del waiting[name]
                running.add(pool.submit(run, name))
            if not running:
                return done
            running = wait(running, return_when=FIRST_COMPLETED).not_done


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("preset")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("stages.json"))
    options = parser.parse_args()
    folder = prepare(options.preset)
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    stages = stages_of(load_params(folder / PARAMS))
    found = run_stages(stages, folder, logs, options.jobs)
    write_json(options.output, found)
    failed = [name for name in stages if found.get(name, {}).get("exit") != 0]
    if failed:
        sys.exit(f"failed, or not started: {', '.join(failed)}; their output is in {logs}")


if __name__ == "__main__":
    main()
