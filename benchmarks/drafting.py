"""What a draft and its verification cost in steps of greedy search: how many tokens must be accepted to win.

    python -m benchmarks.drafting
    python -m benchmarks.drafting --rounds 5 --output quick.json   # does it run?

Random weights, batch 1, a prefix of 15 tokens behind a source of 25 pieces; the default model (d=128, 2+2 layers,
3,000 pieces) and a base-size one (d=512, 6+6 layers, 16,000 pieces). One iteration of draft and verify is a draft of
k tokens (heads: of k - 1) and one call of the verifier on all of them; it pays if it accepts more tokens than it costs
greedy steps. The loop's own bookkeeping is a search with nothing drafted against greedy search, a sentence of 25 words
each.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.clock import RESULTS, Turn, argument_parser, interleave, machine, median_ratio, table
from benchmarks.step import NETWORK, random_model
from pipeline.decoding import greedy, verify
from pipeline.decoding.limits import LengthLimit
from pipeline.files import write_json
from pipeline.model.checkpoint import column_major
from pipeline.model.drafters import make_drafter
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.top import best
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, SPECIALS

BASE = NetworkSettings(width=512, heads=8, feed_forward=2048, encoder_layers=6, decoder_layers=6)
MODELS = ((NETWORK, 3000), (BASE, 16000))
BLOCKS = (3, 5, 8)
LAYERS = (1, 2)
SOURCE, PREFIX, WORDS = 25, 15, 25
WARMUP = 5
_LIMIT = LengthLimit(ratio=0, extra=WORDS, longest=WORDS)


def timed(work: Callable[[], Any]) -> Turn:
    def turn(item: int) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    return turn


def verification(model: Transformer, source: Tensor, prefix: Tensor, tokens: int) -> Callable[[], None]:
    """Feed so many tokens behind the prefix, read the best words, and forget the tokens."""
    state = model.start(model.encode(source), capacity=64)
    model.step(prefix, state)
    following = prefix[:, :tokens]

    def work() -> None:
        best(model.step(following, state))
        state.rewind(PREFIX)
    return work


def drafting(model: Any, verifier: Transformer, source: Tensor, prefix: Tensor, block: int) -> Callable[[], None]:
    """Draft k tokens behind the prefix, of which two are new to the drafter."""
    memory = verifier.encode(source)
    state = model.start(model.draft_memory(source, memory), capacity=64)

    def work() -> None:
        states = model.propose(prefix, PREFIX, block, state)
        model.follow(states, prefix[:, -1])
        state.rewind(PREFIX - 2)
    work()  # so that the drafter has read all but the last two tokens
    return work


def running_ahead(model: Any, verifier: Transformer, source: Tensor, prefix: Tensor, tokens: int) -> Callable[[], None]:
    """Say k tokens behind the prefix, of which two are new to the small model."""
    state = model.start(model.draft_memory(source, verifier.encode(source)), capacity=64)

    def work() -> None:
        model.run_ahead(prefix, PREFIX, tokens, state)
        state.rewind(PREFIX - 2)
    work()
    return work


@torch.inference_mode()
def measure(settings: NetworkSettings, vocabulary: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of everything, in turn, and the costs of whole iterations in greedy steps."""
    random = torch.Generator().manual_seed(1)
    source = torch.randint(len(SPECIALS), vocabulary, (1, SOURCE), generator=random)
    source = torch.nn.functional.pad(source, (0, 1), value=EOS)
    prefix = torch.randint(len(SPECIALS), vocabulary, (1, PREFIX), generator=random)
    prefix[:, 0] = BOS
    verifier = random_model(OrderSettings("left_to_right"), vocabulary, settings)
    heads = column_major(BlockwiseHeads(settings, vocabulary, vocabulary, verifier.order, max(BLOCKS), True))
    hidden = torch.randn(1, settings.width)

    one_layer = replace(settings, encoder_layers=0, decoder_layers=1)
    small = make_drafter(one_layer, vocabulary, vocabulary, 1, "causal", False)
    small.attach(verifier)
    column_major(small.eval())

    contestants: dict[str, Turn] = {"greedy step": timed(verification(verifier, source, prefix, 1))}
    for k in BLOCKS:
        contestants[f"verify {k}"] = timed(verification(verifier, source, prefix, k + 1))
        contestants[f"heads {k}"] = timed(
            lambda k=k: heads.follow(heads.head_states(hidden, k - 1), prefix[:, -1]))  # type: ignore[misc]
        contestants[f"small model {k}"] = timed(running_ahead(small, verifier, source, prefix, k))
        for layers in LAYERS:
            drafter = make_drafter(replace(one_layer, decoder_layers=layers), vocabulary, vocabulary, k, "causal", True)
            drafter.attach(verifier)
            column_major(drafter.eval())
            contestants[f"drafter {layers}, {k}"] = timed(drafting(drafter, verifier, source, prefix, k))
    contestants["greedy search"] = timed(lambda: greedy.search(verifier, source, _LIMIT))
    contestants["nothing drafted"] = timed(lambda: verify.search(verifier, source, _LIMIT))
    seconds = interleave(contestants, rounds, warmup=WARMUP)

    step = seconds["greedy step"]
    costs = {}
    for k in BLOCKS:
        for name in (f"heads {k}", f"small model {k}"):
            costs[name] = median_ratio(seconds[f"verify {k}"] + seconds[name], step)
        for layers in LAYERS:
            drafted = seconds[f"verify {k}"] + seconds[f"drafter {layers}, {k}"]
            costs[f"drafter {layers}, {k}"] = median_ratio(drafted, step)
    return {"network": asdict(settings), "vocabulary": vocabulary,
            "milliseconds": {name: float(1000 * sorted(one)[len(one) // 2]) for name, one in seconds.items()},
            "iteration_in_greedy_steps": costs,
            "loop_over_greedy_search": median_ratio(seconds["nothing drafted"], seconds["greedy search"])}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="times that everything is timed")
    parser.add_argument("--output", type=Path, default=RESULTS / "drafting.json", help="where to write the result")
    arguments = parser.parse_args()
    about = machine(["torch"])
    results = [measure(settings, vocabulary, arguments.rounds) for settings, vocabulary in MODELS]
    for result in results:
        network = result["network"]
        print(f"\nd={network['width']}, {network['encoder_layers']}+{network['decoder_layers']} layers: a greedy step "
              f"takes {result['milliseconds']['greedy step']:.2f} ms; the loop with nothing drafted takes "
              f"{result['loop_over_greedy_search'][0]:.2f} times greedy search")
        rows = [[name, f"{ratio:.2f}", f"[{low:.2f}, {high:.2f}]"]
                for name, (ratio, low, high) in result["iteration_in_greedy_steps"].items()]
        print(table(["draft and verify", "greedy steps", "95 %"], rows))
    write_json(arguments.output, {"machine": about, "rounds": arguments.rounds, "results": results})


if __name__ == "__main__":
    main()
