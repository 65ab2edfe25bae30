"""How fast is every decoder against greedy search, by the width of the model: the regimes in which each of them pays.

    python -m benchmarks.regimes
    python -m benchmarks.regimes --widths 128 --rounds 2 --output quick.json   # does it run?
    python -m benchmarks.regimes --device cuda --precisions float32 bfloat16 --sentences 1 8 32 128 --output gpu.json

Random weights, sources of 25 pieces, outputs of 30 words (the end symbol is out of reach), one sentence at a time and
32 at once, in float32 and with weights of 8 bits. Searches of a fixed number of steps are timed as they are. Those that
draft are timed by the round, a draft and its verification, whatever random weights accept; their speed is that of as
many rounds as the tokens per call of a trained system need, which come from its report, with a drafter of its shape and
drafts of the same size. Where several reports have them, those of the nearest width count, and the drafter is as much
wider than the trained one as its verifier is. The tokens per call are a mean: a trained batch takes as many rounds as
its slowest sentence, so of several sentences at once, drafts are shown at their best.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.clock import RESULTS, Turn, about, argument_parser, interleave, median_ratio, table
from benchmarks.lattice import random_lattice
from benchmarks.shapes import SHAPES
from docs.reports import exists, parameters, read
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.device import pick_device
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.evaluation.bootstrap import Floats
from pipeline.evaluation.speed import synchronise
from pipeline.families.settings import DraftingFamily, FamilySettings
from pipeline.files import write_json
from pipeline.model.checkpoint import column_major
from pipeline.model.drafter import make_drafter
from pipeline.model.formats import COMPILED, FORMATS, in_format
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import EOS, SPECIALS

SOURCE, WORDS, WINDOW, WARMUP = 25, 30, 3, 3  # a GPU's steps are recorded meanwhile
BASELINE, ENCODER = "ar greedy", "encoder"

ORDERS = {"interleaved": OrderSettings("interleaved"), "double_token": OrderSettings("double_token"),
          "interleaved_sa": OrderSettings("interleaved", words=2),
          "multi_directional": OrderSettings("multi_directional", directions=4)}
BEAM4 = {"algorithm": "beam", "beams": 4}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    BASELINE: ("ar", {"algorithm": "greedy"}),
    "ar beam4": ("ar", BEAM4),
    "ar beam5": ("ar", {"algorithm": "beam", "beams": 5}),
    **{f"{order} greedy": (order, {"algorithm": "greedy"}) for order in ORDERS},
    "interleaved beam4": ("interleaved", BEAM4),
    "double_token pair_beam4": ("double_token", {"algorithm": "pair_beam", "beams": 4}),
    "double_token pair_beam10": ("double_token", {"algorithm": "pair_beam", "beams": 10}),
    **{f"lattice lattice{K}": ("lattice", {"algorithm": "lattice", "candidates": K, "window": WINDOW})
       for K in (16, 32, 64)},
}
"""The searches whose number of steps does not depend on the weights, by system and decoder as reports name them: the
model and the entry of `decoders`."""
CORRECTION, CORRECTING = "reports/gec_base/decoders.json", "iad_whole"
"""The report of correctors, whose sources are their drafts, and the decoder of `ar` that drafts all that is left."""
DRAFTING = {"ar iad": "ar", f"correction {CORRECTING}": "ar", "ar pgj3": "ar", "drafter gad": "drafter",
            "drafter gad_block": "drafter", "speculative speculative": "speculative",
            "blockwise blockwise": "blockwise"}
"""The models of those that draft. Their entries of `decoders` are of the run that their tokens per call are from."""
DRAFTERS = ("drafter", "speculative", "blockwise")
"""Those models that have a shape of their own; the same decoder's may differ between runs."""
REPORTS = {"reports/decoders.json": 128, "reports/full/decoders.json": 256, "reports/base/decoders.json": 512}
"""The reports of trained systems, each with the width of its models."""


def make_model(name: str, verifier: Any, settings: NetworkSettings, vocabulary: int, device: torch.device,
               family: FamilySettings | None) -> Any:
    """The model of some searches, on random weights, opened as checkpoints are.

    Args:
        name: of an entry of `SEARCHES` or `DRAFTING`.
        verifier: the model `ar`, on the device.
        settings: its shape.
        vocabulary: pieces.
        device: where it searches.
        family: of a drafter or of heads: its settings, as trained.
    """
    if name == "ar":
        return verifier
    if name in ORDERS:
        return random_model(ORDERS[name], vocabulary, settings, device)
    if name == "lattice":
        return open_engine(random_lattice(settings, vocabulary, WORDS).to(device))
    assert isinstance(family, DraftingFamily) and family.drafting is not None, name
    drafting = family.drafting
    if name == "blockwise":
        heads = BlockwiseHeads(settings, vocabulary, vocabulary, verifier.order, drafting.block, drafting.chained)
        heads.copy_verifier(verifier)
        return open_engine(column_major(heads.to(device).eval()))
    made = make_drafter(family.network, vocabulary, vocabulary, drafting.block, drafting.prefix, drafting.chained)
    made.attach_verifier(verifier)
    return open_engine(column_major(made.to(device).eval()))


def _as_wide(family: FamilySettings, trained: int, width: int) -> FamilySettings:
    """A family for a verifier of another width than the one that it was trained for: as much wider, or narrower."""
    shape = family.network
    return replace(family, network=replace(shape, **{
        name: max(1, getattr(shape, name) * width // trained) for name in ("width", "heads", "feed_forward")}))


class Trained(NamedTuple):
    """A drafting decoder of a trained system."""

    entry: dict[str, Any]
    """Of `decoders`."""
    tokens_per_call: float
    report: str
    family: FamilySettings
    verifier: int
    """The width of its verifier."""


def trained_drafts(width: int) -> dict[str, Trained]:
    """The drafting decoders of trained systems, by system and decoder, each from the report of the nearest width."""
    found: dict[str, Trained] = {}
    for name, _ in sorted(REPORTS.items(), key=lambda item: -abs(np.log(item[1] / width))):
        found |= _drafts_of(name)
    corrects = _drafts_of(CORRECTION).get(f"ar {CORRECTING}")
    return found if corrects is None else found | {f"correction {CORRECTING}": corrects}


def _drafts_of(name: str) -> dict[str, Trained]:
    if not exists(name):
        return {}
    params = parameters(str(Path(name).parent))
    verifier = params.family("ar").network.width
    return {f"{row['family']} {row['decoder']}": Trained(params.decoder(row["decoder"]), row["accepted_per_call"], name,
                                                         params.family(row["family"]), verifier)
            for row in read(name) if row["accepted_per_call"]}


def measure(width: int, precision: str, size: int, vocabulary: int, rounds: int,
            device: torch.device) -> list[dict[str, Any]]:
    """The speed of every search over greedy search, one sentence at a time or in batches of `size`.

    The searches of a model take turns with greedy search by `ar`, then those of the next model do: all models of the
    largest width together need more memory than most machines have.
    """
    settings, random = SHAPES[width], torch.Generator().manual_seed(1)
    sources = [torch.nn.functional.pad(torch.randint(len(SPECIALS), vocabulary, (size, SOURCE), generator=random),
                                       (0, 1), value=EOS).to(device) for _ in range(rounds)]
    drafts = trained_drafts(width)
    entries = SEARCHES | {name: (model, drafts[name].entry) for name, model in DRAFTING.items() if name in drafts}
    verifier = random_model(OrderSettings("left_to_right"), vocabulary, settings, device)
    rows = dict[str, dict[str, Any]]()
    models = {name: (model, _as_wide(drafts[name].family, drafts[name].verifier, width) if model in DRAFTERS else None)
              for name, (model, _) in entries.items()}
    for model, family in dict.fromkeys(models.values()):
        own = [name for name, of in models.items() if of == (model, family)]
        found = _take_turns(dict.fromkeys([BASELINE, *own]), entries, precision, sources, verifier,
                            make_model(model, verifier, settings, vocabulary, device, family))
        rows |= {name: _row(name, *found, drafts.get(name), size) for name in own}
    return [rows[name] for name in entries]


def _take_turns(names: Iterable[str], entries: Mapping[str, tuple[str, Mapping[str, Any]]], precision: str,
                sources: Sequence[Tensor], verifier: Any, model: Any) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Seconds and calls of each search, greedy search by `verifier` among them, and the seconds of its encoder, all in
    one format."""
    encoder = open_engine(in_format(verifier, precision))
    decoders = {name: _decoder(name, *entries[name], precision) for name in names}
    calls = {name: np.zeros(len(sources)) for name in decoders}

    def turn(name: str) -> Turn:
        def play(item: int) -> float:
            synchronise(sources[item].device)
            start = time.perf_counter()
            found = decoders[name](verifier if name == BASELINE else model, sources[item])
            synchronise(sources[item].device)
            seconds = time.perf_counter() - start
            calls[name][item] = float(found.calls.double().mean())
            return seconds
        return play

    def encode(item: int) -> float:
        synchronise(sources[item].device)
        start = time.perf_counter()
        encoder.encode(sources[item])
        synchronise(sources[item].device)
        return time.perf_counter() - start

    with torch.inference_mode():
        return interleave({name: turn(name) for name in decoders} | {ENCODER: encode}, len(sources),
                          warmup=WARMUP), calls


def _row(name: str, seconds: Mapping[str, Floats], calls: Mapping[str, Floats], draft: Trained | None,
         size: int) -> dict[str, Any]:
    """The figures of a search; of one that drafts, of as many rounds as its trained system needs."""
    taken = seconds[name]
    if draft is not None:
        round_of = (taken - seconds[ENCODER]) / calls[name]
        taken = seconds[ENCODER] + round_of * (WORDS + 1) / draft.tokens_per_call
    return {"search": name, "milliseconds": 1e3 * float(np.median(taken)) / size,
            "over_greedy": median_ratio(seconds[BASELINE], taken),
            "tokens_per_call": draft and draft.tokens_per_call, "tokens_per_call_of": draft and draft.report}


def _decoder(name: str, model: str, block: Mapping[str, Any], precision: str) -> Callable[[Any, Tensor], Hypotheses]:
    longest = WORDS + WINDOW if model == "lattice" else WORDS
    entry = {**block, **({} if precision == "float32" else {"quantization": precision})}
    return make_decoder(name, entry, LengthLimit(ratio=0, extra=longest, longest=longest))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--widths", type=int, nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--precisions", nargs="+", choices=FORMATS, default=list(COMPILED))
    parser.add_argument("--sentences", type=int, nargs="+", default=[1, 32], help="how many at once")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=9, help="sentences, and batches, of each measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "regimes.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    description, results = about(["numpy"]), []
    for width in options.widths:
        for precision in options.precisions:
            for size in options.sentences:
                rows = measure(width, precision, size, options.vocabulary, options.rounds,
                               torch.device(pick_device(options.device)))
                results.append({"width": width, "network": asdict(SHAPES[width]), "precision": precision,
                                "sentences": size, "rows": rows})
                print(f"\nd={width}, {precision}, {size} at once")
                print(table(["search", "ms/sentence", "over greedy", "95 %", "tokens/call"], [
                    [row["search"], f"{row['milliseconds']:.2f}", f"{row['over_greedy'][0]:.2f}",
                     "[{1:.2f}, {2:.2f}]".format(*row["over_greedy"]),
                     "" if row["tokens_per_call"] is None else f"{row['tokens_per_call']:.2f}"] for row in rows]),
                    flush=True)
                write_json(options.output, {  # what has been measured is kept if the next part is interrupted
                    **description, "weights": "random", "vocabulary": options.vocabulary, "words": WORDS,
                    "trained": REPORTS, "rounds": options.rounds, "results": results})


if __name__ == "__main__":
    main()
