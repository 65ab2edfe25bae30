"""Sequence-level knowledge distillation (Kim and Rush 2016): the teacher's translations as a second target side.

The training source is cut into shards of sentences of like length; every shard is a file, so a run that is cut short
goes on with the first missing one, and devices share the shards among them. What a shard holds depends on nothing
but the teacher, the search and the source: any number of devices writes the same bytes.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as lightning
from torch.utils.data import DataLoader, Dataset

from pipeline.corpus.datamodule import pad_sources
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.decoding.settings import Decoder
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, remove
from pipeline.model.checkpoint import WEIGHTS
from pipeline.model.transformer import Transformer


class Shards(Dataset[int]):
    """The numbers of the shards that are still to be made by one of several devices."""

    def __init__(self, missing: list[int], rank: int, world: int) -> None:
        self._mine = missing[rank::world]

    def __len__(self) -> int:
        return len(self._mine)

    def __getitem__(self, item: int) -> int:
        return self._mine[item]


class DistillationModule(lightning.LightningModule):
    """Translates shards and writes each to its file."""

    def __init__(self, teacher: Transformer, decode: Decoder, pairs: Pairs, folder: Path, *, shard_rows: int,
                 batch_rows: int, sentences: int | None = None) -> None:
        """Args:
            teacher: in evaluation mode.
            decode: the search.
            pairs: whose sources are translated.
            folder: of the shards.
            shard_rows: sentences a shard.
            batch_rows: sentences searched together.
            sentences: how many of the sources to translate, the first ones; None: all.
        """
        super().__init__()
        self.teacher, self._decode, self._pairs, self._folder = teacher, decode, pairs, folder
        self._batch_rows = batch_rows
        order = np.argsort(-pairs.source_lengths[:sentences], kind="stable")
        self.sentences = len(order)
        self._shards = [order[start:start + shard_rows] for start in range(0, len(order), shard_rows)]

    def missing(self) -> list[int]:
        """Shards that no earlier run has finished."""
        return [shard for shard in range(len(self._shards)) if not self._path(shard).exists()]

    def predict_dataloader(self) -> DataLoader[int]:
        shards = Shards(self._todo, self.trainer.global_rank, self.trainer.world_size)
        return DataLoader(shards, batch_size=None)

    def setup(self, stage: str) -> None:
        # Listed once, before any device writes: all of them must see the same list.
        self._todo = self.missing()
        self.trainer.strategy.barrier()

    def predict_step(self, shard: int, batch_idx: int) -> None:
        rows = self._shards[shard]
        words: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        ended: list[bool] = []
        for start in range(0, len(rows), self._batch_rows):
            sources = [self._pairs.source(int(row)) for row in rows[start:start + self._batch_rows]]
            source = pad_sources(sources, self.teacher.settings.max_length).to(self.device)
            found = self._decode(self.teacher, source)
            # A translation without an end is a loop that met the length limit: nothing to learn from.
            lengths = found.lengths[:, 0].where(found.ended[:, 0], -1).tolist()
            tokens = found.tokens[:, 0].cpu().numpy().astype(np.int32)
            words += [row[:max(length, 0)] for row, length in zip(tokens, lengths, strict=True)]
            ended += [length >= 0 for length in lengths]
        with atomic_path(self._path(shard)) as aside, open(aside, "wb") as file:
            lengths_kept = np.array([len(row) for row in words], dtype=np.int32)
            np.savez(file, rows=rows, ended=np.array(ended), lengths=lengths_kept,
                     ids=np.concatenate(words))

    def targets(self) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.int32]]]]:
        """(row, ids) of every sentence whose translation ended, shard by shard."""
        for shard in range(len(self._shards)):
            with np.load(self._path(shard), allow_pickle=False) as stored:
                parts = np.split(stored["ids"], np.cumsum(stored["lengths"])[:-1])
                rows = zip(stored["rows"].tolist(), parts, stored["ended"].tolist(), strict=True)
                yield from ((row, ids) for row, ids, ended in rows if ended)

    def _path(self, shard: int) -> Path:
        return self._folder / f"shard-{shard:06d}.npz"


def shards_folder(folder: Path, fingerprint: dict[str, Any]) -> Path:
    """Where in `folder` the shards of a fingerprint are: a process that a killed run left writes to its own ones."""
    return folder / hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:16]


def remove_others(shards: Path) -> None:
    """Remove the shards that another teacher, search or source has made."""
    for other in shards.parent.glob("*"):
        if other != shards:
            remove(other)


def teacher_fingerprint(checkpoint: Path, pairs: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What the shards depend on."""
    return {"teacher": hashlib.sha256((checkpoint / WEIGHTS).read_bytes()).hexdigest(),
            "source": hashlib.sha256(pairs.read_bytes()).hexdigest(), "settings": settings}


def write_distilled(module: DistillationModule, pairs: Pairs, vocabulary: int, out: Path) -> dict[str, Any]:
    """Merge the shards into `out/train.pairs`, in the order of the corpus, and describe them.

    Raises:
        PipelineError: a shard is missing.
    """
    if module.missing():
        raise PipelineError(f"{out}: {len(module.missing())} shards are missing; run the same command again")
    targets = dict(module.targets())
    rows = sorted(targets)
    if not rows:
        raise PipelineError(f"{out}: no translation of the teacher ended before the length limit; train it longer")
    with atomic_path(out) as folder:
        folder.mkdir()
        distilled = ((pairs.source(row), targets[row].tolist()) for row in rows)
        write_pairs(folder / "train.pairs", distilled, vocabulary, pairs.digest)
    lengths = np.array([len(targets[row]) for row in rows])
    return {"pairs": len(rows), "without_end": module.sentences - len(rows), "tokens": int(lengths.sum()),
            "mean_length": round(float(lengths.mean()), 2),
            "raw_mean_length": round(float(pairs.target_lengths[:module.sentences].mean()), 2)}
