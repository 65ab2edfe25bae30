"""Translation on a CPU: Marian in transformers, ours and CTranslate2 on the same random weights.

    python -m benchmarks.marian
    # of files rather than of single sentences:
    python -m benchmarks.marian --batch 64 --sentences 8 --rounds 1 --output benchmarks/results/marian_batch.json
    # as OPUS-MT's models are:
    python -m benchmarks.marian --vocabulary 58101 --activation swish --output benchmarks/results/opus_mt.json

Before anything is timed, our logits are checked against Marian's, and every engine must give the same greedy tokens in
float32. All run to the same length because the end symbol is not among their tokens (sources for which it is are passed
over), so no engine carries the cost of suppressing it. With 8 bits each engine rounds in its own way, so only the
lengths are compared. CTranslate2 competes with the environment, the number of threads and that of workers, which take a
part of a batch each, that make it fastest, chosen for each precision.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors.numpy import save_file
from torch import Tensor
from transformers import MarianMTModel

from benchmarks.clock import RESULTS, Floats, about, argument_parser, interleave, median_ratio, table
from benchmarks.weights import random_marian, transformer_of
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.files import write_json
from pipeline.interop.export_ctranslate2 import weights_of
from pipeline.model.formats import COMPILED
from pipeline.model.settings import ACTIVATIONS, NetworkSettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, SPECIALS

ROOT = Path(__file__).parents[1]
Environment = dict[str, str]
Rows = list[list[int]]
Engine = Callable[[Tensor], tuple[float, Rows]]
"""Sources (B, S) to the seconds of their translation, and the tokens of each."""
CTRANSLATE2_SETTINGS: tuple[Environment, ...] = ({}, {"CT2_USE_MKL": "0"}, {"CT2_USE_MKL": "1"})
"""Documented environment variables of CTranslate2 that are tried."""
BEAMS = 5
PAUSE = 0.05
"""Seconds before each turn: the threads of who came before spin for some milliseconds before they sleep."""


class CTranslate2:
    """A long-lived CTranslate2 process and the pipes to it."""

    def __init__(self, ours: Transformer, environment: Environment, workers: int, threads: int,
                 precision: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/weights.safetensors"
            save_file(weights_of(ours), path)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.ctranslate2_worker", path,
                 json.dumps(dataclasses.asdict(ours.settings)), str(workers), str(threads), precision],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | environment)
            self.translate([[EOS]], 1, 1)  # it has answered: the weights are read

    def translate(self, sources: Rows, beams: int, length: int) -> tuple[float, Rows]:
        """Seconds by the process's own clock (the pipes are not in them), and the tokens."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"sources": sources, "beams": beams, "length": length}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the CTranslate2 process ended; its error is above")
        reply = json.loads(answer)
        return reply["seconds"], reply["tokens"]

    def __enter__(self) -> "CTranslate2":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._process.communicate()


def largest_difference(marian: MarianMTModel, ours: Transformer, source: Tensor, target: Tensor) -> float:
    """Between the two models' logits of all slots of a target, forced word by word."""
    inputs = torch.nn.functional.pad(target[:, :-1], (1, 0), value=BOS)
    with torch.inference_mode():
        theirs = marian(input_ids=source, decoder_input_ids=inputs).logits
        return float((theirs - ours(source, target)).abs().max())


class Engines:
    """The contestants, with one way to call them: sources (B, S) and length T in, seconds and tokens out."""

    def __init__(self, marian: MarianMTModel, ours: Transformer, peers: Mapping[str, CTranslate2],
                 length: int) -> None:
        # A limit of n words is n + 1 steps, the last of them for the end symbol.
        self._limit = LengthLimit(ratio=0, extra=length - 1, longest=length)
        self._marian, self._length = marian, length
        self.all: dict[str, Engine] = {"transformers greedy": self._marian_greedy}
        for precision, peer in peers.items():
            suffix = "" if precision == COMPILED[0] else " int8"
            for name, beams, entry in (("greedy", 1, {"algorithm": "greedy"}),
                                       (f"beam {BEAMS}", BEAMS, {"algorithm": "beam", "beams": BEAMS})):
                decode = make_decoder(name, {**entry, "quantization": precision}, self._limit)
                self.all[f"ours {name}{suffix}"] = partial(self._ours, partial(decode, ours))
                self.all[f"CTranslate2 {name}{suffix}"] = partial(self._theirs, peer, beams)

    def _marian_greedy(self, sources: Tensor) -> tuple[float, Rows]:
        start = time.perf_counter()
        with torch.inference_mode():
            out = self._marian.generate(
                sources, num_beams=1, do_sample=False, use_cache=True, max_new_tokens=self._length)
        return time.perf_counter() - start, out[:, 1:].tolist()

    def _ours(self, decode: Callable[[Tensor], Hypotheses], sources: Tensor) -> tuple[float, Rows]:
        start = time.perf_counter()
        out = decode(sources)
        return time.perf_counter() - start, out.tokens[:, 0].tolist()

    def _theirs(self, peer: CTranslate2, beams: int, sources: Tensor) -> tuple[float, Rows]:
        return peer.translate(sources.tolist(), beams, self._length)


def why_not(engines: Engines, marian: MarianMTModel, ours: Transformer, source: Tensor,
            length: int) -> str | None:
    """Why a source is of no use: an end symbol or a near tie; None if all engines agree on it.

    Raises:
        ValueError: the logits differ: the weights are mapped wrongly.
    """
    tokens = {name: engine(source)[1][0] for name, engine in engines.all.items()}
    if any(len(row) != length or EOS in row for row in tokens.values()):
        return "an end symbol"
    greedy_tokens = [row for name, row in tokens.items() if name.endswith("greedy")]
    difference = largest_difference(marian, ours, source, torch.tensor([greedy_tokens[0]]))
    if difference > 1e-4:
        raise ValueError(f"our logits differ from Marian's by {difference}")
    return None if all(row == greedy_tokens[0] for row in greedy_tokens) else "unequal greedy tokens"


def draw(engines: Engines, marian: MarianMTModel, ours: Transformer, sentences: int, length: int,
         pieces: int) -> tuple[list[Tensor], dict[str, int]]:
    """Random sources on which all engines agree, and how many were passed over for which reason."""
    generator = torch.Generator().manual_seed(1)
    kept: list[Tensor] = []
    passed_over: dict[str, int] = {}
    while len(kept) < sentences:
        source = torch.randint(len(SPECIALS), marian.config.vocab_size, (1, pieces), generator=generator)
        source[0, -1] = EOS
        reason = why_not(engines, marian, ours, source, length)
        if reason is None:
            kept.append(source)
        else:
            passed_over[reason] = passed_over.get(reason, 0) + 1
            if sum(passed_over.values()) > 2 * sentences:
                raise ValueError(f"too few usable sources: {passed_over}")
    return kept, passed_over


def try_settings(ours: Transformer, precision: str, length: int, rounds: int,
                 batch: int) -> list[tuple[float, Environment, int, int]]:
    """Median milliseconds per sentence of CTranslate2's greedy search by environment, workers and threads of each.

    The fastest come first.
    """
    sources = [[*range(len(SPECIALS), len(SPECIALS) + length - 1), EOS]] * batch
    cores, tried = torch.get_num_threads(), []
    crews = {(1, 1), (1, cores)} if batch == 1 else {(1, cores), (cores, 1)}
    for environment, (workers, threads) in product(CTRANSLATE2_SETTINGS, sorted(crews)):
        with CTranslate2(ours, environment, workers, threads, precision) as peer:
            peer.translate(sources, 1, length)
            seconds = []
            for _ in range(rounds):
                time.sleep(PAUSE)  # as where it is measured
                seconds.append(peer.translate(sources, 1, length)[0])
        tried.append((1000 * statistics.median(seconds) / batch, environment, workers, threads))
    return sorted(tried, key=lambda one: one[0])


def measure(engines: Engines, sources: Sequence[Tensor], rounds: int) -> dict[str, Floats]:
    """(batches * rounds,) seconds of each engine, batch by batch in turn."""
    def play(engine: Engine) -> Callable[[int], float]:
        def turn(item: int) -> float:
            time.sleep(PAUSE)
            return engine(sources[item % len(sources)])[0]
        return turn
    contestants = {name: play(engine) for name, engine in engines.all.items()}
    return interleave(contestants, rounds * len(sources), warmup=2)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--sentences", type=int, default=10, help="different ones")
    parser.add_argument("--batch", type=int, default=1,
                        help="sentences that are translated at once; more than there are different ones are repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=30, help="tokens of every source and of every output")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=16000)
    parser.add_argument("--activation", choices=ACTIVATIONS, default=ACTIVATIONS[0])
    parser.add_argument("--output", type=Path, default=RESULTS / "marian.json")
    options = parser.parse_args()
    settings = NetworkSettings(
        width=options.width, heads=8, feed_forward=4 * options.width, encoder_layers=options.layers,
        decoder_layers=options.layers, norm="post", tied_embeddings="none", dropout=0.0,
        activation=options.activation, max_length=256)
    description = about(["transformers", "ctranslate2"])
    marian = random_marian(settings, options.vocabulary, seed=1)
    ours = transformer_of(marian, settings)
    tried = {precision: try_settings(ours, precision, options.length, options.rounds, options.batch)
             for precision in COMPILED}
    with ExitStack() as stack:
        engines = Engines(marian, ours, {
            precision: stack.enter_context(CTranslate2(ours, *settings[0][1:], precision))
            for precision, settings in tried.items()}, options.length)
        sources, passed_over = draw(engines, marian, ours, options.sentences, options.length, options.length)
        seconds = measure(engines, batches(sources, options.batch), options.rounds)
    result = {
        **description,
        "model": {"width": settings.width, "layers": settings.encoder_layers, "heads": settings.heads,
                  "feed_forward": settings.feed_forward, "vocabulary": options.vocabulary,
                  "activation": settings.activation},
        "threads": torch.get_num_threads(),
        "sentences": len(sources), "batch": options.batch, "rounds": options.rounds, "source_tokens": options.length,
        "output_tokens": options.length, "passed_over": passed_over, "pause_seconds": PAUSE,
        "ctranslate2_settings": {precision: [
            {"environment": environment, "workers": workers, "threads": threads, "ms_per_sentence": ms}
            for ms, environment, workers, threads in one] for precision, one in tried.items()},
        "engines": {name: summary(seconds, name, options.length, options.batch) for name in seconds},
    }
    write_json(options.output, result)
    show(result)


def batches(sources: Sequence[Tensor], size: int) -> list[Tensor]:
    """As many batches (size, S) as there are sources (1, S), each beginning with another one."""
    return [torch.cat([sources[(first + place) % len(sources)] for place in range(size)])
            for first in range(len(sources))]


def summary(seconds: Mapping[str, Floats], name: str, length: int, batch: int) -> dict[str, Any]:
    """One engine's times, and its ratios [ratio, low, high] to the peers' greedy search of its precision."""
    milliseconds = 1000 * statistics.median(seconds[name]) / batch
    return {"ms_per_sentence": milliseconds, "ms_per_token": milliseconds / length,
            "times_faster_than_transformers": median_ratio(seconds["transformers greedy"], seconds[name]),
            "times_faster_than_ctranslate2": median_ratio(
                seconds["CTranslate2 greedy" + (" int8" if name.endswith("int8") else "")], seconds[name])}


def show(result: Mapping[str, Any]) -> None:
    """Print the engines as a table."""
    print(table(["engine", "ms/sentence", "ms/token", "times faster than transformers", "than CTranslate2 greedy"], [
        [name, f"{row['ms_per_sentence']:.1f}", f"{row['ms_per_token']:.2f}",
         *("{:.2f} ({:.2f} to {:.2f})".format(*row[f"times_faster_than_{peer}"])
           for peer in ("transformers", "ctranslate2"))]
        for name, row in result["engines"].items()]))
    print(f"{result['sentences']} sources, {result['batch']} at once, {result['rounds']} rounds; passed over: "
          f"{result['passed_over'] or 'none'}; CTranslate2 with " + ", ".join(
              f"{one[0]['environment'] or 'its defaults'}, {one[0]['workers']} workers of {one[0]['threads']} threads "
              f"in {precision}"
              for precision, one in result["ctranslate2_settings"].items()))


if __name__ == "__main__":
    main()
