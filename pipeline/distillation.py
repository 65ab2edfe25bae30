"""Sequence-level knowledge distillation (Kim and Rush 2016): the teacher's translations as a second target side.

The training source is divided into shards of sentences of similar length. Every shard is a file, so an interrupted run
continues with the first missing one, and devices share the shards. The contents of a shard depend only on the teacher,
the search and the source: any number of devices writes the same bytes.

A shard begins with the SHA-256 of what follows; a damaged one is translated again.
"""

import dataclasses
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import count_cut, pad_sources, report_cut
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, remove, write_json
from pipeline.fingerprint import code_digest, digest
from pipeline.model.checkpoint import CONFIG, WEIGHTS, load_checkpoint
from pipeline.model.transformer import Transformer
from pipeline.params import DistillationSettings, Params
from pipeline.systems import TEACHER
from pipeline.training.quiet import quiet_lightning

_DIGEST_BYTES = hashlib.sha256().digest_size


class Shard(NamedTuple):
    """The translations of R sentences."""

    rows: np.ndarray[Any, np.dtype[np.int64]]
    """(R,) indices of the sentences in the corpus."""
    ended: np.ndarray[Any, np.dtype[np.bool_]]
    """(R,), false where a translation reached the length limit."""
    lengths: np.ndarray[Any, np.dtype[np.int32]]
    """(R,) tokens per translation, 0 if it did not end."""
    ids: np.ndarray[Any, np.dtype[np.int32]]
    """All tokens, one translation after the other."""

    def write(self, path: Path) -> None:
        """Write the shard atomically."""
        arrays = io.BytesIO()
        np.savez(arrays, **self._asdict())
        with atomic_path(path) as aside:
            aside.write_bytes(hashlib.sha256(arrays.getvalue()).digest() + arrays.getvalue())

    @classmethod
    def read(cls, path: Path) -> "Shard | None":
        """The shard of a file; None if the file is damaged."""
        content = path.read_bytes()
        arrays = content[_DIGEST_BYTES:]
        if hashlib.sha256(arrays).digest() != content[:_DIGEST_BYTES]:
            return None
        with np.load(io.BytesIO(arrays), allow_pickle=False) as stored:
            return cls(*(stored[name] for name in cls._fields))


class DistillationModule(lightning.LightningModule):
    """Translates the sources of pairs, in shards, and writes each shard to a file of the folder."""

    def __init__(self, teacher: Transformer, decode: Decoder, pairs: Pairs, folder: Path,
                 settings: DistillationSettings) -> None:
        super().__init__()
        self.teacher, self._decode, self._pairs, self._folder = teacher, decode, pairs, folder
        self._batch_rows = settings.batch_rows
        order = np.argsort(-pairs.source_lengths[:settings.sentences], kind="stable")
        self.sentences = len(order)
        self._shards = [order[start:start + settings.shard_rows] for start in range(0, len(order), settings.shard_rows)]

    def missing(self) -> list[int]:
        """The numbers of the shards that are absent or damaged."""
        paths = map(self._path, range(len(self._shards)))
        return [shard for shard, path in enumerate(paths) if not path.exists() or Shard.read(path) is None]

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
        rows = self._shards[shard]
        translations: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        ended: list[bool] = []
        for start in range(0, len(rows), self._batch_rows):
            sources = [self._pairs.source(int(row)) for row in rows[start:start + self._batch_rows]]
            source = pad_sources(sources, self.teacher.settings.max_length).to(self.device)
            found = self._decode(self.teacher, source)
            # A translation without an end is a loop that reached the length limit: students learn nothing from it.
            lengths = found.lengths[:, 0].where(found.ended[:, 0], -1).tolist()
            tokens = found.tokens[:, 0].cpu().numpy().astype(np.int32)
            translations += [row[:max(length, 0)] for row, length in zip(tokens, lengths, strict=True)]
            ended += [length >= 0 for length in lengths]
        Shard(rows, np.array(ended), np.array([len(row) for row in translations], dtype=np.int32),
              np.concatenate(translations)).write(self._path(shard))

    def targets(self) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.int32]]]]:
        """(row, ids) of every sentence whose translation ended, shard by shard; no shard may be `missing`."""
        for path in map(self._path, range(len(self._shards))):
            shard = Shard.read(path)
            assert shard is not None
            parts = np.split(shard.ids, np.cumsum(shard.lengths)[:-1])
            yield from ((row, ids) for row, ids, ended in
                        zip(shard.rows.tolist(), parts, shard.ended.tolist(), strict=True) if ended)

    def _path(self, shard: int) -> Path:
        return self._folder / f"shard-{shard:06d}"


def distill(params: Params, devices: int | None, accelerator: str) -> None:
    """Translate the training source on some devices (None: all GPUs, or one process per CPU core).

    It writes data/distilled and its report. The accelerator is cpu, gpu or auto.

    Raises:
        PipelineError: the teacher or the pairs are missing or damaged, or no translation ended.
    """
    settings = params.distillation
    tokenizer = Tokenizer.load(layout.BPE)
    teacher, _ = load_checkpoint(layout.checkpoint(TEACHER), tokenizer.digest)
    path = layout.BPE / "train.pairs"
    pairs = Pairs.open(path, tokenizer.digest)
    block = params.decoder(settings.decoder)
    limit = params.length_limit(teacher.settings.max_length)
    decode = make_decoder(settings.decoder, block, limit)
    fingerprint = teacher_fingerprint(layout.checkpoint(TEACHER), path, {
        "decoder": block, "limit": dataclasses.asdict(limit), "distillation": dataclasses.asdict(settings)})
    shards = shards_folder(layout.WORK / ".shards", fingerprint)
    quiet_lightning()
    if devices is None and (accelerator == "cpu" or not torch.cuda.is_available()):
        # Batched search gains more from one process per core than from the threads of one process.
        devices = min(torch.get_num_threads(), -(-(settings.sentences or len(pairs)) // settings.shard_rows))
    trainer = lightning.Trainer(accelerator=accelerator, devices="auto" if devices is None else devices, logger=False,
                                enable_checkpointing=False, enable_model_summary=False,
                                use_distributed_sampler=False, enable_progress_bar=sys.stderr.isatty())
    if trainer.is_global_zero:
        for other in shards.parent.glob("*"):  # of another teacher, search or source
            if other != shards:
                remove(other)
    module = DistillationModule(teacher, decode, pairs, shards, settings)
    trainer.predict(module, return_predictions=False)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        report = layout.REPORTS / "distilled.json"
        remove(report)  # of the folder that is replaced now
        write_json(report, write_distilled(module, pairs, tokenizer.target_size, layout.DISTILLED))
        remove(shards.parent)
    trainer.strategy.barrier()  # no process returns while the first one still writes


def shards_folder(folder: Path, fingerprint: dict[str, Any]) -> Path:
    """The folder of a fingerprint's shards: surviving processes of a killed run with another one write elsewhere."""
    return folder / hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:16]


def teacher_fingerprint(checkpoint: Path, pairs: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything on which the shards depend; the file of pairs names its vocabulary."""
    return {"teacher": digest(*((checkpoint / name).read_bytes() for name in (CONFIG, WEIGHTS))),
            "source": digest(pairs.read_bytes()), "settings": settings, "code": code_digest("distillation.py")}


def write_distilled(module: DistillationModule, pairs: Pairs, vocabulary: int, out: Path) -> dict[str, Any]:
    """Merge the shards into `out/train.pairs`, in the order of the corpus, and describe them.

    Raises:
        PipelineError: a shard is missing or damaged.
    """
    if missing := module.missing():
        raise PipelineError(f"{out}: {len(missing)} shards are missing or damaged; run the same command again")
    targets = dict(module.targets())
    rows = sorted(targets)
    if not rows:
        raise PipelineError(f"{out}: no translation of the teacher ended before the length limit; train it longer")
    with atomic_path(out) as folder:
        folder.mkdir()
        distilled = ((pairs.source(row), targets[row].tolist()) for row in rows)
        write_pairs(folder / "train.pairs", distilled, vocabulary, pairs.digest)
    lengths = np.array([len(targets[row]) for row in rows])
    longest = module.teacher.settings.max_length
    cut = count_cut(pairs.source_lengths[:module.sentences], longest)
    report_cut(cut, module.sentences, longest)
    return {"pairs": len(rows), "without_end": module.sentences - len(rows), "sources_cut": cut,
            "tokens": int(lengths.sum()), "mean_length": round(float(lengths.mean()), 2),
            "raw_mean_length": round(float(pairs.target_lengths[:module.sentences].mean()), 2)}
