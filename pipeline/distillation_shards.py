"""The files of an unfinished distillation, and how they become pairs.

A shard begins with the SHA-256 of what follows; a damaged one is translated again.
"""

import hashlib
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.checksums import summed_folder
from pipeline.corpus.pairs import write_pairs
from pipeline.distillation_inputs import Sources
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, reserve

_DIGEST_BYTES = hashlib.sha256().digest_size


class Shard(NamedTuple):
    """R translations; those of one source lie next to each other."""

    rows: np.ndarray[Any, np.dtype[np.int64]]
    """(R,) indices of their sources in the corpus; those of further sources follow."""
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


def merge_shards(shards: Sequence[Path], sources: Sources, vocabulary: int, out: Path) \
        -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int32]]]:
    """Write `out/train.pairs`: the sources with those translations that ended, in the order of the sources.

    Of equal translations of a source one is kept. They are put in order in a temporary file. Memory: 24 bytes per
    source, 12 per translation, and one shard.

    Args:
        shards: files, none of them damaged.
        sources: of which the shards have translations.
        vocabulary: size of the larger vocabulary.
        out: the folder to write.

    Returns:
        Of every translation written, the row of its source and its tokens; both (T,).

    Raises:
        PipelineError: no translation ended.
    """
    size = int(sources.rows[-1]) + 1
    counts, tokens = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for shard in map(_read_distinct, shards):
        np.add.at(counts, shard.rows, 1)
        np.add.at(tokens, shard.rows, shard.lengths)
    if not counts.any():
        raise PipelineError(f"{out}: no translation of the teacher ended before the length limit; train it longer")
    firsts, begins = np.cumsum(counts) - counts, np.cumsum(tokens) - tokens
    rows = np.repeat(np.arange(size), counts)
    lengths = np.empty(len(rows), np.int32)
    with summed_folder(out) as folder, tempfile.TemporaryFile(dir=folder) as file:
        reserve(file, max(1, int(tokens.sum())) * 4, folder)
        ids = np.memmap(file, np.uint32, "r+")
        for shard in map(_read_distinct, shards):
            offsets = np.cumsum(shard.lengths) - shard.lengths
            found, numbers = np.unique(shard.rows, return_index=True)
            for row, number, offset in zip(found.tolist(), numbers.tolist(), offsets[numbers].tolist(),
                                           strict=True):
                first, count, begin, length = (int(one[row]) for one in (firsts, counts, begins, tokens))
                lengths[first:first + count] = shard.lengths[number:number + count]
                ids[begin:begin + length] = shard.ids[offset:offset + length]
        stops = np.cumsum(lengths, dtype=np.int64)
        distilled = ((sources[row], ids[stop - length:stop]) for row, stop, length in zip(
            map(int, rows), map(int, stops), map(int, lengths), strict=True))
        write_pairs(folder / "train.pairs", distilled, vocabulary, sources.pairs.digest)
    return rows, lengths


def _read_distinct(path: Path) -> Shard:
    """The translations of a shard that ended, of equal ones of a source the first."""
    shard = Shard.read(path)
    assert shard is not None  # `missing` has read them all
    parts = np.split(shard.ids, np.cumsum(shard.lengths)[:-1])
    kept = {(row, ids.tobytes()): number for number, (row, ids, ended) in
            reversed(list(enumerate(zip(shard.rows.tolist(), parts, shard.ended.tolist(), strict=True)))) if ended}
    numbers = sorted(kept.values())
    return Shard(shard.rows[numbers], shard.ended[numbers], shard.lengths[numbers],
                 np.concatenate([shard.ids[:0], *(parts[number] for number in numbers)]))
