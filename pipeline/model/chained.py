"""A Transformer that makes drafts of several tokens out of states that it has computed at once."""

import torch
from torch import Tensor

from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings
from pipeline.model.token_chain import Links, TokenChain, follow, gather
from pipeline.model.top import best
from pipeline.model.transformer import Transformer


class ChainedTransformer(Transformer):
    """A Transformer whose states of a draft may be chained; `say` is for training, `follow` for search."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, order: Order,
                 chained: bool) -> None:
        """Args:
            settings, source_vocabulary, target_vocabulary, order: see `Transformer`.
            chained: whether a drafted token sees the one before it; else they are independent, as in the paper.
        """
        super().__init__(settings, source_vocabulary, target_vocabulary, order)
        self.chain = TokenChain(settings.width, settings.feed_forward) if chained else None
        self._links: Links | None = None

    @property
    def chained(self) -> bool:
        """Whether a drafted token sees the one before it."""
        return self.chain is not None

    def say(self, states: Tensor, previous: Tensor) -> Tensor:
        """Logits of what states of a draft predict.

        Args:
            states: (N, D).
            previous: (N,), of each the token before the one that it predicts; read only by a chain.

        Returns:
            (N, V).
        """
        if self.chain is not None:
            states = self.chain(states, self.target_embedding(previous))
        return self.projection(states)

    @torch.no_grad()
    def follow(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        """The tokens of a draft, the best of each state: behind the one before it, or independent of it.

        Args:
            states: (R, k, D).
            last: (R,), the tokens behind which the draft stands.
            verified: whether the tokens will be verified and need not be quite the best; here they are.

        Returns:
            (R, k).
        """
        if self.chain is None:
            return best(self.projection(states))
        return follow(self.links(), states, last)

    @torch.no_grad()
    def links(self) -> Links:
        """What `follow` reads, gathered once, until `regather`."""
        if self._links is None:
            self._links = gather(self.chain, self.target_embedding.weight, self.projection.weight)
        return self._links

    def regather(self) -> None:
        super().regather()
        self._links = None
