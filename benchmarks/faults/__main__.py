"""A fault campaign: damage a small run in every way that docs/reliability.md names, and compare what happens.

    python -m benchmarks.faults                       # all kinds
    python -m benchmarks.faults --only flip disk      # some; the results of the others are kept
    python -m benchmarks.faults --only kill --kills 50 --seed 1

It clones what is committed, runs PROFILE=smoke there undisturbed, and then damages copies of it, or runs it again and
disturbs it. Moments, places and victims are drawn from the seed. Full disks and read-only caches are mounted, which
needs root; where that is not allowed, these kinds are skipped. Results: benchmarks/results/faults.json, which
`python -m docs.generate` shows in docs/reliability.md.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning  # noqa: F401  # before the forks, which need it
import torch

from benchmarks.clock import RESULTS, about, argument_parser
from benchmarks.faults import caches, clocks, disks, flips, kills, together
from benchmarks.faults.workshop import Outcome, Workshop
from pipeline.files import write_json


class Kind(NamedTuple):
    """A kind of fault."""

    title: str
    try_out: Callable[[Workshop], list[Outcome]]


def kinds(count: int, tries: int) -> dict[str, Kind]:
    """Each kind of fault by its name; `count` kills, and `tries` faults in each file or stage."""
    return {  # those that begin the run anew are the last
        "flip": Kind("a flipped bit in a file that is read", partial(flips.flips, tries=tries)),
        "work": Kind("a flipped bit in unfinished work", partial(flips.in_unfinished_work, tries=tries)),
        "disk": Kind("a disk that fills within a stage", partial(disks.full, tries=tries)),
        "clock": Kind("a clock that jumps by a day before a run continues", clocks.jumps),
        "cache": Kind("a cache that cannot be written", caches.read_only),
        "together": Kind("two runs at once; `translate` killed", together.two),
        "kill": Kind("`kill -9` of the runner, a stage, DVC, or all at once",
                     partial(kills.campaign, signals=kills.KILLED, count=count)),
        "term": Kind("SIGTERM to the runner, a stage, or all at once",
                     partial(kills.campaign, signals=kills.TERMINATED, count=max(1, count // 8))),
        "memory": Kind("`kill -9` of the stage with most memory, as the system does without memory",
                       partial(kills.campaign, signals=kills.LARGEST, count=max(1, count // 12)))}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser(__doc__)
    every = list(kinds(0, 0))
    parser.add_argument("--only", nargs="+", choices=every, default=every, metavar="KIND",
                        help="of " + ", ".join(every))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=50, help="`kill -9` of processes of a whole run")
    parser.add_argument("--tries", type=int, default=3, help="flipped bits per file, and full disks per stage")
    parser.add_argument("--work", type=Path, help="folder of an earlier campaign, whose undisturbed run is taken")
    parser.add_argument("--output", type=Path, default=RESULTS / "faults.json")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # a pool of threads would not survive a fork
    results: dict[str, Any] = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    faults = 0
    with nullcontext(options.work) if options.work else tempfile.TemporaryDirectory(prefix="faults-") as work:
        Path(work).mkdir(parents=True, exist_ok=True)
        for name in options.only:
            kind = kinds(options.kills, options.tries)[name]
            workshop = Workshop(Path(work).resolve(), options.seed)
            kills.undisturbed(workshop)
            start = time.monotonic()
            try:
                outcomes = [outcome._replace(happened=outcome.happened.replace(f"{workshop.clone}/", ""))
                            for outcome in kind.try_out(workshop)]
            except PermissionError as error:
                print(f"{name}: skipped: {error}")
                continue
            for outcome in outcomes:
                print(f"{'as promised' if outcome.passed else 'FAULT':<12}{name}: {outcome.what}: {outcome.happened}",
                      flush=True)
            faults += sum(not outcome.passed for outcome in outcomes)
            results[name] = {"title": kind.title, **about(["dvc", "numba", "pytorch-lightning", "torch"]),
                             "seed": options.seed, "seconds": round(time.monotonic() - start),
                             "outcomes": [outcome._asdict() for outcome in outcomes]}
            write_json(options.output, results)
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
