"""Where the time of one decoding step goes, what a step of two words costs against one of one, and for how many rows,
tokens and pieces of which width a compiled step and a compiled encoder are the quicker ones.

    python -m benchmarks.step

A model with random weights (d=128, 2+2 layers, vocabulary 3,000) is searched on outputs of 20 to 30 words, alone in
its batch: as users do, where the whole search may be one compiled call, and step by step from Python. There a
timer around each of the model's methods tells its time from the search's own.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.clock import RESULTS, Floats, Turn, about, argument_parser, interleave, median_ratio, table, timed
from benchmarks.shapes import DEFAULT
from pipeline.decoding import beam, greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.engine import bounds
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.evaluation.bootstrap import speed_ratio
from pipeline.files import write_json
from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.state import Memory, State
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import SPECIALS

ORDERS = ("left_to_right", "interleaved")
ROWS = (1, 2, 4, 5, 8, 10)
WIDTHS = (128, 256, 512, 1024)
STEPS = ((1, 1), (1, 4), (1, 16), (1, 64), (1, 128), (1, 250), (8, 1), (32, 1), (64, 1), (160, 1), (320, 1), (8, 30),
         (32, 30))
"""Rows and tokens of each."""
SOURCES = ((1, 10), (1, 25), (1, 50), (1, 100), (1, 250), (8, 25), (32, 25), (32, 60))
"""Sentences and pieces of each."""
MOST = 2**18
"""The largest product of rows, tokens and width that is timed."""
ALWAYS, NEVER = bounds.Bounds(10**9, 10**9, 10**9), bounds.Bounds(0, 0, 0)
WAYS = {"compiled": ALWAYS, "torch": NEVER}
WORDS = range(20, 31)
"""Lengths of the outputs: those of long sentences, half of them odd."""
SOURCE = 25
METHODS = ("encode", "start", "step", "select")


class Timed:
    """A model whose methods add up their seconds."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.seconds = dict.fromkeys(METHODS, 0.0)

    @property
    def kind(self) -> str:
        return self.model.kind

    @property
    def order(self) -> Order:
        return self.model.order

    def encode(self, source: Tensor) -> Memory:
        return self._timed("encode", lambda: self.model.encode(source))

    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        state = self._timed("start", lambda: self.model.start(memory, beams, capacity))
        select = state.select
        state.select = lambda rows: self._timed("select", lambda: select(rows))
        return state

    def step(self, tokens: Tensor, state: State) -> Tensor:
        return self._timed("step", lambda: self.model.step(tokens, state))

    def _timed(self, method: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        self.seconds[method] += time.perf_counter() - start
        return result


def search(model: Any, source: Tensor, words: int, beams: int) -> int:
    """Translate up to a number of words, by greedy search where there is one beam; decoder calls."""
    limit = LengthLimit(ratio=0, extra=words, longest=words)
    if beams == 1:
        found = greedy.search(model, source, limit)
    else:
        found = beam.search(model, source, limit, beam.Settings(beams))
    if bool(found.ended.any()):
        raise ValueError("the search ended before its limit: its time is not that of a long sentence")
    return int(found.calls[0])


def measure_search(models: dict[str, Transformer], beams: int, source: Tensor, rounds: int) -> dict[str, Any]:
    """Milliseconds per sentence, and step by step from Python microseconds per call by method, for both orders in turn.
    """
    sentences = rounds * len(WORDS)
    methods = {order: np.zeros((sentences, len(METHODS))) for order in models}
    calls = {order: np.zeros(sentences) for order in models}

    def plain(order: str) -> Turn:
        return lambda item: timed(partial(search, models[order], source, WORDS[item % len(WORDS)], beams))(item)

    def dissecting(order: str) -> Turn:
        def turn(item: int) -> float:
            model = Timed(models[order])
            start = time.perf_counter()
            calls[order][item] = search(model, source, WORDS[item % len(WORDS)], beams)
            seconds = time.perf_counter() - start
            methods[order][item] = list(model.seconds.values())
            return seconds
        return turn

    seconds = interleave({order: plain(order) for order in models} | {
        f"{order}, step by step": dissecting(order) for order in models}, sentences, warmup=len(WORDS))
    return {"beams": beams,
            "orders": {order: {
                "calls": float(calls[order].mean()), "ms_per_sentence": 1e3 * float(np.median(seconds[order])),
                "step_by_step": shares(seconds[f"{order}, step by step"], methods[order], calls[order])}
                for order in models},
            "interleaved_times_faster": list(speed_ratio(seconds["left_to_right"], seconds["interleaved"]))}


def shares(seconds: Floats, methods: Floats, calls: Floats) -> dict[str, float]:
    """Where the time of a sentence goes that is searched step by step from Python: medians over sentences.

    Args:
        seconds: (N,) of each sentence.
        methods: (N, methods) seconds in each of the methods, in the order of `METHODS`; the rest is the search's own.
        calls: (N,) of the decoder.
    """
    share = dict(zip(METHODS, methods.T, strict=True))
    own = seconds - methods.sum(1)
    return {
        "ms_per_sentence": 1e3 * float(np.median(seconds)),
        "encode_ms": 1e3 * float(np.median(share["encode"])), "start_ms": 1e3 * float(np.median(share["start"])),
        "step_us_per_call": 1e6 * float(np.median(share["step"] / calls)),
        "select_us_per_call": 1e6 * float(np.median(share["select"] / calls)),
        "search_us_per_call": 1e6 * float(np.median(own / calls)),
    }


def measure_steps(models: dict[str, Transformer], source: Tensor, rounds: int) -> list[dict[str, Any]]:
    """Microseconds of a step at each number of rows, one and two words wide, and of its parts."""
    parts = {(order, rows): _step_parts(model, source, rows) for order, model in models.items() for rows in ROWS}
    played = {f"{order} {rows} {part}": play
              for (order, rows), functions in parts.items() for part, play in functions.items()}
    with torch.inference_mode():
        seconds = interleave(played, rounds, warmup=20)
    results = []
    for (order, rows), functions in parts.items():
        times = {part: seconds[f"{order} {rows} {part}"] for part in functions}
        results.append({
            "order": order, "rows": rows, "words": models[order].order.width,
            **{f"{part}_us": 1e6 * float(np.median(times[part])) for part in functions},
            "step_over_left_to_right": median_ratio(times["step"], seconds[f"left_to_right {rows} step"])})
    return results


def measure_widths(vocabulary: int, rounds: int) -> list[dict[str, Any]]:
    """Microseconds of a step over the next tokens of every row, compiled and by torch, two layers of each width."""
    results, random = [], torch.Generator().manual_seed(1)
    for width in WIDTHS:
        model = _two_layers(width, vocabulary)
        for rows, count in ((rows, count) for rows, count in STEPS if rows * count * width <= MOST):
            source = torch.randint(len(SPECIALS), vocabulary, (rows, SOURCE), generator=random)
            with torch.inference_mode():
                state = model.start(model.encode(source))
                step = partial(read_and_forget, model, state, torch.full((rows, count), len(SPECIALS)))
                seconds = interleave({way: timed(partial(step, most)) for way, most in WAYS.items()}, rounds, warmup=5)
            results.append({"width": width, "rows": rows, "tokens": count, **_compared(seconds)})
    return results


def measure_encoders(vocabulary: int, rounds: int) -> list[dict[str, Any]]:
    """Microseconds of encoding sentences and starting to decode them, compiled and by torch, after another search."""
    results, random = [], torch.Generator().manual_seed(1)
    for width in WIDTHS:
        model = _two_layers(width, vocabulary)
        for sentences, pieces in ((B, S) for B, S in SOURCES if B * S * width <= MOST):
            source = torch.randint(len(SPECIALS), vocabulary, (sentences, pieces), generator=random)
            with torch.inference_mode():
                seconds = interleave({way: partial(_begin, model, source, most) for way, most in WAYS.items()}, rounds,
                                     warmup=5)
            results.append({"width": width, "sentences": sentences, "pieces": pieces, **_compared(seconds)})
    return results


def _compared(seconds: dict[str, Floats]) -> dict[str, Any]:
    return {**{f"{way}_us": 1e6 * float(np.median(one)) for way, one in seconds.items()},
            "times_faster": median_ratio(seconds["torch"], seconds["compiled"])}


def _begin(model: Transformer, source: Tensor, most: bounds.Bounds, item: int) -> float:
    """Seconds to the first step, sources of sizes up to `most` by compiled code.

    The search before has let torch's threads fall asleep, as the search of every sentence does.
    """
    search(model, source[:1, :8], 8, 1)
    with patch.object(bounds, "of", lambda width: most):
        start = time.perf_counter()
        model.start(model.encode(source))
        return time.perf_counter() - start


def _two_layers(width: int, vocabulary: int) -> Transformer:
    network = NetworkSettings(width=width, heads=width // 64 or 1, feed_forward=4 * width, encoder_layers=2,
                              decoder_layers=2)
    return random_model(OrderSettings("left_to_right"), vocabulary, network)


def read_and_forget(model: Transformer, state: State, tokens: Tensor, most: bounds.Bounds, kept: int = 0) -> None:
    """Read tokens, of sizes up to `most` by compiled code, and forget all but the first `kept`."""
    with patch.object(bounds, "of", lambda width: most):
        model.step(tokens, state)
    state.rewind(kept)


def _step_parts(model: Transformer, source: Tensor, rows: int) -> dict[str, Callable[[int], float]]:
    """The entire step after 12 slots, and its projection to the vocabulary."""
    random = torch.Generator().manual_seed(1)
    width, weight = model.order.width, model.projection.weight
    with torch.inference_mode():
        state = model.start(model.encode(source), beams=rows)
        tokens = torch.randint(len(SPECIALS), len(weight), (rows, width), generator=random)
        hidden = torch.randn(rows * width, model.settings.width, generator=random)
        while state.length < 12:
            model.step(tokens, state)

    def step() -> None:
        model.step(tokens, state)
        state.rewind(12)

    return {"step": timed(step), "projection": timed(lambda: F.linear(hidden, weight))}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="passes over the output lengths")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4, 5])
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "step.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    description = about(["numpy"])
    models = {order: random_model(OrderSettings(order), options.vocabulary, DEFAULT) for order in ORDERS}
    random = torch.Generator().manual_seed(1)
    source = torch.randint(len(SPECIALS), options.vocabulary, (1, SOURCE), generator=random)
    searches = [measure_search(models, beams, source, options.rounds) for beams in options.beams]
    steps = measure_steps(models, source, 10 * options.rounds)
    widths = measure_widths(options.vocabulary, 2 * options.rounds)
    encoders = measure_encoders(options.vocabulary, 2 * options.rounds)
    write_json(options.output, {**description, "vocabulary": options.vocabulary, "searches": searches,
                                "steps": steps, "widths": widths, "encoders": encoders})
    rows = [(f"{order}, beam {row['beams']}", order, row, found)
            for row in searches for order, found in row["orders"].items()]
    print(table(["search", "calls", "ms per sentence", "times faster"], [
        [name, f"{found['calls']:.2f}", f"{found['ms_per_sentence']:.2f}",
         "" if order == ORDERS[0] else "{:.2f} ({:.2f} to {:.2f})".format(*row["interleaved_times_faster"])]
        for name, order, row, found in rows]))
    parts = list(rows[0][3]["step_by_step"])
    print(table(["step by step from Python", *(part.replace("_", " ") for part in parts)], [
        [name, *(f"{found['step_by_step'][part]:.2f}" for part in parts)] for name, _, _, found in rows]))
    print(table(["step", "rows", "words", "µs", "of it projection", "over left-to-right"], [
        [row["order"], str(row["rows"]), str(row["words"]), f"{row['step_us']:.0f}",
         f"{row['projection_us']:.0f}", f"{row['step_over_left_to_right'][0]:.2f}"] for row in steps]))
    print(table(["width", "rows", "tokens", "µs compiled", "µs by torch", "times faster"], [
        [str(row["width"]), str(row["rows"]), str(row["tokens"]), f"{row['compiled_us']:.0f}", f"{row['torch_us']:.0f}",
         "{:.2f} ({:.2f} to {:.2f})".format(*row["times_faster"])] for row in widths]))
    print(table(["width", "sentences", "pieces", "µs compiled", "µs by torch", "times faster"], [
        [str(row["width"]), str(row["sentences"]), str(row["pieces"]), f"{row['compiled_us']:.0f}",
         f"{row['torch_us']:.0f}",
         "{:.2f} ({:.2f} to {:.2f})".format(*row["times_faster"])] for row in encoders]))


if __name__ == "__main__":
    main()
