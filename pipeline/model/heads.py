"""Blockwise parallel decoding (Stern et al. 2018): heads on a trained model that predict the words after its next one.

The model is not trained any further, so its own predictions stay the same. It verifies the heads' predictions: the pass
over the network that verifies a block also yields the states from which the heads predict the next block.
"""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.errors import PipelineError
from pipeline.model.chained import ChainedTransformer
from pipeline.model.drafter import check_verifier
from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings
from pipeline.model.transformer import Transformer


class BlockwiseHeads(ChainedTransformer):
    """A Transformer of one word per step with k - 1 more heads on its decoder's last hidden state.

    The state that predicts word t also predicts word t + 1 + j through head j = 0 … k - 2. A head is a residual
    feed-forward map before the Transformer's own projection, as wide as the layers' feed-forward blocks.
    """

    kind = "heads"
    choices = ("block", "chained")

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, order: Order,
                 block: int, chained: bool) -> None:
        """Like `ChainedTransformer`, in an order of one word per step.

        The block is k, the most tokens that one pass yields: the Transformer's own and one per head.

        Raises:
            PipelineError: the block leaves no word to the heads.
        """
        if block < 2:
            raise PipelineError(f"drafting.block: {block} leaves no word to predict; heads need a block of at least 2")
        super().__init__(settings, source_vocabulary, target_vocabulary, order, chained)
        self.block = block
        heads, D, inner = block - 1, settings.width, settings.feed_forward
        self.requires_grad_(False)
        if self.chain is not None:
            self.chain.requires_grad_(True)
        self.heads_inner = nn.Linear(D, heads * inner)  # all heads in one product
        self.heads_outer = nn.Parameter(torch.zeros(heads, inner, D))  # heads begin as the Transformer's own
        self.heads_bias = nn.Parameter(torch.zeros(heads * D))
        nn.init.zeros_(self.heads_inner.bias)
        for part in self.heads_inner.weight.data.split(inner):
            nn.init.xavier_uniform_(part)
        self.train(False)

    @property
    def verifier(self) -> "BlockwiseHeads":
        """The Transformer itself, as the model that verifies what its heads propose."""
        return self

    def copy_verifier(self, verifier: Transformer) -> None:
        """Copy the weights of a trained Transformer, which are not trained any further.

        Raises:
            PipelineError: it generates several words per step, or has other vocabularies or another shape.
        """
        check_verifier(verifier, self.vocabularies)
        own, theirs = (dataclasses.asdict(network.settings) for network in (self, verifier))
        for key, value in theirs.items():
            if own[key] != value and not key.endswith("dropout"):  # which frozen layers do not use
                raise PipelineError(f"network.{key}: {own[key]}, but the verifier of these heads has {value}; a family "
                                    "of kind heads has its verifier's network")
        with torch.no_grad():
            for name, weight in verifier.named_parameters():
                self.get_parameter(name).copy_(weight)

    def train(self, mode: bool = True) -> "BlockwiseHeads":
        """Stay in evaluation mode: the Transformer is frozen, and the heads are the same in both modes."""
        super().train(False)
        return self

    def head_states(self, hidden: Tensor, heads: int) -> Tensor:
        """The states (R, heads, D) of the first heads, k - 1 at most, given the last hidden states (R, D)."""
        (R, D), units = hidden.shape, self.settings.feed_forward
        rows = slice(heads * units)
        inner = F.linear(hidden, self.heads_inner.weight[rows], self.heads_inner.bias[rows]).relu()
        biases = self.heads_bias[:heads * D].view(heads, 1, D)
        moved = torch.baddbmm(biases, inner.view(R, heads, units).transpose(0, 1), self.heads_outer[:heads])
        return hidden.unsqueeze(1) + moved.transpose(0, 1)

    def plain_heads(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The heads one by one: inner weights (heads, D, F) and biases, outer weights (heads, F, D) and biases."""
        D, units = self.settings.width, self.settings.feed_forward
        return (self.heads_inner.weight.view(-1, units, D).transpose(1, 2), self.heads_inner.bias.view(-1, units),
                self.heads_outer, self.heads_bias.view(-1, D))
