"""What every benchmark shares: whose turn it is, ratios with their uncertainty, and which machine it was."""

import os
import time
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import Floats, interval
from pipeline.evaluation.machine import describe_machine
from pipeline.evaluation.provenance import made_now
from pipeline.evaluation.speed import turns

RESULTS = Path(__file__).parent / "results"

Turn = Callable[[int], float]
"""Does the item of that number and returns the seconds it took."""


def time_of(work: Callable[[], object]) -> float:
    """The seconds that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def timed(work: Callable[[], object]) -> Turn:
    """A turn that does the same work for every item."""
    return lambda item: time_of(work)


def interleave(contestants: Mapping[str, Turn], items: int, *, warmup: int) -> dict[str, Floats]:
    """Let every contestant do every item, in an order of play that changes from item to item.

    A slow minute of the machine is then everyone's slow minute, so ratios survive what times do not.

    Args:
        contestants: by name.
        items: how many there are.
        warmup: items done before, from the first on, without counting.

    Returns:
        (items,) seconds of each contestant.
    """
    for item in range(warmup):
        for turn in contestants.values():
            turn(item % items)
    seconds = {name: np.zeros(items) for name in contestants}
    for item, name in in_turns(contestants, items):
        seconds[name][item] = contestants[name](item)
    return seconds


def in_turns(names: Iterable[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Every round with every contestant, in an order of play that changes from round to round."""
    contestants = list(names)
    orders = turns(len(contestants))
    for number in range(rounds):
        for who in orders[number % len(orders)]:
            yield number, contestants[who]


def median_ratio(numerator: Floats, denominator: Floats, samples: int = 2000, seed: int = 1) -> list[float]:
    """Ratio of the medians of paired measurements, with its 95 % interval by a bootstrap over the pairs.

    Fewer than eight pairs make an interval that is too narrow.

    >>> median_ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    [2.0, 2.0, 2.0]
    """
    drawn = np.random.default_rng(seed).integers(len(numerator), size=(samples, len(numerator)))
    ratios = np.median(numerator[drawn], axis=1) / np.median(denominator[drawn], axis=1)
    return [float(np.median(numerator) / np.median(denominator)), *interval(ratios, len(numerator))]


def about(packages: Sequence[str]) -> dict[str, Any]:
    """What a measurement tells of itself: machine, versions and how busy it was at the beginning; date and commit."""
    return {"machine": {**describe_machine(), "load": round(os.getloadavg()[0], 2),
                        "packages": {package: version(package) for package in packages}}, "made": made_now()}


def argument_parser(description: str | None) -> ArgumentParser:
    """A parser whose help is the docstring of the benchmark, as it is written, and every default."""
    class Formatter(ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter):
        pass

    return ArgumentParser(description=description, formatter_class=Formatter)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first aligned to the left and the others to the right.

    >>> print(table(["name", "ms"], [["a", "1.0"], ["bcdef", "12.5"]]))
    name     ms
    a       1.0
    bcdef  12.5
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) if at == 0 else cell.rjust(width)
                               for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
                     for row in (header, *rows))
