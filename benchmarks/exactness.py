"""Is what draft and verify finds what greedy search finds? Every exact decoder, every test sentence, any batch.

    python -m benchmarks.exactness              # after `dvc repro`, in the folder of its params.yaml
    python -m benchmarks.exactness --profile gec
    python -m benchmarks.exactness --quantization int8
    python -m benchmarks.exactness --profile base --sentences 100   # float64 of a large model takes long

Trained weights and the whole test split, in batches of 1, 8 and 64 in float32 and float64, and of 64 in bfloat16. A
difference that is no numerical tie (`pipeline.evaluation.exactness`) stops the benchmark; ties are counted. In float64
there must be none. Batches stay together here, as those of larger models do; where sentences are searched apart
(`pipeline.decoding.threaded`), every batch is as those of 1.

With `--quantization int8` both searches read the quantised model. In bfloat16 torch computes it, so that case is left
out; in the others all steps are the engine's, and there must be no tie.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.clock import RESULTS, about, argument_parser, table
from pipeline import layout
from pipeline.cores import usable_cores
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Pairs
from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.settings import make_decoder
from pipeline.engine import door
from pipeline.engine.door import open_engine
from pipeline.evaluation.clock import spread
from pipeline.evaluation.exactness import count_ties
from pipeline.files import write_json
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.formats import COMPILED, in_format
from pipeline.params import PARAMS, Params, load_params
from pipeline.workspace import PROFILES

CASES = (*((torch.float32, size) for size in (1, 8, 64)), *((torch.float64, size) for size in (1, 8, 64)),
         (torch.bfloat16, 64))
"""Types and batch sizes."""
Expected = dict[tuple[str, str, int], Hypotheses]
"""Greedy search's, by verifier, type and batch size, and first sentence."""


def examine(params: Params, folder: Path, family: str, decoder: str, quantization: str, sentences: int | None,
            expected: Expected) -> dict[str, Any] | None:
    """Ties by type and batch size, and tokens accepted per call; None if the decoder promises nothing.

    Args:
        params: of the run.
        folder: that it is in.
        family: with a checkpoint.
        decoder: one of its own.
        quantization: of both searches.
        sentences: of the test split, evenly spaced over the lengths of their sources; None: all.
        expected: what is known of greedy search; added to.
    """
    judge = params.family(family).verifier or family
    tokenizer = Tokenizer.load(folder / layout.BPE)
    network, _ = load_checkpoint(folder / layout.checkpoint(family), tokenizer.digest, params.family(family).order)
    limit = params.length_limit(network.settings.max_length)
    decode = make_decoder(decoder, {**params.decoder(decoder), "quantization": quantization}, limit)
    pairs = Pairs.open(folder / layout.BPE / "test.pairs", tokenizer.digest)
    order = spread(pairs.source_lengths, np.arange(len(pairs)), sentences or len(pairs))[::-1]
    found: dict[str, Any] = {"sentences": len(order), "ties": {}}
    for dtype, size in cases(quantization):
        network.to(dtype)
        searched, name = in_format(network, quantization), _name(dtype, size)
        judging = getattr(searched, "verifier", searched)
        verifier = open_engine(judging)
        ties = tokens = calls = 0
        for start in range(0, len(order), size):
            source = pad_sources([pairs.source(row) for row in order[start:start + size]],
                                 network.settings.max_length)
            with patch.object(door, "_LIGHT", 0):
                drafted = decode(network, source)
            if drafted.verification is None or not drafted.verification.exact:
                return None
            key = judge, name, start
            if key not in expected:
                expected[key] = greedy.search(verifier, source, limit)
            ties += count_ties(judging, source, expected[key], drafted, f"{family} {decoder} {name}")
            tokens += int((drafted.lengths + drafted.ended).sum())
            calls += int(drafted.calls.sum())
        found["ties"][name] = ties
        found.setdefault("accepted_per_call", tokens / calls)
    return found


def cases(quantization: str) -> list[tuple[torch.dtype, int]]:
    return [case for case in CASES if quantization == COMPILED[0] or case[0] != torch.bfloat16]


def examine_family(folder: Path, quantization: str, sentences: int | None, family: str) -> dict[str, Any]:
    """All of a family's decoders that promise something; see `examine`."""
    params = load_params(folder / PARAMS)  # in the process that uses them: their classes are made at run time
    results, expected = dict[str, Any](), Expected()
    for decoder in params.decoders_of(family):
        found = examine(params, folder, family, decoder, quantization, sentences, expected)
        if found is not None:
            results[f"{family} {decoder}"] = found
            print(f"{family} {decoder}: ties {found['ties']}", flush=True)
    return results


def _name(dtype: torch.dtype, size: int) -> str:
    return f"{str(dtype).removeprefix('torch.')}, batch {size}"


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--profile", help="examine the systems of a profile's run")
    parser.add_argument("--quantization", choices=COMPILED, default=COMPILED[0], help="of the models")
    parser.add_argument("--sentences", type=int, help="evenly spaced over their lengths (default: all)")
    parser.add_argument("--output", type=Path, help="file of the result (default: in benchmarks/results)")
    arguments = parser.parse_args()
    folder = PROFILES / arguments.profile if arguments.profile else Path()
    quantization = arguments.quantization
    suffix = [arguments.profile, quantization if quantization != COMPILED[0] else None]
    name = "_".join(["exactness", *filter(None, suffix)])
    params = load_params(folder / PARAMS)
    description, results = about(["torch"]), dict[str, Any]()
    # One sentence at a time keeps one core busy.
    with ProcessPoolExecutor(usable_cores(), get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        examine_each = partial(examine_family, folder, quantization, arguments.sentences)
        for found in pool.map(examine_each, params.systems):
            results |= found
    lines = [[name, str(one["sentences"]), f"{one['accepted_per_call']:.2f}", *map(str, one["ties"].values())]
             for name, one in results.items()]
    header = ["decoder", "sentences", "accepted", *(_name(*case) for case in cases(quantization))]
    print(table(header, lines))
    write_json(arguments.output or RESULTS / f"{name}.json", {**description, "decoders": results})


if __name__ == "__main__":
    main()
