"""The family of conditional masked language models, which Mask-Predict decodes (Ghazvininejad et al. 2019)."""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.decoding import mask_predict
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.families.base import TranslationModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.masked import MaskedTransformer
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.model.top import lowest
from pipeline.vocabulary import MASK, PAD

LENGTH_WEIGHT = 0.1
"""Of a sentence's length against the mean of its hidden words."""
QUICK = mask_predict.Settings(iterations=4, candidates=1)
ONE_SHOT = mask_predict.Settings(iterations=1, candidates=1)
"""The searches that validation scores."""


class MaskedModule(TranslationModule):
    """A masked Transformer and its loss on hidden words and on the length."""

    network: MaskedTransformer

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 masking: Literal["uniform", "all"] = "uniform", seed: int = 1) -> None:
        """Args:
            network: shape of the Transformer.
            optimisation, vocabulary, seed: see `TranslationModule`.
            masking: `uniform` for Mask-Predict; `all` for vanilla non-autoregressive translation (Gu et al. 2018,
                with masks for copies of the source), which one iteration decodes.
        """
        super().__init__(MaskedTransformer(network, vocabulary.source, vocabulary.target), optimisation, vocabulary,
                         seed)
        self.masking = masking

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch's hidden words and lengths, and the number of hidden words (at least 1).

        Of n words, all or (n + 1) / 2 on average are hidden, and the length counts `LENGTH_WEIGHT` for each of these
        (without label smoothing): fairseq's sum of two means, but as a sum over sentences, which devices and slices can
        share out. In evaluation mode the hidden words depend on `batch.rows` alone, so that validations can be
        compared.
        """
        lengths = batch.target_lengths
        generator = None
        if not self.training:
            seed = np.random.SeedSequence(batch.rows.tolist()).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(seed[0]))
        if self.masking == "all":
            hidden, expected = batch.target != PAD, lengths
        else:
            hidden, expected = choose_hidden(lengths, batch.target.shape[1], generator), (lengths + 1) / 2
        memory = self.network.encoded(batch.source)
        states = self.network.decoded(batch.target.masked_fill(hidden, MASK), memory)
        words = F.cross_entropy(self.network.projection(states[hidden]), batch.target[hidden], reduction="sum",
                                label_smoothing=label_smoothing)
        length = F.nll_loss(self.network.lengths(memory), lengths, reduction="none")
        return words + LENGTH_WEIGHT * (expected * length).sum(), hidden.sum().clamp(min=1)

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        settings = ONE_SHOT if self.masking == "all" else QUICK
        return mask_predict.search(open_engine(self.network), source, limit, settings)


def choose_hidden(lengths: Tensor, longest: int, generator: torch.Generator | None = None) -> Tensor:
    """Which words to hide: of n words a number drawn uniformly from 1 .. n, and so many of them without preference.

    Args:
        lengths: (B,) words a row; of none, none is hidden.
        longest: N, at least the largest of them.
        generator: of random numbers, on the CPU; None: the device's own.

    Returns:
        (B, N) booleans.
    """
    device = lengths.device if generator is None else torch.device("cpu")
    drawn = torch.rand(len(lengths), longest + 1, generator=generator, device=device).to(lengths.device)
    share, noise = drawn[:, 0], drawn[:, 1:]
    counts = torch.minimum((share * lengths).long() + 1, lengths)
    padding = torch.arange(longest, device=lengths.device) >= lengths.unsqueeze(1)
    return lowest(noise.masked_fill(padding, torch.inf), counts)
