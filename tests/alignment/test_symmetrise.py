"""Symmetrisation against its definition in sets of links."""

from itertools import pairwise

import numpy as np
import pytest
from dense import bitext
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.alignment.links import Links
from pipeline.alignment.settings import METHODS
from pipeline.alignment.symmetrise import symmetrise
from pipeline.errors import PipelineError

LinkSet = set[tuple[int, int]]
NEIGHBOURS = [(0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1)]  # source, target


def in_order(links: LinkSet) -> list[tuple[int, int]]:
    return sorted(links, key=lambda link: (link[1], link[0]))


def pack(alignments: list[LinkSet]) -> Links:
    flat = [link for links in alignments for link in in_order(links)]
    return Links(np.cumsum([0, *map(len, alignments)], dtype=np.int64), np.array([s for s, _ in flat], np.int32),
                 np.array([t for _, t in flat], np.int32))


def unpack(links: Links) -> list[list[tuple[int, int]]]:
    every = list(zip(links.source.tolist(), links.target.tolist(), strict=True))
    return [every[start:end] for start, end in pairwise(links.offsets.tolist())]


def by_definition(forward: LinkSet, reverse: LinkSet, method: str) -> LinkSet:
    if method in ("forward", "reverse", "union", "intersection"):
        return {"forward": forward, "reverse": reverse, "union": forward | reverse,
                "intersection": forward & reverse}[method]
    chosen, union = forward & reverse, forward | reverse
    places = [(s, t) for t in range(20) for s in range(20)]

    def linked(s: int, t: int) -> tuple[bool, bool]:
        return any(s == x for x, _ in chosen), any(t == y for _, y in chosen)

    before = None
    while before != chosen:
        before = set(chosen)
        for s, t in places:
            if (s, t) in chosen:
                for ds, dt in NEIGHBOURS:
                    new = s + ds, t + dt
                    if new in union and not all(linked(*new)):
                        chosen.add(new)
    for direction in (forward, reverse):
        for link in places:
            if link in direction and link not in chosen:
                free = linked(*link).count(False)
                if (method == "grow-diag-final" and free >= 1) or (method == "grow-diag-final-and" and free == 2):
                    chosen.add(link)
    return chosen


link_sets = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@settings(max_examples=150)
@given(st.lists(st.tuples(link_sets, link_sets), max_size=4), st.sampled_from(METHODS))
@example([({(0, 0), (1, 1), (2, 2)}, {(0, 0), (2, 1)})], "grow-diag")  # two candidates compete for a word
def test_it_equals_the_definition(pairs: list[tuple[LinkSet, LinkSet]], method: str) -> None:
    forward, reverse = [one for one, _ in pairs], [other for _, other in pairs]
    found = symmetrise(pack(forward), pack(reverse), method)
    assert unpack(found) == [in_order(by_definition(*pair, method)) for pair in pairs]
    assert found.source.dtype == found.target.dtype == np.int32 and found.offsets.dtype == np.int64


def test_an_example_of_every_method() -> None:
    forward, reverse = {(0, 0), (1, 1), (1, 2), (4, 4)}, {(0, 0), (1, 1), (2, 1), (3, 3), (3, 4)}
    found = {method: set(unpack(symmetrise(pack([forward]), pack([reverse]), method))[0]) for method in METHODS}
    core = {(0, 0), (1, 1)}
    assert found == {
        "forward": forward, "reverse": reverse, "intersection": core, "union": forward | reverse,
        "grow-diag": core | {(1, 2), (2, 1)},  # the other three are not beside a chosen link
        "grow-diag-final": core | {(1, 2), (2, 1), (4, 4), (3, 3)},
        "grow-diag-final-and": core | {(1, 2), (2, 1), (4, 4), (3, 3)},  # (3, 4) comes too late in both
    }


def test_heads_become_links() -> None:
    links = Links.from_heads(bitext([([7, 8], [1, 2, 3]), ([], [4]), ([9], []), ([9], [5])]),
                             np.array([1, -1, 0, -1, 0], np.int32))
    assert unpack(links) == [[(1, 0), (0, 2)], [], [], [(0, 0)]]
    assert unpack(links.swapped()) == [[(0, 1), (2, 0)], [], [], [(0, 0)]]
    assert links.pairs == 4


def test_what_cannot_be_joined() -> None:
    one, two = pack([{(0, 0)}]), pack([set(), set()])
    with pytest.raises(PipelineError, match="1 pairs forward and 2 in reverse"):
        symmetrise(one, two, "union")
