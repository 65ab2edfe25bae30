"""Which engine searches: compiled code or static steps where that is possible, or torch everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Engine = Literal["torch", "compiled", "static"]

_in_use: list[Engine] = ["compiled"]
"""The last one is in use, in all threads, because the sentences of a batch are searched in several."""


def engine_in_use() -> Engine:
    """The engine that searches use: `compiled`, unless `use_engine` has chosen another one."""
    return _in_use[-1]


@contextmanager
def use_engine(engine: Engine) -> Iterator[None]:
    """Let searches use an engine inside a `with` block.

    With `torch`, opened networks also compute by torch, so that engines can be compared on the same network. With
    `compiled`, torch still computes whatever the engine does not compile, and networks on a GPU have static steps
    (`static`). With `static`, all networks have them.
    """
    _in_use.append(engine)
    try:
        yield
    finally:
        _in_use.pop()
