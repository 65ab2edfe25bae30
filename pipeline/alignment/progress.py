"""Progress on standard error: a bar on a terminal, otherwise one line per iteration."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

IterationCallback = Callable[[int, float, float], None]
"""Called with the number of an iteration (from 1), the cross-entropy in bits per target word, and the tension."""


@contextmanager
def progress(iterations: int, *directions: str, rank: int = 0) -> Iterator[list[IterationCallback | None]]:
    """Yield a function for the iterations of each direction; they may be called from different threads.

    Only the first process of a group shows anything; the others have None.
    """
    if rank:
        yield [None for _ in directions]
        return
    if not sys.stderr.isatty():
        yield [_line_printer(direction) for direction in directions]
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    def mover(direction: str) -> IterationCallback:
        bar = bars.add_task(direction, total=iterations, note="")
        return lambda iteration, *found: bars.update(bar, completed=iteration, note=_note(*found))

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                  TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as bars:
        yield [mover(direction) for direction in directions]


def _line_printer(direction: str) -> IterationCallback:
    return lambda iteration, *found: print(f"{direction}, iteration {iteration}: {_note(*found)}", file=sys.stderr)


def _note(cross_entropy: float, tension: float) -> str:
    return f"cross-entropy {cross_entropy:.3f} bits per word, tension {tension:.2f}"
