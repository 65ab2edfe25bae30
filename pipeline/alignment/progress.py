"""What a person sees of the iterations: a bar on a terminal, otherwise a line each; on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, float, float], None]
"""Called after every iteration with its number (from 1), the cross-entropy in bits a target word, and the tension."""


@contextmanager
def progress(iterations: int, *directions: str) -> Iterator[list[Progress]]:
    """Yield a function for the iterations of each direction; they may be called from different threads."""
    if not sys.stderr.isatty():
        yield [_line_printer(direction) for direction in directions]
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    def mover(direction: str) -> Progress:
        bar = bars.add_task(direction, total=iterations, note="")
        return lambda iteration, *found: bars.update(bar, completed=iteration, note=_note(*found))

    with Bars(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
              console=Console(stderr=True)) as bars:
        yield [mover(direction) for direction in directions]


def _line_printer(direction: str) -> Progress:
    return lambda iteration, *found: print(f"{direction}, iteration {iteration}: {_note(*found)}", file=sys.stderr)


def _note(cross_entropy: float, tension: float) -> str:
    return f"cross-entropy {cross_entropy:.3f} bits a word, tension {tension:.2f}"
