"""Time all systems under all their decoders, and the peers, in turn sentence by sentence: reports/speed.json.

With --model, time only that model folder or checkpoint, under any of its decoders, a checkpoint also by its own
library, by the block `speed` of params.yaml, and print a table.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline import layout
from pipeline.documents.plain import read_utf8
from pipeline.errors import PipelineError
from pipeline.files import check_output
from pipeline.model_options import add_checkpoint_arguments, open_model
from pipeline.params import load_params


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_arguments(parser)
    parser.add_argument("--decoder", action="append", metavar="NAME",
                        help="an entry of `decoders` for the --model; repeat it for several (default: all of the model "
                             "folder; greedy for hf:NAME)")
    parser.add_argument("--peer", action="append", metavar="NAME",
                        help="an entry of `peers` of library hf: the --model hf:NAME by its own library; repeat it for "
                             "several")
    parser.add_argument("--input", type=Path, help="text file for the --model (default: the test split)")
    parser.add_argument("--output", type=Path, help="JSON of the --model's figures")
    parser.add_argument("--device", help="cpu, cuda or auto, for the --model (default: that of the block `speed`)")


def run(arguments: argparse.Namespace) -> None:
    params = load_params()
    if arguments.model is None:
        _refuse(arguments, "decoder", "peer", "input", "output", "device", "source_language", "target_language")
        from pipeline.evaluation.clock import time_all

        time_all(params, layout.REPORTS / "speed.json")
        return
    source = arguments.input or layout.CORPUS / "test.source"
    lines = list(read_utf8(source))
    if arguments.output is not None:
        check_output(arguments.output, source)
    from pipeline.evaluation.machine import describe_machine
    from pipeline.evaluation.one_model import peers_of, time_model
    from pipeline.evaluation.peers import Numbering
    from pipeline.files import replacing, write_json

    opened = open_model(arguments)
    model, settings, checkpoint = opened.model, opened.settings, opened.checkpoint
    speed = params.speed if arguments.device is None else replace(params.speed, device=arguments.device)
    if checkpoint is not None:
        numbering = Numbering(checkpoint.network.source_ids, checkpoint.network.symbols.first)
        rows = time_model(settings, speed, model, arguments.decoder or ["greedy"], lines,
                          peers_of(params, arguments.peer or ()), checkpoint.folder, numbering)
    elif arguments.peer:
        raise PipelineError("--peer: other libraries search checkpoints of transformers; export the family to hf and "
                            "name that folder, --model hf:FOLDER")
    else:
        rows = time_model(settings, speed, model, arguments.decoder or opened.decoders, lines)
    print(_table(rows))
    if arguments.output is not None:
        write_json(arguments.output, {"model": arguments.model, "machine": describe_machine(), "decoders": rows},
                   replacing)


def _refuse(arguments: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) is not None:
            raise PipelineError(f"--{name.replace('_', '-')}: is of --model; without it, the families, decoders, "
                                "peers and the device are those of params.yaml")


def _table(rows: list[dict[str, Any]]) -> str:
    first = rows[0]["name"]
    lines = [f"{'':<20} {'ms/sentence':>12} {'calls':>7} {'tokens/s':>9} {'batch 32':>9}  times as fast as {first}"]
    for row in rows:
        calls = "–" if row["calls"] is None else f"{row['calls']:.1f}"
        ratio, low, high = row["speedup"]
        lines.append(f"{row['name']:<20} {row['ms_per_sentence']:12.1f} {calls:>7} {row['tokens_per_second']:9.0f} "
                     f"{row['tokens_per_second_batch32']:9.0f}  {ratio:.2f} [{low:.2f}, {high:.2f}]")
    return "\n".join(lines)
