"""The only on-disk format of an encoded corpus: one packed, memory-mapped file per split.

Layout, all little-endian, every array aligned to 8 bytes:

    header          72 bytes: magic, version, bytes per id (2 or 4), pairs, source tokens, target tokens,
                    SHA-256 of the tokenizer that made the ids
    source offsets  (pairs + 1) int64; the source ids of pair i are source_ids[offsets[i]:offsets[i + 1]]
    target offsets  (pairs + 1) int64
    source ids      unsigned integers, then zeros up to a multiple of 8 bytes
    target ids      the same
"""

import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.checksums import check
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, reading

IdArray = NDArray[np.unsignedinteger[Any]]
Ids = Sequence[int] | IdArray

_MAGIC = b"NMTPAIRS"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQQQ32s")
_ALIGNMENT = 8
_CHUNK = 4096  # pairs converted to arrays at once
_OFFSETS = 1 << 16  # offsets checked at once
_REMEDY = "run `dvc repro` to produce it again"


def write_pairs(path: Path, pairs: Iterable[tuple[Ids, Ids]], vocabulary: int, digest: str) -> int:
    """Stream encoded pairs into a file and return their number.

    Lengths and ids are kept in temporary files in the folder of `path`, so memory does not grow with the pairs.

    Args:
        path: file to write.
        pairs: (source ids, target ids), each id in [0, vocabulary).
        vocabulary: size of the larger vocabulary, which decides between 2 and 4 bytes per id.
        digest: the tokenizer's SHA-256 as 64 hexadecimal digits.

    Raises:
        ValueError: an id outside the vocabulary.
        PipelineError: the disk is full.
    """
    id_bytes = 2 if vocabulary <= 1 << 16 else 4
    with ExitStack() as stack:
        aside = stack.enter_context(atomic_path(path))
        # Of the source and of the target, lengths and ids.
        spills = [[stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for _ in range(2)] for _ in range(2)]
        count, tokens = 0, [0, 0]
        remaining = iter(pairs)
        while chunk := list(islice(remaining, _CHUNK)):
            count += len(chunk)
            for side, (lengths, ids) in enumerate(spills):
                rows = [pair[side] for pair in chunk]
                spilt = np.fromiter(map(len, rows), dtype="<i4")
                tokens[side] += int(spilt.sum())
                lengths.write(spilt.tobytes())
                ids.write(_pack(rows, vocabulary, id_bytes))
        with open(aside, "wb") as file:
            file.write(_HEADER.pack(_MAGIC, _VERSION, id_bytes, count, *tokens, bytes.fromhex(digest)))
            for lengths, _ in spills:
                _write_row_starts(file, lengths)
            for _, ids in spills:
                _append_aligned(file, ids)
    return count


def _write_row_starts(file: IO[bytes], lengths: IO[bytes]) -> None:
    start = np.zeros(1, "<i8")
    file.write(start.tobytes())
    lengths.seek(0)
    while chunk := lengths.read(4 * _CHUNK):
        starts = start + np.cumsum(np.frombuffer(chunk, "<i4"), dtype="<i8")
        file.write(starts.tobytes())
        start = starts[-1:]


def _pack(rows: list[Ids], vocabulary: int, id_bytes: int) -> bytes:
    ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < vocabulary:
        raise ValueError(f"ids {ids.min()}..{ids.max()} do not fit a vocabulary of {vocabulary}")
    return ids.astype(f"<u{id_bytes}").tobytes()


def _append_aligned(file: IO[bytes], spill: IO[bytes]) -> None:
    spill.seek(0)
    shutil.copyfileobj(spill, file, 1 << 20)
    file.write(bytes(-file.tell() % _ALIGNMENT))


class Pairs:
    """A memory-mapped file of encoded pairs, whose rows are views and not copies."""

    def __init__(self, path: Path, digest: str, offsets: tuple[NDArray[np.int64], NDArray[np.int64]],
                 ids: tuple[IdArray, IdArray]) -> None:
        self.path = path
        self.digest = digest
        self._offsets = offsets  # source, target
        self._ids = ids

    @classmethod
    def open(cls, path: Path, digest: str | None = None, *, checked: bool = False) -> "Pairs":
        """Map a file; with `digest`, check that the tokenizer with this SHA-256 (hexadecimal) made it.

        The header and the offsets are checked, which takes 0.4 ms for a million pairs. If the folder has digests of
        its files (`checksums`), this one is read as a whole, once per process, unless another process has `checked` it.

        Raises:
            PipelineError: the file is absent, truncated, damaged, of another format, or of another tokenizer.
        """
        header = _read_header(path)
        if digest is not None and header.digest != digest:
            raise PipelineError(f"{path}: made with another vocabulary ({header.digest[:12]}, not "
                                f"{digest[:12]}); {_REMEDY}")
        starts = _array_starts(header)
        if (size := os.path.getsize(path)) != starts[-1]:
            raise PipelineError(f"{path}: {size} bytes instead of {starts[-1]}; {_REMEDY}")
        if not checked:
            check(path)
        # A plain array over the map: slices of the subclass np.memmap take several times as long.
        content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        arrays = [content[start:start + count * kind.itemsize].view(kind)
                  for start, (count, kind) in zip(starts, header.arrays(), strict=False)]
        for side, offsets, tokens in (("source", arrays[0], header.source_tokens),
                                      ("target", arrays[1], header.target_tokens)):
            if offsets[0] != 0 or offsets[-1] != tokens or not _is_rising(offsets):
                raise PipelineError(f"{path}: damaged: the {side} offsets do not rise from 0 to {tokens}; {_REMEDY}")
        return cls(path, header.digest, (arrays[0], arrays[1]), (arrays[2], arrays[3]))

    def __len__(self) -> int:
        return len(self._offsets[0]) - 1

    def source(self, index: int) -> IdArray:
        """Return the source ids of one pair, shape (tokens), read-only."""
        return self._row(0, index)

    def target(self, index: int) -> IdArray:
        """Return the target ids of one pair, shape (tokens), read-only."""
        return self._row(1, index)

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """Source ids of every pair, shape (pairs)."""
        return np.diff(self._offsets[0]).astype(np.int32)

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """Target ids of every pair, shape (pairs)."""
        return np.diff(self._offsets[1]).astype(np.int32)

    def check_ids(self, source_size: int, target_size: int) -> None:
        """Check that all ids are in these vocabularies; this reads the complete file (3 ms for a million pairs).

        Raises:
            PipelineError: an id is not.
        """
        for side, ids, size in zip(("source", "target"), self._ids, (source_size, target_size), strict=True):
            if len(ids) and int(ids.max()) >= size:
                raise PipelineError(f"{self.path}: damaged: the {side} id {ids.max()} is outside the vocabulary of "
                                    f"{size}; {_REMEDY}")

    def sides(self) -> tuple[tuple[IdArray, NDArray[np.int64]], tuple[IdArray, NDArray[np.int64]]]:
        """Return (ids, offsets) of all sources and of all targets: row i is `ids[offsets[i]:offsets[i + 1]]`."""
        (source, target), (source_offsets, target_offsets) = self._ids, self._offsets
        return (source, source_offsets), (target, target_offsets)

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker process opens the file itself; otherwise all of the memory map would be copied to it.
        return _reopen, (self.path, self.digest)

    def _row(self, side: int, index: int) -> IdArray:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)} pairs")
        start, end = self._offsets[side][index:index + 2]
        return self._ids[side][start:end]


def _reopen(path: Path, digest: str) -> Pairs:
    return Pairs.open(path, digest, checked=True)


def _is_rising(offsets: NDArray[np.int64]) -> bool:
    return not any((part[1:] < part[:-1]).any() for start in range(0, len(offsets), _OFFSETS)
                   for part in [offsets[start:start + _OFFSETS + 1]])


class _Header(NamedTuple):
    id_bytes: int
    pairs: int
    source_tokens: int
    target_tokens: int
    digest: str

    def arrays(self) -> list[tuple[int, np.dtype[Any]]]:
        """Return the number of items and the type of each of the four arrays, in their order in the file."""
        offset, token = np.dtype("<i8"), np.dtype(f"<u{self.id_bytes}")
        return [(self.pairs + 1, offset), (self.pairs + 1, offset),
                (self.source_tokens, token), (self.target_tokens, token)]


def _read_header(path: Path) -> _Header:
    with reading(path), open(path, "rb") as file:
        header = file.read(_HEADER.size)
    if header[:len(_MAGIC)] != _MAGIC:
        raise PipelineError(f"{path}: not a file of encoded pairs; {_REMEDY}")
    if len(header) < _HEADER.size:
        raise PipelineError(f"{path}: truncated to {len(header)} bytes; {_REMEDY}")
    _, version, id_bytes, pairs, source_tokens, target_tokens, digest = _HEADER.unpack(header)
    if version != _VERSION or id_bytes not in (2, 4):
        raise PipelineError(f"{path}: format version {version} with {id_bytes} bytes per id, but this program "
                            f"reads version {_VERSION}; {_REMEDY}")
    return _Header(id_bytes, pairs, source_tokens, target_tokens, digest.hex())


def _array_starts(header: _Header) -> list[int]:
    """Return the byte at which each array starts, and the size of the file."""
    starts = [_HEADER.size]
    for count, kind in header.arrays():
        used = count * kind.itemsize
        starts.append(starts[-1] + used + -used % _ALIGNMENT)
    return starts
