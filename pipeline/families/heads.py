"""The family of blockwise heads, which predict the tokens after a model's next one (Stern et al. 2018).

Their training targets are the model's own predictions after the reference's tokens, or these tokens
(`drafting.labels`).
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.decoding import blockwise
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.families.base import TranslationModule
from pipeline.families.settings import Labels, OptimisationSettings
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.vocabulary import PAD


class HeadsModule(TranslationModule):
    """Heads on a frozen model, and their loss: the sum of the heads' cross-entropies (all heads at every step)."""

    watched = "validation_accepted"  # BLEU is the verifier's, whatever has been learnt
    network: BlockwiseHeads

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 verifier: str, block: int = 5, chained: bool = True, labels: Labels = "verifier",
                 seed: int = 1) -> None:
        """Args:
            network: the verifier's shape, except dropout, which is not used.
            optimisation, vocabulary, seed: see `TranslationModule`.
            verifier: checkpoint folder of the model that gets the heads.
            block, chained, labels: see `DraftingSettings`.
        """
        trained, _ = load_checkpoint(Path(verifier), vocabulary.digest)
        made = BlockwiseHeads(network, vocabulary.source, vocabulary.target, trained.order, block, chained)
        made.copy_verifier(trained)
        super().__init__(made, optimisation, vocabulary, seed)
        self.labels = labels

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of all heads after every slot, and the number of their predictions (at least 1)."""
        arranged = self.network.order.arrange(batch.target, batch.target_lengths)
        with torch.no_grad():
            hidden = self.network.hidden(batch.source, arranged)
            labels = arranged
            if self.labels == "verifier":
                labels = self.network.projection(hidden).argmax(2).masked_fill(arranged == PAD, PAD)
        gold = tokens_ahead(labels, self.network.block - 1)
        reading = (gold != PAD).any(2)  # the last slot of a target has none after it
        gold = gold[reading]
        predicting = gold != PAD
        previous = tokens_ahead(F.pad(arranged, (1, 0)), self.network.block - 1)[:, :-1][reading]
        states = self.network.head_states(hidden[reading], self.network.block - 1)
        logits = self.network.draft_logits(states[predicting], previous[predicting])
        loss = F.cross_entropy(logits, gold[predicting], reduction="sum", label_smoothing=label_smoothing)
        return loss, predicting.sum().clamp(min=1)

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        return blockwise.search(open_engine(self.network), source, limit)


def tokens_ahead(arranged: Tensor, heads: int) -> Tensor:
    """Per slot, the tokens 1, 2, … slots after it, which the heads should predict there.

    Args:
        arranged: (B, T) slots with an end symbol each, padded with PAD on the right.
        heads: their number.

    Returns:
        (B, T, heads), PAD after the end.

    >>> tokens_ahead(torch.tensor([[11, 12, 3]]), 2).tolist()
    [[[12, 3], [3, 0], [0, 0]]]
    """
    return F.pad(arranged[:, 1:], (0, heads), value=PAD).unfold(1, heads, 1)
