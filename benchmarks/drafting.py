"""What a draft and its verification cost in tokens of greedy search: how many must be accepted per call to win.

    python -m benchmarks.drafting
    python -m benchmarks.drafting --rounds 5 --output quick.json   # does it run?

Random weights, batch 1, a source of 25 pieces and outputs of 40; the default model's shape (d=128, 2+2 layers) with
3,000 pieces, and a base-size one (d=512, 6+6 layers, 16,000 pieces). A search's time, encoder aside, by its calls is
that of a round, whatever the random drafter happened to guess; it is given over the time of a token of greedy search.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.clock import RESULTS, about, argument_parser, interleave, median_ratio, table, timed
from benchmarks.shapes import BASE, DEFAULT
from pipeline.decoding import blockwise, gad, greedy, speculative, verify
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.checkpoint import column_major
from pipeline.model.drafter import make_drafter
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import EOS, SPECIALS

MODELS = ((DEFAULT, 3000), (BASE, 16000))
BLOCKS = (1, 2, 3, 5, 8)
SOURCE, WORDS = 25, 40
WARMUP = 3


@torch.inference_mode()
def measure(settings: NetworkSettings, vocabulary: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of every search, in turn, and what its rounds cost in tokens of greedy search."""
    random, limit = torch.Generator().manual_seed(1), LengthLimit(ratio=0, extra=WORDS, longest=WORDS)
    source = torch.randint(len(SPECIALS), vocabulary, (1, SOURCE), generator=random)
    source = torch.nn.functional.pad(source, (0, 1), value=EOS)
    verifier = random_model(OrderSettings("left_to_right"), vocabulary, settings)
    heads = BlockwiseHeads(settings, vocabulary, vocabulary, verifier.order, max(BLOCKS) + 1, True)
    heads.copy_verifier(verifier)
    heads = open_engine(column_major(heads))

    def beside(chained: bool) -> Any:
        network = replace(settings, encoder_layers=0, decoder_layers=1)
        made = make_drafter(network, vocabulary, vocabulary, max(BLOCKS), "causal", chained)
        made.attach_verifier(verifier)
        return open_engine(column_major(made.eval()))

    small, masked = beside(False), beside(True)
    searches: dict[str, Callable[[], Hypotheses]] = {
        "greedy search": lambda: greedy.search(verifier, source, limit),
        "nothing drafted": lambda: verify.search(verifier, source, limit)}
    for k in BLOCKS:
        searches |= {
            f"small model, {k}": partial(speculative.search, small, source, limit, speculative.Settings(k)),
            f"masks, {k}": partial(gad.search, masked, source, limit, gad.Settings(k)),
            f"heads, {k}": partial(blockwise.search, heads, source, limit, blockwise.Settings(k + 1))}
    calls = {name: int(search().calls[0]) for name, search in searches.items()}
    contestants = {name: timed(search) for name, search in searches.items()}
    seconds = interleave(contestants | {"encoder": timed(lambda: verifier.encode(source))}, rounds, warmup=WARMUP)
    rounds_of = {name: (seconds[name] - seconds["encoder"]) / calls[name] for name in searches}
    return {"network": asdict(settings), "vocabulary": vocabulary,
            "calls": calls,
            "milliseconds": {name: float(1000 * sorted(one)[len(one) // 2]) for name, one in seconds.items()},
            "round_in_greedy_tokens": {name: median_ratio(one, rounds_of["greedy search"])
                                       for name, one in rounds_of.items()}}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="times that everything is timed")
    parser.add_argument("--output", type=Path, default=RESULTS / "drafting.json", help="where to write the result")
    arguments = parser.parse_args()
    description = about(["torch"])
    results = [measure(settings, vocabulary, arguments.rounds) for settings, vocabulary in MODELS]
    for result in results:
        network, milliseconds = result["network"], result["milliseconds"]
        token = (milliseconds["greedy search"] - milliseconds["encoder"]) / result["calls"]["greedy search"]
        print(f"\nd={network['width']}, {network['encoder_layers']}+{network['decoder_layers']} layers: a token of "
              f"greedy search takes {token:.3f} ms, the encoder {milliseconds['encoder']:.2f} ms")
        print(table(["a round", "greedy tokens", "95 %"], [
            [name, f"{ratio:.2f}", f"[{low:.2f}, {high:.2f}]"]
            for name, (ratio, low, high) in result["round_in_greedy_tokens"].items()]))
    write_json(arguments.output, {**description, "rounds": arguments.rounds, "results": results})


if __name__ == "__main__":
    main()
