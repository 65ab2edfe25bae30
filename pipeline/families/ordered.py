"""The family of models that fill their target's slots in a fixed order, one or several at a time.

Left-to-right, semi-autoregressive, double-token, interleaved and multi-directional models differ only in their `Order`.
"""

import torch.nn.functional as F
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.families.base import TranslationModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD


class OrderedModule(TranslationModule):
    """A Transformer and its label-smoothed cross-entropy over all slots of an order; see `TranslationModule`."""

    divisible = True

    def __init__(self, network: NetworkSettings, order: OrderSettings, optimisation: OptimisationSettings,
                 vocabulary: VocabularySettings, seed: int = 1) -> None:
        super().__init__(Transformer(network, vocabulary.source, vocabulary.target, make_order(order)), optimisation,
                         vocabulary, seed)

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of a batch's slots, and their number."""
        arranged = self.network.order.arrange(batch.target, batch.target_lengths)
        logits = self.network(batch.source, arranged)
        loss = F.cross_entropy(logits.flatten(0, 1), arranged.flatten(), ignore_index=PAD, reduction="sum",
                               label_smoothing=label_smoothing)
        return loss, (arranged != PAD).sum()

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        return greedy.search(open_engine(self.searched), source, limit)
