"""Sequence-level knowledge distillation (Kim and Rush 2016): the teacher's translations as a second target side.

The training source is divided into shards of sentences of similar length. Every shard is a file, so an interrupted run
continues with the first missing one, and devices share the shards. The contents of a shard depend only on the teacher,
the search, the source and the kind of device: any number of devices of one kind writes the same bytes.
"""

import dataclasses
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader

from pipeline import layout
from pipeline.checksums import check, is_recorded, record
from pipeline.corpus.batches import by_tokens
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import count_cut, pad_sources, report_cut
from pipeline.corpus.pairs import Pairs
from pipeline.decoding.settings import Decoder, make_decoder, with_nbest, with_penalty
from pipeline.distillation_inputs import (
    Sources,
    choose_penalty,
    describe_extra_sources,
    write_extra_sources,
)
from pipeline.distillation_shards import Shard, merge_shards
from pipeline.errors import PipelineError
from pipeline.files import read_json, remove, write_json
from pipeline.fingerprint import code_digest, digest_files
from pipeline.model.checkpoint import CONFIG, WEIGHTS, load_checkpoint
from pipeline.model.transformer import Transformer
from pipeline.params import DistillationSettings, Params
from pipeline.systems import TEACHER
from pipeline.training.quiet import quiet_lightning
from pipeline.training.together import EndWhenTold, Together, ended_in_one_line, limit_patience


class DistillationModule(lightning.LightningModule):
    """Translates the sources of pairs, in shards, and writes each shard to a file of the folder."""

    def __init__(self, teacher: Transformer, decode: Decoder, sources: Sources, folder: Path,
                 settings: DistillationSettings) -> None:
        super().__init__()
        self.teacher, self._decode, self.sources = teacher, decode, sources
        self.folder, self.settings = folder, settings
        longest_first = np.argsort(-sources.lengths, kind="stable")
        self._shards = [longest_first[start:start + settings.shard_rows]
                        for start in range(0, len(longest_first), settings.shard_rows)]

    def missing(self) -> list[int]:
        """The numbers of the shards that are absent or damaged."""
        return [shard for shard, path in enumerate(self.paths()) if not path.exists() or Shard.read(path) is None]

    def predict_dataloader(self) -> DataLoader[int]:
        mine: Any = self._todo[self.trainer.global_rank::self.trainer.world_size]  # a list is a data set
        return DataLoader(mine, batch_size=None)

    def setup(self, stage: str) -> None:
        # Listed once, before any device writes: all devices must have the same list.
        self._todo = self.missing()
        for path in map(self._path, self._todo):
            if path.exists() and self.trainer.is_global_zero:
                print(f"{path}: damaged; its sentences are translated again", file=sys.stderr)
        self.trainer.strategy.barrier()

    def predict_step(self, shard: int, batch_idx: int) -> None:
        places, sources = self._shards[shard], list[int]()
        translations: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        ended: list[bool] = []
        for together in by_tokens(self.sources.lengths[places], self.settings.batch_tokens):
            batch = self.sources.rows[places[together]].tolist()
            source = pad_sources([self.sources[row] for row in batch], self.teacher.settings.max_length)
            found = self._decode(self.teacher, source.to(self.device))
            # A translation without an end is a loop that reached the length limit: students learn nothing from it.
            lengths = found.lengths.where(found.ended, -1).flatten().tolist()
            tokens = found.tokens.flatten(0, 1).cpu().numpy().astype(np.int32)
            sources += [row for row in batch for _ in range(found.lengths.shape[1])]
            translations += [row[:max(length, 0)] for row, length in zip(tokens, lengths, strict=True)]
            ended += [length >= 0 for length in lengths]
        Shard(np.array(sources), np.array(ended), np.array([len(row) for row in translations], dtype=np.int32),
              np.concatenate(translations)).write(self._path(shard))

    def paths(self) -> list[Path]:
        """The files of all shards."""
        return [self._path(shard) for shard in range(len(self._shards))]

    def _path(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:06d}"


def distill(params: Params, devices: int | None, accelerator: str, nodes: int = 1) -> None:
    """Translate the training source on some devices (None: all GPUs, or one process per CPU core).

    It writes data/distilled and its report.

    Args:
        params: of the run.
        devices: per node.
        accelerator: cpu, gpu or auto.
        nodes: that share the folder; a launcher has started the processes of all.

    Raises:
        PipelineError: the teacher or the pairs are missing or damaged, no translation ended, or the nodes do not see
            the same files.
    """
    settings = params.distillation
    tokenizer = Tokenizer.load(layout.BPE)
    teacher, _ = load_checkpoint(layout.checkpoint(TEACHER), tokenizer.digest)
    path = layout.BPE / "train.pairs"
    pairs = Pairs.open(path, tokenizer.digest)
    block = with_nbest(settings.decoder, params.decoder(settings.decoder), settings.hypotheses,
                       "params.yaml: distillation.hypotheses")
    limit = params.length_limit(teacher.settings.max_length)
    fingerprint = teacher_fingerprint(layout.checkpoint(TEACHER), [path, *_further_files(settings)], {
        "decoder": block, "limit": dataclasses.asdict(limit), "distillation": dataclasses.asdict(settings),
        "corpus": describe_extra_sources(params) if settings.extra_sources else None,
        "bleu_tokenizer": params.evaluation.bleu_tokenizer if settings.length_penalty else None})
    shards = shards_folder(layout.WORK / ".shards", fingerprint)
    extra, penalty = shards / "extra.pairs", shards / "penalty.json"
    quiet_lightning()
    if devices is None and (accelerator == "cpu" or not torch.cuda.is_available()):
        # Batched search gains more from one process per core than from the threads of one process.
        known = -(-min(len(pairs), settings.sentences or len(pairs)) // settings.shard_rows)
        devices = torch.get_num_threads() if settings.extra_sources else min(torch.get_num_threads(), known)
    together = Together(layout.WORK, lambda: fingerprint)
    trainer = lightning.Trainer(accelerator=accelerator, devices="auto" if devices is None else devices,
                                num_nodes=nodes, callbacks=[together, EndWhenTold()], logger=False,
                                enable_checkpointing=False, enable_model_summary=False,
                                use_distributed_sampler=False, enable_progress_bar=sys.stderr.isatty())
    limit_patience(trainer)

    def penalised(alpha: float) -> Decoder:
        return make_decoder(settings.decoder, with_penalty(settings.decoder, block, alpha), limit)

    with ended_in_one_line():
        together.meet(trainer)
        # A launcher's other processes wait for the first one; those that Lightning starts later find what it wrote.
        if trainer.is_global_zero and settings.extra_sources and not is_recorded(extra):
            write_extra_sources(params, tokenizer, extra)
            record(shards, [extra.name])
        if trainer.is_global_zero and settings.length_penalty and not is_recorded(penalty):
            device = "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"
            write_json(penalty, choose_penalty(settings, teacher.to(device), tokenizer, penalised,
                                               params.evaluation.bleu_tokenizer))
            record(shards, [penalty.name])
        trainer.strategy.barrier()
        if settings.length_penalty:
            check(penalty)
        chosen = read_json(penalty) if settings.length_penalty else None
        decode = penalised(chosen["alpha"]) if chosen else make_decoder(settings.decoder, block, limit)
        sources = Sources(pairs, settings.sentences, Pairs.open(extra) if settings.extra_sources else None)
        _distill(trainer, DistillationModule(teacher, decode, sources, shards, settings), tokenizer.target_size, chosen)


def _distill(trainer: lightning.Trainer, module: DistillationModule, vocabulary: int,
             penalty: dict[str, Any] | None) -> None:
    """Translate the shards that are missing, and write the pairs and their report, with the penalty that was chosen."""
    sources, shards = module.sources, module.folder
    if trainer.is_global_zero:
        for other in shards.parent.glob("*"):  # of another teacher, search or source
            if other != shards:
                remove(other)
    trainer.predict(module, return_predictions=False)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        report = layout.REPORTS / "distilled.json"
        remove(report)  # of the folder that is replaced now
        description = write_distilled(module, vocabulary, layout.DISTILLED)
        further = {"extra_sources": len(sources.rows) - sources.corpus} if module.settings.extra_sources else {}
        write_json(report, description | further | ({"length_penalty": penalty} if penalty else {}))
        remove(shards.parent)
    trainer.strategy.barrier()  # no process returns while the first one still writes


def _further_files(settings: DistillationSettings) -> list[Path]:
    """The files of the corpus that further settings read."""
    validation = [layout.BPE / "validation.pairs", layout.CORPUS / "validation.target"]
    return [*(validation if settings.length_penalty else []),
            *([layout.CORPUS / f"{split}.source" for split in layout.SPLITS] if settings.extra_sources else [])]


def shards_folder(folder: Path, fingerprint: dict[str, Any]) -> Path:
    """The folder of a fingerprint's shards: surviving processes of a killed run with another one write elsewhere."""
    return folder / hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:16]


def teacher_fingerprint(checkpoint: Path, files: list[Path], settings: dict[str, Any]) -> dict[str, Any]:
    """Everything on which the shards depend; the first file, of pairs, names its vocabulary.

    Raises:
        PipelineError: a file is absent or cannot be read.
    """
    return {"teacher": digest_files(checkpoint / name for name in (CONFIG, WEIGHTS)),
            "files": digest_files(files), "settings": settings,
            "code": code_digest("distillation*.py")}


def write_distilled(module: DistillationModule, vocabulary: int, out: Path) -> dict[str, Any]:
    """Merge the shards into `out/train.pairs`, in the order of the sources, and describe them.

    Of equal translations of a source one is kept.

    Raises:
        PipelineError: a shard is missing or damaged.
    """
    if missing := module.missing():
        raise PipelineError(f"{out}: {len(missing)} shards are missing or damaged; run the same command again")
    sources = module.sources
    rows, lengths = merge_shards(module.paths(), sources, vocabulary, out)
    compared = lengths[rows < sources.corpus]  # the further sources have no references
    raw = sources.pairs.target_lengths[:sources.corpus]
    longest = module.teacher.settings.max_length
    cut = count_cut(sources.lengths, longest)
    report_cut(cut, len(sources.rows), longest)
    return {"pairs": len(rows), "without_end": len(sources.rows) - len(np.unique(rows)), "sources_cut": cut,
            "tokens": int(lengths.sum()), "mean_length": round(float(compared.mean()) if len(compared) else 0.0, 2),
            "raw_mean_length": round(float(raw.mean()), 2)}
