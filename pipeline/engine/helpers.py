"""The threads of a team (`team`): one that searches and its helpers, together as many as PyTorch has.

Helpers sleep until a search begins, and then wait in a loop for its products until it ends. Only one search at a time
has them; others compute alone, so that no more threads wait than there are cores.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Semaphore, Thread, local

import torch

from pipeline.cores import usable_cores
from pipeline.engine.reading import ALONE, Ints

_MOST = 4
"""Threads of a team. Reading weights is bound by the memory, and more than two threads have not been measured."""

_this_thread = local()


class _Helpers:
    """Threads that help one other thread at a time; a process has them once."""

    def __init__(self) -> None:
        self.cores = Lock()
        """Held by the thread that may use the other cores."""
        self.lowered = 0
        """While it is held: PyTorch's threads before."""
        self._awake, self._begun, self._team = Semaphore(0), 0, ALONE

    def begin(self, threads: int) -> Ints:
        """The team of the thread that holds `cores`. Helpers begin when they can; nobody waits for them."""
        from pipeline.engine import team  # numba: half a second that training does not need
        if not len(self._team):
            self._team = team.new()
        with suppress(RuntimeError):  # no further thread is allowed
            while self._begun < threads - 1:
                Thread(target=self._help, daemon=True).start()
                self._begun += 1
        helping = min(self._begun, threads - 1)
        team.open_for(1 + helping, self._team)
        if helping:
            self._awake.release(helping)
        return self._team

    def _help(self) -> None:
        from pipeline.engine.team import help_out
        while True:
            self._awake.acquire()
            help_out(self._team)

    def forget(self) -> None:
        """In a forked process, which has none of its parent's threads."""
        vars(self).update(vars(_Helpers()))
        torch.set_num_threads(own_threads())
        _this_thread.team, _this_thread.own = ALONE, 0


_helpers = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def current_team() -> Ints:
    """The team that shares this thread's products now."""
    team: Ints = getattr(_this_thread, "team", ALONE)
    return team


def own_threads() -> int:
    """PyTorch's threads outside blocks of `together`."""
    if not hasattr(_this_thread, "own"):
        # To set one thread's number also sets the number with which new threads begin.
        if _helpers.lowered:
            torch.set_num_threads(_helpers.lowered)
        _this_thread.own = 0
    return _this_thread.own or torch.get_num_threads()


def team_size() -> int:
    """The threads of a team, with the one that searches."""
    return min(_MOST, own_threads(), usable_cores())


@contextmanager
def together() -> Iterator[None]:
    """Share this thread's products with helpers in this block, if it may use other cores and no other thread does.

    PyTorch has the cores that are left: its idle threads wait in a loop for milliseconds, and helpers would wait for
    their cores.
    """
    cores, threads, own = _helpers.cores, team_size(), own_threads()
    if len(current_team()) or threads < 2:
        yield
        return
    from pipeline.engine.team import close  # numba: half a second, at the first time
    if not cores.acquire(blocking=False):
        yield
        return
    team = ALONE
    try:
        team = _this_thread.team = _helpers.begin(threads)
        _this_thread.own = _helpers.lowered = own
        torch.set_num_threads(own - threads + 1)
        yield
    finally:
        torch.set_num_threads(own)
        _helpers.lowered, _this_thread.team, _this_thread.own = 0, ALONE, 0
        if len(team):
            close(team)
        cores.release()


@contextmanager
def using_all_cores() -> Iterator[None]:
    """Let no thread that begins a search in this block have helpers, because the block computes in all of them.

    A search that has them already keeps them, and when it ends meanwhile, the next one may have some.
    """
    cores = _helpers.cores
    held = cores.acquire(blocking=False)
    try:
        yield
    finally:
        if held:
            cores.release()
