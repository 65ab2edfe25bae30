"""Lines of many requests, searched together: one queue and one thread per model."""

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

from pipeline.service.limits import Limits
from pipeline.service.models import Model

_NEWEST = 0.1
"""The weight of the last batch in the mean time per line."""


class Search(NamedTuple):
    """What is to be done with a line. Lines with the same search can share a batch."""

    decoder: str
    explained: bool = False


class Full(Exception):
    """Too many lines wait for a model."""

    def __init__(self, seconds: int) -> None:
        """Args:
            seconds: after which those that wait now will probably be done.
        """
        super().__init__(seconds)
        self.seconds = seconds


class _Waiting(NamedTuple):
    search: Search
    line: str
    since: float
    """By the clock of the event loop."""


Found = asyncio.Future[Any]
"""Of a line: its `Translation`, or its `Explanation`."""
Observe = Callable[[str, Search, int, float], None]
"""Takes a model's name, a search, the number of lines of a batch, and the seconds that it took."""


class Queue:
    """The lines that wait for one model. Its methods are called in the event loop, the model's in a thread."""

    def __init__(self, model: Model, limits: Limits, observe: Observe) -> None:
        """Args:
            model: to search.
            limits: of the queue and of a batch.
            observe: is called after every batch.
        """
        self.model, self._limits, self._observe = model, limits, observe
        self._waiting: dict[Found, _Waiting] = {}
        self._arrived = asyncio.Event()
        self._seconds_per_line: float | None = None
        self._batch: Future[list[Any]] | None = None
        self._lines = 0
        """Of the batch that is being searched."""
        self._explained = False
        """Whether the last batch was a line that is explained."""
        self._idle_since = -math.inf
        """By the clock of the event loop: the end of the last batch."""

    def __len__(self) -> int:
        """The number of lines that wait, without those that are being searched."""
        return len(self._waiting)

    @property
    def is_searching(self) -> bool:
        """Whether a batch is being searched, which may go on after `run` has been cancelled."""
        return self._batch is not None and not self._batch.done()

    def put(self, search: Search, lines: Sequence[str]) -> list[Found]:
        """Let lines wait for a search.

        Raises:
            Full: there is no room for all of them; then none of them waits.
        """
        if len(self) + len(lines) > self._limits.max_waiting:
            raise Full(max(1, math.ceil((len(self) + self._lines) * (self._seconds_per_line or 0.0))))
        loop = asyncio.get_running_loop()
        found: list[Found] = [loop.create_future() for _ in lines]
        self._waiting |= {one: _Waiting(search, line, loop.time()) for one, line in zip(found, lines, strict=True)}
        self._arrived.set()
        return found

    def withdraw(self, found: Sequence[Found]) -> None:
        """Drop the lines that are not yet being searched, and the results of the others."""
        for one in found:
            self._waiting.pop(one, None)
            one.cancel()

    async def run(self) -> None:
        """Search what waits, batch by batch, until cancelled, which does not wait for the end of a batch."""
        thread = ThreadPoolExecutor(1, f"model {self.model.name}")
        try:
            while True:
                while not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
                await self._let_others_arrive()
                if self._waiting:  # not all of them have been withdrawn
                    await self._search(thread, *self._take())
        finally:
            thread.shutdown(wait=False)

    async def _let_others_arrive(self) -> None:
        """Wait until the window of the line that has waited longest is over, or there is a full batch.

        A line that has waited for a batch to end waits no longer.
        """
        oldest = next(iter(self._waiting.values()))
        if oldest.since < self._idle_since:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(oldest.since + self._limits.window / 1000):
                while len(self) < self._limits.batch_rows:
                    self._arrived.clear()
                    await self._arrived.wait()

    def _take(self) -> tuple[Search, dict[Found, str]]:
        """The search of the line that has waited longest, and the first lines with the same one.

        A line that is explained is searched several times. It is a batch of its own, after which a translation has its
        turn, if one waits.
        """
        waiting = [one.search for one in self._waiting.values()]
        search = next((one for one in waiting if not one.explained), waiting[0]) if self._explained else waiting[0]
        same = ((found, one.line) for found, one in self._waiting.items() if one.search == search)
        batch = dict(islice(same, 1 if search.explained else self._limits.batch_rows))
        for found in batch:
            del self._waiting[found]
        self._explained = search.explained
        return search, batch

    async def _search(self, thread: ThreadPoolExecutor, search: Search, batch: dict[Found, str]) -> None:
        lines, started = list(batch.values()), perf_counter()
        self._batch, self._lines = thread.submit(self._results, search, lines), len(lines)
        results = await asyncio.wrap_future(self._batch)
        seconds, self._lines, self._idle_since = perf_counter() - started, 0, asyncio.get_running_loop().time()
        mean = seconds / len(lines) if self._seconds_per_line is None else self._seconds_per_line
        self._seconds_per_line = mean + _NEWEST * (seconds / len(lines) - mean)
        self._observe(self.model.name, search, len(lines), seconds)
        for found, result in zip(batch, results, strict=True):
            if found.cancelled():  # withdrawn
                continue
            if isinstance(result, Exception):
                found.set_exception(result)
            else:
                found.set_result(result)

    def _results(self, search: Search, lines: list[str]) -> list[Any]:
        """The result of every line; where a search has failed, its error. A line's error is no other line's.

        A library's panic, which is no `Exception` (those of Rust), fails as any other error: the queue goes on.
        """
        try:
            if search.explained:
                return [self.model.explain(search.decoder, line) for line in lines]
            return self.model.translate(search.decoder, lines)
        except BaseException as error:
            failed = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            return [failed] if len(lines) == 1 else [self._results(search, [line])[0] for line in lines]
