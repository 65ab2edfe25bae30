"""A Transformer that makes drafts of several tokens out of states that it has computed at once."""

import torch
from torch import Tensor

from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings
from pipeline.model.token_chain import Links, TokenChain
from pipeline.model.transformer import Transformer


class ChainedTransformer(Transformer):
    """A Transformer whose states of a draft may be chained; `say` is for training, `words` and `links` for search."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, order: Order,
                 chained: bool) -> None:
        """Args:
            settings, source_vocabulary, target_vocabulary, order: see `Transformer`.
            chained: whether a drafted token sees the one before it; else they are independent, as in the paper.
        """
        super().__init__(settings, source_vocabulary, target_vocabulary, order)
        self.chain = TokenChain(settings.width, settings.feed_forward) if chained else None
        self._links: tuple[Tensor, Tensor, Tensor] | None = None

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

    def words(self, states: Tensor) -> Tensor:
        """Logits (…, V) of states (…, D), each alone."""
        return self.projection(states)

    @torch.no_grad()
    def links(self, states: Tensor) -> Links | None:
        """The chain through states (R, k, D); None: their tokens are independent."""
        if self.chain is None:
            return None
        if self._links is None:  # made once: what does not depend on the states, laid out for reading by rows
            table = self.chain.of_previous(self.target_embedding.weight * self.chain.scale)
            self._links = (table.contiguous(), self.chain.outer.weight.t().contiguous(),
                           self.projection.weight.detach().clone(memory_format=torch.contiguous_format))
        return Links(self.chain.of_state(states), *self._links)

    def regather(self) -> None:
        super().regather()
        self._links = None
