"""Count models and lattice networks for tests: aligned pairs as plain lists, and small random networks."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext, Side
from pipeline.alignment.counting import Aligned, count
from pipeline.count_model.model import CountModel
from pipeline.engine.door import open_engine
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.settings import NetworkSettings

AlignedPair = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Source, target, and of every target word the position of its source word from 0, or -1."""

_SETTINGS: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 2, "decoder_layers": 2,
                             "max_length": 24, "dropout": 0.0, "tied_embeddings": "none"}


def aligned(corpus: Sequence[AlignedPair]) -> Aligned:
    """Pack aligned pairs, as the files of the stages hold them."""
    source, target = (Side(np.array(list(chain(*side)), np.uint32), np.cumsum([0, *map(len, side)], dtype=np.int64))
                      for side in ([pair[which] for pair in corpus] for which in (0, 1)))
    return Aligned(Bitext(source, target), np.array(list(chain(*(heads for _, _, heads in corpus))), np.int32))


def counted(*corpora: Sequence[AlignedPair], top: int = 40, copies: NDArray[np.int32] | None = None,
            vocabulary: int = 20, digest: str = "c0ffee" * 10 + "1234", tension: float = 4.0,
            null_probability: float = 0.08, diagonal: float = 0.0) -> CountModel:
    """A count model of joint vocabulary, unless `copies` say otherwise."""
    if copies is None:
        copies = np.arange(vocabulary, dtype=np.int32)
        copies[:7] = -1
    return count([aligned(corpus) for corpus in corpora], top=top, target_vocabulary=vocabulary, copies=copies,
                 digest=digest, tension=tension, null_probability=null_probability, diagonal=diagonal)


def diagonal(bitext: Bitext) -> Aligned:
    """Link every target word with the source word that is as far along."""
    S, N = bitext.source.lengths, bitext.target.lengths
    t = np.arange(len(bitext.target.ids)) - np.repeat(bitext.target.offsets[:-1], N)
    return Aligned(bitext, (t * np.repeat(S, N) // np.repeat(N, N)).astype(np.int32))


def random_corpus(pairs: int = 60, vocabulary: int = 20, longest: int = 8, seed: int = 3) -> list[AlignedPair]:
    """Random pairs, of which most words are linked near the diagonal."""
    choose = np.random.default_rng(seed)
    corpus = []
    for _ in range(pairs):
        S, N = choose.integers(1, longest + 1, 2)
        heads = np.minimum(np.arange(N) + choose.integers(0, 2, N), S - 1)
        heads[choose.random(N) < 0.1] = -1
        corpus.append((choose.integers(7, vocabulary, S).tolist(), choose.integers(7, vocabulary, N).tolist(),
                       heads.tolist()))
    return corpus


def lattice(*, dtype: torch.dtype = torch.float64, vocabulary: int = 20, seed: int = 2,
            counts: CountModel | None = None, **changes: Any) -> LatticeTransformer:
    """A small lattice network in evaluation mode, whose biases and normaliser are not zero."""
    torch.manual_seed(seed)
    network = LatticeTransformer(NetworkSettings(**{**_SETTINGS, **changes}), vocabulary, vocabulary)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1 or parameter is network.normaliser.weight:
                parameter.add_(torch.randn(parameter.shape) * 0.3)
    network.attach_counts(counts or counted(random_corpus(vocabulary=vocabulary), vocabulary=vocabulary))
    opened: LatticeTransformer = open_engine(network.to(dtype).eval())
    return opened
