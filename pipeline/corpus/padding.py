"""Sentences of different lengths as one matrix."""

import sys
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.vocabulary import EOS, PAD


def pad_sources(sources: Sequence[Sequence[int] | NDArray[np.integer]], longest: int) -> Tensor:
    """(B, S) ids with EOS after each source, then PAD. A source is cut to `longest` tokens, EOS included."""
    cut = [np.append(np.asarray(source, dtype=np.int64)[:longest - 1], EOS) for source in sources]
    padded = np.full((len(cut), max(map(len, cut), default=0)), PAD, dtype=np.int64)
    for row, source in zip(padded, cut, strict=True):
        row[:len(source)] = source
    return torch.from_numpy(padded)


def count_cut(lengths: NDArray[np.int32], longest: int) -> int:
    """How many of the sources with these (N,) lengths `pad_sources` cuts."""
    return int((lengths >= longest).sum())


def report_cut(cut: int, sources: int, longest: int) -> None:
    """Report on standard error how many of the sources `pad_sources` cuts, if it cuts any."""
    if cut:
        print(f"{cut} of {sources} sources are cut to the model's {longest - 1} pieces", file=sys.stderr)
