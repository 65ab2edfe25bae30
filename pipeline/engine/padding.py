"""Which sentences of a batch are encoded together, so that little of it is padding.

A batch of one long and many short sentences is mostly padding, and an encoder takes as long for it as for words. In
groups of similar length there is less of it, but every group is a call of its own, which reads all weights.
"""

import numpy as np

from pipeline.engine.reading import Ints

_CALL = 16
"""The pieces whose encoding takes as long as reading the weights once more, two milliseconds at width 512."""


def groups(lengths: Ints) -> list[Ints]:
    """The rows of every group: those for which encoding takes the least time.

    Args:
        lengths: (B,) pieces of each row.

    Returns:
        Ascending rows of groups, the longest sentences first.

    >>> [group.tolist() for group in groups(np.array([5, 100, 4, 5, 90]))]
    [[1, 4], [0, 2, 3]]
    """
    order = np.argsort(-lengths, kind="stable")
    longest = lengths[order]
    costs, begins = np.zeros(len(order) + 1, np.int64), np.zeros(len(order) + 1, np.int64)
    for end in range(1, len(order) + 1):
        tried = costs[:end] + np.arange(end, 0, -1) * longest[:end] + _CALL
        begins[end] = tried.argmin()
        costs[end] = tried[begins[end]]
    found, end = list[Ints](), len(order)
    while end:
        found.append(np.sort(order[begins[end]:end]))
        end = int(begins[end])
    return found[::-1]
