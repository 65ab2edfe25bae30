"""Inputs of any length, some lines at a time."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from pipeline.errors import PipelineError

T = TypeVar("T")


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items, `size` at a time; those before one that cannot be read come before its error.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    chunk = list[T]()
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except PipelineError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
