"""Work that several threads share: the bits of one thread, and helpers for one search at a time."""

import os
import time
from collections.abc import Callable, Iterator
from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine import bounds, helpers, team
from pipeline.engine.block import attention
from pipeline.engine.door import open_engine
from pipeline.engine.helpers import current_team, together, using_all_cores
from pipeline.engine.matrix import affine
from pipeline.engine.packing import pack_matrix
from pipeline.engine.reading import ALONE, Ints, Seen
from pipeline.engine.threads import in_threads


@pytest.fixture(scope="module")
def helped() -> Iterator[Ints]:
    """A team of three threads."""
    members = team.new()
    team.help_out(members)  # compiled; the team is closed
    team.open_for(3, members)
    members[team._LEAST] = 0
    threads = [Thread(target=team.help_out, args=(members,), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield members
    team.close(members)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@given(st.integers(0, 17), st.integers(1, 40), st.integers(1, 900), st.booleans(), st.integers(0, 99))
def test_a_team_has_the_bits_of_one_thread(helped: Ints, M: int, fours: int, N: int, rounded: bool, seed: int) -> None:
    random, K = np.random.default_rng(seed), 4 * fours
    x, weight, bias = (random.normal(size=shape).astype(np.float32) for shape in ((M, K), (K, N), (N,)))
    packed, scale = pack_matrix(weight, rounded)
    alone, shared = (np.full((M, N), np.nan, np.float32) for _ in range(2))
    affine(x, packed, scale, bias, alone, ALONE)
    for _ in range(20):
        shared[:] = np.nan
        affine(x, packed, scale, bias, shared, helped)
        np.testing.assert_array_equal(shared, alone)


@given(st.integers(1, 5), st.integers(0, 2), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(0, 2),
       st.booleans(), st.integers(0, 99))
def test_a_team_attends_with_the_bits_of_one_thread(helped: Ints, R: int, more: int, n: int, heads: int, T: int,
                                                    masks: int, packed: bool, seed: int) -> None:
    """Several queries per row, rows of different pasts; no mask, one for all rows, or one for each.

    Tokens are in any rows of the past, and where every row has its own copy the bits are the same.
    """
    random, depth = np.random.default_rng(seed), 4
    D, counts = heads * depth, random.integers(1, T + 1, R)
    queries = random.normal(size=(R * n, D * (3 if packed else 1))).astype(np.float32)
    past = random.normal(size=(2, R + more, heads, T, depth)).astype(np.float32)
    mask = random.random((0 if not masks else 1 if masks == 1 else R, n, T)) < 0.5
    mask[:, :, :1] = True  # a query sees something
    origins, places = random.integers(0, R + more, (R, T)), np.zeros(R, np.int64)
    own = random.permutation(R + more)[:R]
    origins[:, -1] = own
    copies = past[:, origins, :, np.arange(T)].transpose(2, 0, 3, 1, 4).copy()  # (R, T, 2, heads, depth) before
    alone, shared, apart = (np.full((R * n, D), np.nan, np.float32) for _ in range(3))
    attention(queries, Seen(*copies, np.arange(R), origins[:0], counts, mask, places), apart, ALONE)
    seen = Seen(*past, own, origins, counts, mask, places)
    attention(queries, seen, alone, ALONE)
    assert np.isfinite(alone).all()
    np.testing.assert_array_equal(alone, apart)
    for _ in range(20):
        shared[:] = np.nan
        attention(queries, seen, shared, helped)
        np.testing.assert_array_equal(shared, alone)


def test_panels_are_computed_by_more_than_one_thread(helped: Ints) -> None:
    """Or the test above would compare one thread with itself."""
    x, (packed, scale) = np.ones((33, 512), np.float32), pack_matrix(np.ones((512, 4096), np.float32), False)
    out, end = np.empty((33, 4096), np.float32), time.monotonic() + 60
    affine(x, packed, scale, scale, out, helped)
    while helped[team._DONE] == 0 and time.monotonic() < end:  # the other cores may be busy
        affine(x, packed, scale, scale, out, helped)
    assert 0 < helped[team._DONE] < 128


def test_helpers_that_do_not_come_are_not_waited_for() -> None:
    members, x = team.new(), np.ones((2, 512), np.float32)
    team.open_for(4, members)
    out, (packed, scale) = np.zeros((2, 512), np.float32), pack_matrix(np.ones((512, 512), np.float32), False)
    affine(x, packed, scale, scale, out, members)
    assert (out == 513).all() and members[team._DONE] == 0 and members[team._WORD] >> 32 == 1


def test_float64_is_not_shared(helped: Ints) -> None:
    before = int(helped[team._WORD])
    out, (packed, scale) = np.zeros((2, 512)), pack_matrix(np.ones((512, 512)), False)
    affine(np.ones((2, 512)), packed, scale, scale, out, helped)
    assert (out == 513).all() and helped[team._WORD] == before


@pytest.mark.usefixtures("two_threads")
def test_one_search_at_a_time_has_helpers() -> None:
    def elsewhere() -> int:
        found: list[int] = []

        def look() -> None:
            with together():
                found.append(len(current_team()))
        thread = Thread(target=look)
        thread.start()
        thread.join()
        return found[0]

    assert not len(current_team())
    with together():
        members = current_team()
        assert len(members) and not members[team._OVER] and elsewhere() == 0
        with together():
            assert current_team() is members
        assert current_team() is members
    assert not len(current_team()) and members[team._OVER] and elsewhere()
    with using_all_cores():
        assert elsewhere() == 0
    with pytest.raises(KeyError), together():
        raise KeyError
    assert members[team._OVER] and elsewhere()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("threads", "left"), [(2, 1), (6, 5)])
def test_torch_has_the_cores_that_are_left(threads: int, left: int) -> None:
    torch.set_num_threads(threads)
    with pytest.raises(KeyError), together():
        with together():
            assert torch.get_num_threads() == left
        assert torch.get_num_threads() == left and helpers.own_threads() == threads
        assert bounds.has_all_cores(10**6) == (threads == 2)  # as outside
        raise KeyError
    assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("first", [helpers.own_threads, lambda: open_engine(torch.nn.Identity())])
def test_a_thread_that_begins_during_a_search_has_all_threads(first: Callable[[], object]) -> None:
    """Also one whose model is not compiled: it opens its model first."""
    found: list[int] = []
    with together():
        thread = Thread(target=lambda: (first(), found.append(torch.get_num_threads())))
        thread.start()
        thread.join()
        assert torch.get_num_threads() == 1
    assert found == [2] and torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_where_no_thread_may_begin_a_search_computes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(helpers, "_helpers", helpers._Helpers())
    monkeypatch.setattr(Thread, "start", refuse)
    with together():
        assert current_team()[team._SIZE] == 1
    assert in_threads(lambda item: item + 1, range(3)) == {0: 1, 1: 2, 2: 3}


@pytest.mark.usefixtures("two_threads")
def test_sentences_that_are_searched_at_once_have_no_helpers() -> None:
    def look(item: int) -> int:
        with together():
            return len(current_team())

    assert in_threads(look, range(5)) == dict.fromkeys(range(5), 0)


@pytest.mark.usefixtures("two_threads")
def test_one_thread_has_no_helpers() -> None:
    torch.set_num_threads(1)
    with together():
        assert not len(current_team())


@pytest.mark.usefixtures("two_threads")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    with together():
        child = os.fork()
        if child == 0:
            with together():
                os._exit(0 if helpers._helpers.cores.locked() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
