"""The family of conditional masked language models, which Mask-Predict decodes (Ghazvininejad et al. 2019)."""

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
from pipeline.families.glancing import glance
from pipeline.families.kinds.masked import Masking
from pipeline.families.settings import OptimisationSettings
from pipeline.model.masked import MaskedTransformer
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.model.state import Memory
from pipeline.model.top import lowest
from pipeline.vocabulary import MASK, PAD

LENGTH_WEIGHT = 0.1
"""Weight of a sentence's length relative to the mean loss of its masked tokens."""
QUICK = mask_predict.Settings(iterations=4, candidates=1)
ONE_SHOT = mask_predict.Settings(iterations=1, candidates=1)
"""The searches of validations."""


class MaskedModule(TranslationModule):
    """A masked Transformer and its loss on masked tokens and on the length."""

    network: MaskedTransformer

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 masking: Masking = "uniform", glancing: tuple[float, float] = (0.0, 0.0), seed: int = 1) -> None:
        """Args:
            network, optimisation, vocabulary, seed: see `TranslationModule`.
            masking: `uniform` for Mask-Predict; `all` for vanilla non-autoregressive translation (Gu et al. 2018,
                with masks instead of copies of the source), which one iteration decodes.
            glancing: with `all`, the share of the wrong words that is revealed, at the first and at the last step.
        """
        super().__init__(MaskedTransformer(network, vocabulary.source, vocabulary.target), optimisation, vocabulary,
                         seed)
        self.masking, self.glancing = masking, glancing

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch's masked tokens and lengths, and the number of masked tokens (at least 1).

        Of n tokens, all (but those that are revealed) or on average (n + 1) / 2 are masked, and the length counts
        `LENGTH_WEIGHT` for each of these (without label smoothing): fairseq's sum of two means, but as a sum over
        sentences, which devices and slices can share. In evaluation mode the masked tokens depend only on `batch.rows`,
        so that validations can be compared, and none is revealed.
        """
        lengths = batch.target_lengths
        generator = None
        if not self.training:
            seed = np.random.SeedSequence(batch.rows.tolist()).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(seed[0]))
        if self.masking == "uniform":
            hidden, expected = choose_hidden(lengths, batch.target.shape[1], generator), (lengths + 1) / 2
        memory = self.network.encoded(batch.source)
        if self.masking == "all":
            hidden = self._glanced(batch.target, memory)
            expected = hidden.sum(1)
        states = self.network.decoded(batch.target.masked_fill(hidden, MASK), memory)
        tokens = F.cross_entropy(self.network.projection(states[hidden]), batch.target[hidden], reduction="sum",
                                 label_smoothing=label_smoothing)
        length = F.nll_loss(self.network.lengths(memory), lengths, reduction="none")
        return tokens + LENGTH_WEIGHT * (expected * length).sum(), hidden.sum().clamp(min=1)

    @torch.no_grad()
    def _glanced(self, target: Tensor, memory: Memory) -> Tensor:
        """(B, N), true for all words but those that this step reveals."""
        words = target != PAD
        share = self.at_this_step(*self.glancing)
        if not share:
            return words
        predicted = self.network.projection(self.network.decoded(target.masked_fill(words, MASK), memory)).argmax(2)
        return words & ~glance(((predicted != target) & words).sum(1), words, share)

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        settings = ONE_SHOT if self.masking == "all" else QUICK
        return mask_predict.search(open_engine(self.network), source, limit, settings)


def choose_hidden(lengths: Tensor, longest: int, generator: torch.Generator | None = None) -> Tensor:
    """Which tokens to mask: in a row of n tokens a number drawn uniformly from 1 .. n, at random positions.

    Args:
        lengths: (B,) tokens per row; in an empty row none is masked.
        longest: N, at least the maximum of the lengths.
        generator: of random numbers, on the CPU; None: the device's default one.

    Returns:
        (B, N) booleans.
    """
    device = lengths.device if generator is None else torch.device("cpu")
    drawn = torch.rand(len(lengths), longest + 1, generator=generator, device=device).to(lengths.device)
    share, noise = drawn[:, 0], drawn[:, 1:]
    counts = torch.minimum((share * lengths).long() + 1, lengths)
    padding = torch.arange(longest, device=lengths.device) >= lengths.unsqueeze(1)
    return lowest(noise.masked_fill(padding, torch.inf), counts)
