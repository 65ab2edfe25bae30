"""The family of sequence-to-lattice models (Deng and Rush 2021)."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.count_model.model import CountModel
from pipeline.decoding import lattice
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.families.base import TranslationModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.vocabulary import EOS, PAD

TRIGRAMS = 0.5
"""Share of the training sentences in which every other token sees two tokens before it (appendix A.4)."""
SELF_NORMALISATION = 0.2
"""Weight of the normaliser's squared error relative to a token's cross-entropy."""
QUICK = lattice.Settings(candidates=32)
"""The search of validations."""


class LatticeModule(TranslationModule):
    """A lattice scorer and its loss, the cross-entropy of a Markov transformer (Deng and Rush 2020)."""

    network: LatticeTransformer

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 counts: str, seed: int = 1, verifier: str | None = None) -> None:
        """Args:
            network: shape of the Transformer; its `decoder_layers` are the scorer's.
            optimisation, vocabulary, seed: see `TranslationModule`.
            counts: file of the count model, whose candidates validation searches; training does not read it.
            verifier: checkpoint folder of a model for which its candidates are drafts; None: there is none.
        """
        super().__init__(LatticeTransformer(network, vocabulary.source, vocabulary.target), optimisation, vocabulary,
                         seed)
        self.network.attach_counts(CountModel.open(Path(counts), vocabulary.digest))
        if verifier is not None:
            self.network.attach_verifier(load_checkpoint(Path(verifier), vocabulary.digest)[0])

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch's tokens and end symbols, and their number.

        In evaluation mode every token sees one token before it, as in search, and the normaliser has no loss.
        """
        B, N = batch.target.shape
        slots = torch.arange(N + 1, device=batch.target.device)
        gold = F.pad(batch.target, (0, 1), value=PAD).masked_fill(slots == batch.target_lengths.unsqueeze(1), EOS)
        visible = markov_mask(B, N + 1, TRIGRAMS if self.training else 0.0, slots.device)
        predicting = gold != PAD
        states = self.network.hidden_after(batch.source, batch.target, visible)[predicting]
        logits = self.network.projection(states)
        loss = F.cross_entropy(logits, gold[predicting], reduction="sum", label_smoothing=label_smoothing)
        if self.training:
            # Not in the two bytes of mixed precision: searches subtract what is learnt here in at least four.
            sums = logits.to(torch.promote_types(logits.dtype, torch.float32)).logsumexp(1)
            error = sums - self.network.normaliser(states).squeeze(1)
            loss = loss + SELF_NORMALISATION * error.square().sum()
        return loss, predicting.sum()

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        return lattice.search(open_engine(self.network), source, limit, QUICK)


def markov_mask(rows: int, slots: int, trigrams: float, device: torch.device) -> Tensor:
    """What the slots of a Markov transformer see: themselves, and in some rows every other slot also its predecessor.

    The chunks of two slots do not overlap: through several layers, a window of two would become wider.

    Args:
        rows: B.
        slots: N + 1, the first of which reads the start symbol.
        trigrams: share of the rows that are divided into chunks of two, drawn per row; half of these begin with a chunk
            of one. The others are divided into single slots.
        device: of the mask.

    Returns:
        (B, 1, N + 1, N + 1) booleans.
    """
    drawn = torch.rand(rows, 1, device=device)
    paired, shifted = drawn < trigrams, drawn < trigrams / 2
    seconds = ((torch.arange(slots, device=device) + shifted.long()) % 2 == 1) & paired
    mask = torch.eye(slots, dtype=torch.bool, device=device).repeat(rows, 1, 1)
    mask.diagonal(-1, 1, 2).copy_(seconds[:, 1:])
    return mask.unsqueeze(1)
