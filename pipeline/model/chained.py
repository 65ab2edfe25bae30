"""A Transformer that makes drafts of several tokens out of states that it has computed at once."""

import torch
from torch import Tensor

from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings
from pipeline.model.token_chain import ChainWeights, TokenChain, chain_weights, chained_tokens
from pipeline.model.top import best
from pipeline.model.transformer import Transformer


class ChainedTransformer(Transformer):
    """A Transformer whose drafted tokens may depend on each other through a `TokenChain`.

    Training reads `draft_logits`, search `draft_tokens`.
    """

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, order: Order,
                 chained: bool) -> None:
        """Like `Transformer`; `chained`: whether a drafted token sees the one before it, unlike in the papers."""
        super().__init__(settings, source_vocabulary, target_vocabulary, order)
        self.chain = TokenChain(settings.width, settings.feed_forward) if chained else None
        self._chain_weights: ChainWeights | None = None

    @property
    def chained(self) -> bool:
        """Whether a drafted token sees the one before it."""
        return self.chain is not None

    def draft_logits(self, states: Tensor, previous: Tensor) -> Tensor:
        """Logits (N, V) of draft states (N, D), given the tokens before theirs (N,), which only a chain reads."""
        if self.chain is not None:
            states = self.chain(states, self.target_embedding(previous))
        return self.projection(states)

    @torch.no_grad()
    def draft_tokens(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        """The best token of each state of a draft.

        Args:
            states: (R, k, D).
            last: (R,), the tokens after which the drafts begin.
            verified: whether the tokens will be verified, so that other weights may find them than those that score
                them: compiled code rounds them all, torch none of a chain's. Others are the best of `draft_logits`.

        Returns:
            (R, k).
        """
        if self.chain is None:
            return best(self.projection(states))
        weights = self.chain_weights()
        exactly = self.quantised and not verified
        project = self.projection if exactly else weights.project
        chosen: Tensor = self._recorded(f"chain, exactly {exactly}", lambda states, last: chained_tokens(
            weights, states, last, project), states, last)
        return chosen

    @torch.no_grad()
    def chain_weights(self) -> ChainWeights:
        """The weights that `draft_tokens` reads, computed once, until `clear_caches`."""
        if self._chain_weights is None:
            self._chain_weights = chain_weights(self.chain, self.target_embedding.weight, self.projection.weight)
        return self._chain_weights

    def clear_caches(self) -> None:
        super().clear_caches()
        self._chain_weights = None
