"""Up to which sizes compiled code is quicker than torch's (`python -m benchmarks.step`).

Core for core it always is, up to where the attention of a long row outweighs the products. But torch has all
cores, and compiled code a team of them for wide models, and one for narrow ones.
"""

from typing import NamedTuple

from pipeline.engine.helpers import own_threads, team_size

SHARED = 256
"""The width from which helpers make a sentence faster (`python -m benchmarks.rows`)."""

PORTION = 16
"""The fewest sentences that a thread searches as a portion of a batch (`python -m benchmarks.apart`): of fewer, reading
all weights takes longer than what other threads would have taken over."""


AT_ONCE = 16
"""The most sentences of a small model per call: of more, weights are read hardly less often per sentence."""


class Bounds(NamedTuple):
    """The sizes up to which parts are compiled."""

    tokens: int
    """Of all rows that a step reads."""
    pieces: int
    """Of all sources that are encoded together."""
    row: int
    """Tokens or pieces of one row."""

    def include(self, rows: int, tokens: int) -> bool:
        """Whether a step over so many tokens of each row is compiled."""
        return rows * tokens <= self.tokens and tokens <= self.row

    def include_sources(self, sentences: int, pieces: int) -> bool:
        """Whether sources of so many pieces each are encoded by compiled code."""
        return sentences * pieces <= self.pieces and pieces <= self.row


_AS_MANY_CORES = Bounds(tokens=4096, pieces=4096, row=256)
_FEWER_CORES = Bounds(tokens=64, pieces=128, row=128)


def of(width: int) -> Bounds:
    """The bounds of a model of some width."""
    return _AS_MANY_CORES if has_all_cores(width) else _FEWER_CORES


def has_all_cores(width: int) -> bool:
    """Whether compiled code has as many cores as torch for a model of some width."""
    return (team_size() if width >= SHARED else 1) >= own_threads()


def portions(sentences: int) -> int:
    """The number of threads that can have a portion of a batch each."""
    return max(1, min(own_threads(), sentences // PORTION))


def sentences_per_call(sentences: int) -> int:
    """The number of sentences per compiled call of a batch of a small model: two calls per thread, or more."""
    return max(1, min(-(-sentences // (2 * own_threads())), AT_ONCE))
