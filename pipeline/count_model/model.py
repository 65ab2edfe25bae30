"""The position-aware count model of Deng and Rush's sequence-to-lattice paper (section 3), by maximum likelihood.

    P(y_t | x, t) = sum over a of P(y_t | x_a, a - t) P(a | S, t)

a is the source position that the target position t is aligned with, S the number of source words; positions count from
1. Both factors are relative frequencies in word-aligned pairs; of P(y | x, offset) the `top` most frequent words are
kept. The paper's are not smoothed; here the aligner's prior may have a share in P(a | S, t). A target word without a
link is aligned with a = 0, an empty word before the source, whose offset is always 0 (the paper does not define this
case).

Where nothing was counted, these apply in this order:
- a source word that was never linked proposes itself if the target vocabulary has the same piece (a number, a
  placeholder);
- a pair (S, t) that never occurred uses the aligner's prior P(a | S, t) alone, which favours the diagonal and needs a
  target length: the one predicted from S;
- a position without any candidate uses the most frequent words at this position in all targets, and after the end of
  the longest target in the corpus, the most frequent words of all.

The size of the tables depends on the number of distinct (x, offset). They are mapped into memory, not read.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.count_model.arrays import map_arrays, write_arrays
from pipeline.count_model.lengths import LengthRegression
from pipeline.errors import PipelineError
from pipeline.vocabulary import PAD

FORMAT = "counts 1"
_REMEDY = "run `dvc repro` to produce it again"
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


class Table(NamedTuple):
    """Rows of (item, probability), most probable first, ties by item. Row r is `starts[r]:starts[r + 1]`."""

    starts: Ints
    items: NDArray[Any]
    probabilities: Floats

    def is_sound(self, rows: int, below: int | Ints) -> bool:
        """Return whether the table has this number of rows, and all items, or those of each row, are less than `below`.

        Compiled code does not check that its look-ups stay within the arrays.
        """
        starts, items, probabilities = self
        if not (_is_index(starts, rows, items.size) and items.dtype.kind == "u" and probabilities.shape == items.shape):
            return False
        bounds = below if isinstance(below, int) else np.repeat(below, np.diff(starts))
        return bool((items < bounds).all() and probabilities.min(initial=1) > 0 and probabilities.max(initial=0) <= 1)


class LexicalTable(NamedTuple):
    """P(y | x, offset), a row for each pair (x, offset) that occurs."""

    first: Ints
    """(source ids + 1): the rows of source word x are `first[x]:first[x + 1]`."""
    offsets: NDArray[np.int16]
    """(rows): a - t, ascending within a source word."""
    table: Table


class CountModel(NamedTuple):
    """P(y | x, t) by look-up."""

    lexicon: LexicalTable
    prior: Table
    """P(a | S, t) in row `S * (longest + 1) + t`."""
    by_position: Table
    """P(y | t) in row t; row 0 is P(y)."""
    copies: NDArray[np.int32]
    """(source ids): the target id of the same piece, or -1."""
    lengths: LengthRegression
    longest: int
    """The largest S and t in the tables."""
    tension: float
    """lambda of the aligner's prior."""
    null_probability: float
    """p0 of the aligner's prior."""
    diagonal: float
    """The share of the aligner's prior in P(a | S, t), from 0 to 1."""
    target_vocabulary: int
    digest: str
    """Digest of the vocabulary that the ids belong to."""
    path: Path | None = None
    """The mapped file."""

    def candidates(self, sources: NDArray[np.int64], lengths: Ints, positions: int,
                   k: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the most probable words of every target position.

        Args:
            sources: (B, S) ids, of which only the first `lengths[b]` of a row are read.
            lengths: (B,) words per source, without an end symbol.
            positions: N; target positions 1 .. N.
            k: words per position.

        Returns:
            Words (B, N, k), most probable first and ties by id, and their log P(y | x, t). A position with fewer
            candidates has PAD and -inf after them. The words of a position are distinct.
        """
        from pipeline.count_model.look_up import (
            look_up,  # numba takes half a second, which other searches need not wait
        )

        if k < 1:
            raise PipelineError(f"candidates: {k} must be at least 1")
        words = np.full((len(sources), positions, k), PAD, np.int64)
        scores = np.full((len(sources), positions, k), -np.inf, np.float32)
        mass, predicted = np.zeros(self.target_vocabulary), self.lengths.predict(lengths)
        for b in range(len(sources)):
            look_up(sources[b, :lengths[b]], mass, words[b], scores[b], *self.lexicon[:2], *self.lexicon.table,
                     *self.prior, *self.by_position, self.copies, self.longest, float(predicted[b]), self.tension,
                     self.null_probability, self.diagonal)
        return words, scores

    def save(self, path: Path) -> None:
        """Write the model into one file."""
        arrays: dict[str, NDArray[Any]] = {
            "first": self.lexicon.first, "offsets": self.lexicon.offsets, "copies": self.copies}
        for name, table in self._tables().items():
            arrays |= {f"{name}.{part}": array for part, array in table._asdict().items()}
        numbers = {name: repr(getattr(self, name)) for name in _NUMBERS if name not in _DEFAULTS or getattr(self, name)}
        lengths = {name: repr(number) for name, number in self.lengths._asdict().items()}
        write_arrays(path, arrays, {"format": FORMAT, "digest": self.digest, **numbers, **lengths})

    @classmethod
    def open(cls, path: Path, digest: str | None = None) -> "CountModel":
        """Map a model into memory and check all tables, which takes 8 ms for 12 million entries.

        `digest` is that of the vocabulary in use; None skips its check.

        Raises:
            PipelineError: absent, damaged, of another format, or made with another vocabulary.
        """
        arrays, metadata = map_arrays(path, _REMEDY)
        if metadata.get("format") != FORMAT:
            raise PipelineError(f"{path}: not a count model of format {FORMAT!r}; {_REMEDY}")
        try:
            if digest is not None and metadata["digest"] != digest:
                raise PipelineError(f"{path}: counted with vocabulary {metadata['digest'][:12]}, but {digest[:12]} is "
                                    f"in use; {_REMEDY}")
            tables = {name: Table(*(arrays[f"{name}.{part}"] for part in Table._fields))
                      for name in ("lexicon", "prior", "by_position")}
            numbers = {name: kind({**_DEFAULTS, **metadata}[name]) for name, kind in _NUMBERS.items()}
            lengths = LengthRegression(*(float(metadata[name]) for name in LengthRegression._fields))
            lexicon = LexicalTable(arrays["first"], arrays["offsets"], tables["lexicon"])
            model = cls(lexicon=lexicon, prior=tables["prior"], by_position=tables["by_position"],
                        copies=arrays["copies"], lengths=lengths, digest=metadata["digest"], path=path, **numbers)
        except KeyError as error:
            raise PipelineError(f"{path}: incomplete ({error}); {_REMEDY}") from None
        except ValueError as error:
            raise PipelineError(f"{path}: damaged ({error}); {_REMEDY}") from None
        if not model._is_sound():
            raise PipelineError(f"{path}: damaged: its tables do not fit together; {_REMEDY}")
        return model

    def _is_sound(self) -> bool:
        first, offsets, lexicon = self.lexicon
        V, reach = self.target_vocabulary, self.longest + 1
        return bool(
            _is_index(first, self.copies.size, offsets.size) and lexicon.is_sound(offsets.size, V)
            and reach > 0 and self.prior.starts.size == reach * reach + 1
            and self.prior.is_sound(reach * reach, np.repeat(np.arange(1, reach + 1), reach))  # a is at most S
            and self.by_position.is_sound(reach, V) and 0 <= self.diagonal <= 1
            and self.copies.dtype == np.int32 and ((self.copies >= -1) & (self.copies < V)).all())

    def _tables(self) -> dict[str, Table]:
        return {"lexicon": self.lexicon.table, "prior": self.prior, "by_position": self.by_position}


def _is_index(starts: NDArray[Any], rows: int, end: int) -> bool:
    """Return whether these are the bounds of this number of rows, from 0 to `end`."""
    return bool(starts.dtype == np.int64 and starts.shape == (rows + 1,) and starts[0] == 0 and starts[-1] == end
                and (starts[:-1] <= starts[1:]).all())


_NUMBERS = {"longest": int, "tension": float, "null_probability": float, "diagonal": float, "target_vocabulary": int}
_DEFAULTS = {"diagonal": "0.0"}
"""Of numbers that a file has only if they are not 0, so that files without them are read, and written, as they were."""
