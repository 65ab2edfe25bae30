"""Times of the parts of a search, measured with a stopwatch around its models, on the one clock.

Their methods are timed, synchronised at both ends; the remaining time is the search's own. A search that is one
compiled call has no parts that a stopwatch sees: it is timed step by step, which takes longer.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.engine.door import open_engine
from pipeline.evaluation.speed import Clock, Contestant, Floats, measure, synchronise


class Stopwatch:
    """Records how long the parts of a search take; `seconds` adds up until `reset`."""

    def __init__(self, parts: Sequence[str], device: torch.device, clock: Clock = time.perf_counter) -> None:
        self.device, self.clock = device, clock
        self.seconds = dict.fromkeys(parts, 0.0)

    def timed(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """`work`, with its time added to a part's."""
        def timed_work(*arguments: Any, **options: Any) -> Any:
            synchronise(self.device)
            start = self.clock()
            result = work(*arguments, **options)
            synchronise(self.device)
            self.seconds[part] += self.clock() - start
            return result
        return timed_work

    def reset(self) -> None:
        """Start again from zero."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)


class WatchedSearch(NamedTuple):
    """A search of `Watched` models, with their stopwatch."""

    translate: Callable[[Tensor], Hypotheses]
    watch: Stopwatch


class Watched:
    """A model some of whose methods are timed by a stopwatch; all other attributes are the model's own.

    The methods are those of the engine in use, with which decoders are also timed elsewhere; the loop is Python's.
    """

    def __init__(self, model: Any, watch: Stopwatch, parts: Mapping[str, str],
                 verifier: "Watched | None" = None) -> None:
        """Args:
            model: of any kind.
            watch: records the times.
            parts: the part to which the time of each method belongs; methods that the model lacks are ignored.
            verifier: replaces the model's own; None: it is not replaced.
        """
        self._model = model = open_engine(model)
        for method, part in parts.items():
            if hasattr(model, method):
                setattr(self, method, watch.timed(part, getattr(model, method)))
        if verifier is not None:
            self.verifier = verifier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def time_parts(searches: Sequence[WatchedSearch], sentences: Sequence[Tensor], repetitions: int, warmup: int) -> Floats:
    """Time the parts of searches, in turn, one sentence at a time.

    Args:
        searches: their stopwatches have the same parts.
        sentences: N of (1, S) ids.
        repetitions, warmup: see `speed.measure`.

    Returns:
        (searches, N, parts + 1) seconds of each part and the remaining time: medians over the repetitions.
    """
    logs: list[list[list[float]]] = [[] for _ in searches]

    def translate(search: WatchedSearch, log: list[list[float]], source: Tensor) -> Hypotheses:
        search.watch.reset()
        found = search.translate(source)
        log.append(list(search.watch.seconds.values()))
        return found

    watch = searches[0].watch
    total = measure([Contestant("parts", "parts", partial(translate, *each))
                     for each in zip(searches, logs, strict=True)], {1: sentences},
                    repetitions=repetitions, warmup=warmup, device=watch.device, clock=watch.clock)[1].seconds
    timed = [log[-repetitions * len(sentences):] for log in logs]  # after the warm-up
    parts = np.array(timed).reshape(*total.shape, len(watch.seconds))
    remaining = total - parts.sum(3)
    return np.median(np.concatenate([parts, remaining[..., None]], 3), axis=1)
