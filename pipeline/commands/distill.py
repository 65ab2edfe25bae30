"""Translate the training source with the teacher: data/distilled, reports/distilled.json.

After an interruption, the same command continues with the first unfinished shard. Several devices write the same bytes
as one. Sources that are longer than the teacher's limit are cut; their number is printed and in the report.
"""

import argparse

from pipeline import layout
from pipeline.errors import PipelineError
from pipeline.files import locked
from pipeline.params import load_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", default="auto",
                        help="how many per node, or auto (default): all GPUs, else one process per CPU core")
    parser.add_argument("--num-nodes", type=int, default=1, metavar="NODES",
                        help="how many nodes share the work; torchrun or srun starts the processes on all (default: 1)")
    parser.add_argument("--accelerator", default="auto", choices=("cpu", "gpu", "auto"),
                        help="cpu, gpu or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.devices != "auto" and not (arguments.devices.isdecimal() and int(arguments.devices)):
        raise PipelineError(f"--devices: {arguments.devices!r} must be a number from 1, or auto")
    if arguments.num_nodes < 1:
        raise PipelineError(f"--num-nodes: {arguments.num_nodes}: must be a number from 1")
    with locked(layout.DISTILLED):
        from pipeline.distillation import distill

        distill(load_params(), None if arguments.devices == "auto" else int(arguments.devices), arguments.accelerator,
                arguments.num_nodes)
