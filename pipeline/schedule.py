"""Which training begins next if several run at once: the one with the longest chain of work after it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

After = Mapping[str, Collection[str]]
"""Per training, those that must have ended before it begins."""


@dataclass(frozen=True)
class Turn:
    """When a training begins and ends."""

    name: str
    begin: float
    end: float


def choose(waiting: Collection[str], running: Collection[str], after: After, costs: Mapping[str, float]) -> str | None:
    """The training to begin now; None if each waits for one that has not ended.

    Args:
        waiting: trainings that have not begun.
        running: trainings that have begun and not ended.
        after: predecessors of all trainings, ended ones included.
        costs: costs of the same trainings, in steps or in seconds.

    >>> choose(["a", "b", "c"], [], {"a": [], "b": [], "c": ["b"]}, {"a": 3, "b": 2, "c": 2})
    'b'
    >>> choose(["c"], ["b"], {"a": [], "b": [], "c": ["b"]}, {"a": 3, "b": 2, "c": 2})
    """
    unfinished = {*waiting, *running}
    ready = [name for name in waiting if unfinished.isdisjoint(after[name])]
    return max(ready, key=lambda name: _chain(name, after, costs), default=None)


def simulate(after: After, costs: Mapping[str, float], jobs: int) -> list[Turn]:
    """When all trainings begin and end, at most `jobs` of them at once, in the order in which they begin."""
    waiting, running, turns, now = list(after), dict[str, float](), list[Turn](), 0.0
    while waiting or running:
        while len(running) < jobs and (name := choose(waiting, running, after, costs)) is not None:
            waiting.remove(name)
            running[name] = now + costs[name]
            turns.append(Turn(name, now, running[name]))
        first = min(running, key=running.__getitem__)
        now = running.pop(first)
    return turns


def length(after: After, costs: Mapping[str, float], jobs: int) -> float:
    """The cost until the last one ends."""
    return max((turn.end for turn in simulate(after, costs, jobs)), default=0.0)


def _chain(name: str, after: After, costs: Mapping[str, float]) -> float:
    """The cost of a training and of the longest chain of those that must wait for it."""
    return costs[name] + max((_chain(other, after, costs) for other in after if name in after[other]), default=0.0)
