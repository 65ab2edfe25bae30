"""Where does the time of a search go? Its models in a stopwatch, on the one clock.

Their verbs are timed, synchronised at both ends; what is left of the whole is the search's own. A search that is one
compiled call has no parts that a stopwatch sees: it is watched step by step, where it takes longer.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.engine.door import open_engine
from pipeline.evaluation.speed import Clock, Contestant, measure

P = ParamSpec("P")
T = TypeVar("T")
Floats = NDArray[np.float64]


class Stopwatch:
    """Notes how long the parts of something take; `seconds` adds up until it is set back."""

    def __init__(self, parts: Sequence[str], device: torch.device, clock: Clock = time.perf_counter) -> None:
        self.device, self.clock = device, clock
        self.seconds = dict.fromkeys(parts, 0.0)

    def timed(self, part: str, work: Callable[P, T]) -> Callable[P, T]:
        """`work`, whose time will be added to a part's."""
        def run(*arguments: P.args, **options: P.kwargs) -> T:
            self._synchronise()
            start = self.clock()
            result = work(*arguments, **options)
            self._synchronise()
            self.seconds[part] += self.clock() - start
            return result
        return run

    def set_back(self) -> None:
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class Search(NamedTuple):
    """A search of models that are watched."""

    translate: Callable[[Tensor], Hypotheses]
    watch: Stopwatch


class Watched:
    """A model in a stopwatch: some of its verbs are timed, all else is its own.

    The verbs are those of the engine in use, which other decoders are timed with; the loop around them is Python's.
    """

    def __init__(self, model: Any, watch: Stopwatch, parts: Mapping[str, str],
                 verifier: "Watched | None" = None) -> None:
        """Args:
            model: of any kind.
            watch: to note times with.
            parts: of each verb to time, the part that its time belongs to; verbs that the model lacks are left out.
            verifier: what stands in the place of the model's own; None: that.
        """
        self._model = model = open_engine(model)
        for verb, part in parts.items():
            if hasattr(model, verb):
                setattr(self, verb, watch.timed(part, getattr(model, verb)))
        if verifier is not None:
            self.verifier = verifier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def time_parts(searches: Sequence[Search], sentences: Sequence[Tensor], repetitions: int, warmup: int) -> Floats:
    """Time the parts of searches, by turns, one sentence at a time.

    Args:
        searches: of `Watched` models, each with their stopwatch; all stopwatches have the same parts.
        sentences: N of (1, S) ids.
        repetitions, warmup: see `speed.measure`.

    Returns:
        (searches, N, parts + 1) seconds of each part, and of what is left of the whole: medians over the repetitions.
    """
    logs: list[list[list[float]]] = [[] for _ in searches]

    def contestant(search: Search, log: list[list[float]]) -> Contestant:
        def translate(source: Tensor) -> Hypotheses:
            search.watch.set_back()
            found = search.translate(source)
            log.append(list(search.watch.seconds.values()))
            return found
        return Contestant("parts", "parts", translate)

    watch = searches[0].watch
    whole = measure([contestant(*each) for each in zip(searches, logs, strict=True)], sentences,
                    repetitions=repetitions, warmup=warmup, device=watch.device, batch_sizes=(1,),
                    clock=watch.clock)[1].seconds
    timed = [log[-repetitions * len(sentences):] for log in logs]  # behind the warm-up
    parts = np.array(timed).reshape(*whole.shape, len(watch.seconds))
    rest = whole - parts.sum(3)
    return np.median(np.concatenate([parts, rest[..., None]], 3), axis=1)
