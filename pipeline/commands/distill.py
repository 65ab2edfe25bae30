"""Translate the training source with the teacher: data/distilled, reports/distilled.json.

Cut short, the same command goes on with the first unfinished shard. Several devices write the same bytes as one.
Sources that are longer than the teacher reads are cut to its limit: how many is said, and stands in the report.
"""

import argparse
import dataclasses

from pipeline import layout
from pipeline.errors import PipelineError
from pipeline.files import locked
from pipeline.params import load_params
from pipeline.systems import TEACHER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", default="auto",
                        help="how many, or auto (default): all GPUs, else a process a CPU core")
    parser.add_argument("--accelerator", default="auto", choices=("cpu", "gpu", "auto"),
                        help="cpu, gpu or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.devices != "auto" and not (arguments.devices.isdecimal() and int(arguments.devices)):
        raise PipelineError(f"--devices: {arguments.devices!r} must be a number from 1, or auto")
    with locked(layout.DISTILLED):
        _distill(arguments)


def _distill(arguments: argparse.Namespace) -> None:
    import sys

    import pytorch_lightning as lightning
    import torch

    from pipeline.corpus.bpe import Tokenizer
    from pipeline.corpus.pairs import Pairs
    from pipeline.decoding.limits import LengthLimit
    from pipeline.decoding.settings import make_decoder
    from pipeline.distillation import (
        DistillationModule,
        remove_others,
        shards_folder,
        teacher_fingerprint,
        write_distilled,
    )
    from pipeline.files import remove, write_json
    from pipeline.model.checkpoint import load_checkpoint
    from pipeline.training.fit import quiet_lightning

    params = load_params()
    settings = params.distillation
    tokenizer = Tokenizer.load(layout.BPE)
    teacher, _ = load_checkpoint(layout.checkpoint(TEACHER), tokenizer.digest)
    path = layout.BPE / "train.pairs"
    pairs = Pairs.open(path, tokenizer.digest)
    block = params.decoder(settings.decoder)
    limit = LengthLimit(params.limit.ratio, params.limit.extra, teacher.settings.max_length - 1)
    decode = make_decoder(settings.decoder, block, limit)
    fingerprint = teacher_fingerprint(layout.checkpoint(TEACHER), path, {
        "decoder": block, "limit": dataclasses.asdict(limit), "distillation": dataclasses.asdict(settings)})
    shards = shards_folder(layout.WORK / ".shards", fingerprint)
    quiet_lightning()
    devices = arguments.devices
    if devices == "auto" and (arguments.accelerator == "cpu" or not torch.cuda.is_available()):
        # Batched search gains more from a process a core than from the threads of one process.
        devices = min(torch.get_num_threads(), -(-(settings.sentences or len(pairs)) // settings.shard_rows))
    trainer = lightning.Trainer(accelerator=arguments.accelerator,
                                devices=devices if devices == "auto" else int(devices), logger=False,
                                enable_checkpointing=False, enable_model_summary=False,
                                use_distributed_sampler=False, enable_progress_bar=sys.stderr.isatty())
    if trainer.is_global_zero:
        remove_others(shards)
    module = DistillationModule(teacher, decode, pairs, shards, shard_rows=settings.shard_rows,
                                batch_rows=settings.batch_rows, sentences=settings.sentences)
    trainer.predict(module, return_predictions=False)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        report = layout.REPORTS / "distilled.json"
        remove(report)  # of what is replaced now
        write_json(report, write_distilled(module, pairs, tokenizer.target_size, layout.DISTILLED))
        remove(shards.parent)
    trainer.strategy.barrier()  # no process comes back while the first one still writes
