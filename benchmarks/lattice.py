"""How many times faster than beam search a lattice is, and what its parts cost, on random weights.

    python -m benchmarks.lattice
    python -m benchmarks.lattice --rounds 2 --output quick.json   # does it run?

Alone in its batch, `ar` translates sources of 25 random pieces into 25 words with beam 5 (its end symbol is out of
reach, and it is cut at the limit), and the lattice predicts 25 words and looks 3 further: 28 positions of K candidates.
Its candidates are drawn at random, always K of them, at no cost: what a look-up takes is among
the parts, from a table of random counts with as many entries as the default corpus has.

* `systems`: K = 16 to 128 with one scorer layer against beam 5, with the default model's shape and 3,000 pieces, and
  with d=512, 6+6 layers and 16,000 pieces.
* `parts`: encoder, scorer and Viterbi of the same sentences; look-up of a 25-token sentence; Viterbi of 7 lattices of
  30 positions, serial and as a scan; all apart.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.clock import RESULTS, Turn, about, argument_parser, interleave, median_ratio, table, time_of, timed
from benchmarks.shapes import BASE, DEFAULT
from pipeline.alignment.bitext import Bitext, Side
from pipeline.alignment.counting import Aligned, count
from pipeline.count_model.model import CountModel
from pipeline.decoding import beam, lattice
from pipeline.decoding.chain import Edges, best_paths, viterbi
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses.random_weights import random_model
from pipeline.files import write_json
from pipeline.model.checkpoint import column_major
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.vocabulary import EOS, SPECIALS

WORDS, WINDOW = 25, 3
BEAMS = 5
CANDIDATES = (16, 32, 64, 128)
WARMUP = 3
MODELS = ((DEFAULT, 3000), (BASE, 16000))
PAIRS = 22_000
_LIMIT = LengthLimit(ratio=0, extra=WORDS + WINDOW, longest=WORDS + WINDOW)
_BEAM_LIMIT = LengthLimit(ratio=0, extra=WORDS, longest=WORDS)


class RandomLattice(LatticeTransformer):
    """A scorer whose candidates are random words and whose predicted length is always the same."""

    def length(self, source: Tensor) -> Tensor:
        return source.new_full((len(source),), self.words)

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        words = self.drawn[:, :positions, :k].repeat(len(source), 1, 1).to(source.device)
        return words, words.new_zeros(words.shape, dtype=torch.float32)

    drawn: Tensor
    words: int


def random_lattice(settings: NetworkSettings, vocabulary: int, length: int = WORDS) -> RandomLattice:
    """One scorer layer on random weights, for translations of `length` words."""
    torch.manual_seed(1)
    model = RandomLattice(replace(settings, decoder_layers=1), vocabulary, vocabulary).eval()
    random = np.random.default_rng(1)
    words = [random.permutation(np.arange(len(SPECIALS), vocabulary))[:max(CANDIDATES)]
             for _ in range(length + WINDOW)]
    model.words = length
    model.drawn = torch.from_numpy(np.stack(words)).unsqueeze(0)
    column_major(model)
    return model


def measure(settings: NetworkSettings, vocabulary: int, rounds: int) -> dict[str, Any]:
    """Beam search and lattices in turn, and the lattice's parts."""
    random = torch.Generator().manual_seed(1)
    pieces = torch.randint(len(SPECIALS), vocabulary, (rounds, 1, WORDS), generator=random)
    sources = [torch.nn.functional.pad(source, (0, 1), value=EOS) for source in pieces]
    autoregressive = random_model(OrderSettings("left_to_right"), vocabulary, settings)
    model: RandomLattice = open_engine(random_lattice(settings, vocabulary))

    def beam_search(item: int) -> float:
        def search() -> None:
            if bool(beam.search(autoregressive, sources[item], _BEAM_LIMIT, beam.Settings(BEAMS)).ended.any()):
                raise ValueError("beam search ended before its limit: its time is not that of 25 words")
        return time_of(search)

    def lattice_search(k: int) -> Turn:
        chosen = lattice.Settings(candidates=k, window=WINDOW)
        return lambda item: time_of(lambda: lattice.search(model, sources[item], _LIMIT, chosen))

    seconds = interleave({"beam5": beam_search, **{f"lattice{k}": lattice_search(k) for k in CANDIDATES}}, rounds,
                         warmup=WARMUP)
    return {
        "network": asdict(settings), "vocabulary": vocabulary,
        "milliseconds": {name: 1e3 * float(np.median(taken)) for name, taken in seconds.items()},
        "ratios": {name: median_ratio(seconds["beam5"], taken) for name, taken in seconds.items() if name != "beam5"},
        "parts_milliseconds": {str(k): _parts(model, sources[0], k, rounds) for k in CANDIDATES},
    }


@torch.inference_mode()
def _parts(model: RandomLattice, source: Tensor, k: int, rounds: int) -> dict[str, float]:
    memory, words = model.encode(source), model.drawn[:, :, :k]
    edges = Edges(*model.edges(memory, words))
    return _medians({"encoder": lambda: model.encode(source), "scorer": lambda: model.edges(memory, words),
                     "viterbi": lambda: viterbi(edges)}, rounds)


def measure_search(rounds: int) -> dict[str, float]:
    """Milliseconds of a look-up (25 tokens, K = 64) and of Viterbi over 7 lattices (30 positions, K = 64)."""
    model, random = random_counts(), np.random.default_rng(2)
    source = random.integers(len(SPECIALS), 3000, (1, WORDS))
    torch.manual_seed(1)
    edges = Edges(torch.randn(7, 64), torch.randn(7, 29, 64, 64), torch.randn(7, 30, 64))
    return _medians({
        "look_up": lambda: model.candidates(source, np.array([WORDS]), WORDS + WINDOW, 64),
        "viterbi": lambda: viterbi(edges), "viterbi_scan": lambda: best_paths(edges, 1, associative=True)}, rounds)


def random_counts(pairs: int = PAIRS, vocabulary: int = 3000, words: int = 15) -> CountModel:
    """Counts of random sentence pairs, linked along the diagonal: fuller rows than a real corpus gives."""
    random = np.random.default_rng(1)
    lengths = random.integers(words - 10, words + 11, pairs)
    offsets = np.append(0, np.cumsum(lengths))
    # Zipf's law, as words have it.
    frequencies = 1 / np.arange(1, vocabulary - len(SPECIALS) + 1)
    drawn = random.choice(len(frequencies), (2, offsets[-1]), p=frequencies / frequencies.sum()) + len(SPECIALS)
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    heads = np.clip(position + random.integers(-2, 3, offsets[-1]), 0, np.repeat(lengths, lengths) - 1)
    bitext = Bitext(Side(drawn[0], offsets), Side(drawn[1], offsets))
    return count([Aligned(bitext, heads.astype(np.int32))], top=40, target_vocabulary=vocabulary,
                 copies=np.full(vocabulary, -1, np.int32), digest="0" * 64, tension=4.0, null_probability=0.08)


def _medians(parts: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    seconds = interleave({name: timed(part) for name, part in parts.items()}, rounds, warmup=WARMUP)
    return {name: 1e3 * float(np.median(taken)) for name, taken in seconds.items()}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="sentences of each measurement")
    parser.add_argument("--output", type=Path, default=RESULTS / "lattice.json", help="where the figures go")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**about(("torch", "numpy", "numba")), "words": WORDS, "window": WINDOW,
                              "rounds": arguments.rounds}
    result["systems"] = [measure(settings, vocabulary, arguments.rounds) for settings, vocabulary in MODELS]
    result["search_milliseconds"] = measure_search(arguments.rounds)
    write_json(arguments.output, result)
    for found in result["systems"]:
        network = found["network"]
        print(f"d={network['width']}, {network['encoder_layers']}+{network['decoder_layers']} layers, vocabulary "
              f"{found['vocabulary']}: beam 5 takes {found['milliseconds']['beam5']:.1f} ms")
        print(table(["", "ms", "times beam 5", "95 %", "encoder", "scorer", "Viterbi"], [
            [name, f"{found['milliseconds'][name]:.2f}", f"{ratio:.2f}", f"{low:.2f} to {high:.2f}",
             *(f"{taken:.2f}" for taken in found["parts_milliseconds"][name.removeprefix("lattice")].values())]
            for name, (ratio, low, high) in found["ratios"].items()]))
    print(table(["alone", "ms"], [[name, f"{taken:.3f}"] for name, taken in result["search_milliseconds"].items()]))


if __name__ == "__main__":
    main()
