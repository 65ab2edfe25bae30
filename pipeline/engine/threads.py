"""Independent work in as many threads as PyTorch has: compiled calls release the GIL."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from pipeline.engine.helpers import own_threads, using_all_cores

T = TypeVar("T")


def in_threads(work: Callable[[int], T], items: Sequence[int]) -> dict[int, T]:
    """Do some work for all items, which are started in their order.

    Returns:
        The result of every item.

    Raises:
        BaseException: the first error of any item, after which no further item is started.
    """
    waiting = list(reversed(items))
    found: dict[int, T] = {}
    errors: list[BaseException] = []

    def take() -> None:
        while waiting and not errors:
            try:
                item = waiting.pop()
            except IndexError:  # another thread has taken the last one
                return
            try:
                found[item] = work(item)
            except BaseException as error:
                errors.append(error)

    threads = list[Thread]()
    with using_all_cores():
        with suppress(RuntimeError):  # no further thread is allowed
            while len(threads) < min(own_threads(), len(items)) - 1:
                thread = Thread(target=take)
                thread.start()
                threads.append(thread)
        take()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return found
