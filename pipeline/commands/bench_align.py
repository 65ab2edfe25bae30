"""Compare our word alignment with the published fast_align: error rate on hand-made links, and time.

The gold is the Greek New Testament with an English translation (the data of the wheel bible-alignments 0.4.2, CC-BY,
downloaded once into data/benchmarks). The published fast_align is the package systran-align of the extra `benchmarks`.
Times are whole processes, one system after the other, on the gold verses, on the training pairs of this folder, and on
--source and --target if given. Run it on an idle machine.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", type=Path, help="a text of your own to time: a sentence a line, words apart")
    parser.add_argument("--target", type=Path, help="its translation")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system (default: 5; 0: error rates alone)")
    parser.add_argument("--threads", type=int, default=2, help="of each system (default: 2)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/alignment.json"),
                        help="default: benchmarks/results/alignment.json")


def run(arguments: argparse.Namespace) -> None:
    from pipeline.errors import PipelineError

    if (arguments.source is None) != (arguments.target is None):
        raise PipelineError("bench-align: one of --source and --target is missing; give both sides of your text")
    if arguments.rounds < 0 or arguments.threads < 1:
        raise PipelineError(f"bench-align: --rounds {arguments.rounds} --threads {arguments.threads}: give at least 0 "
                            "rounds and 1 thread")
    try:
        from benchmarks.alignment import Settings
        from benchmarks.alignment import run as measure
    except ModuleNotFoundError as error:
        if error.name != "benchmarks":
            raise
        raise PipelineError("bench-align: the folder benchmarks is not here; run it in a checkout's root") from None
    own = (arguments.source.resolve(), arguments.target.resolve()) if arguments.source else None
    measure(Settings(arguments.rounds, arguments.threads), own, arguments.out)
