"""The interface between search and models: an order, three methods, and a decoder state."""

from typing import Any, Protocol

from torch import Tensor

from pipeline.model.orders import Order
from pipeline.model.state import Ints


class DecoderState(Protocol):
    """What a decoder keeps between two steps. Its rows are sentences times beams, with neighbouring beams."""

    hidden: Tensor | None
    """(R, n, D), the last hidden states of the last step; None if a model does not provide them."""

    def select(self, rows: Tensor) -> None:
        """Keep and reorder rows, whose indices are on the CPU if rows differ in length."""

    def rewind(self, lengths: Ints | int) -> None:
        """Forget what is after a length, (R,) or one for all rows."""


class EncoderDecoder(Protocol):
    """The methods of ordered and masked models; see `pipeline.model.transformer.Transformer` for the shapes."""

    kind: str
    """Which searches apply."""

    def encode(self, source: Tensor) -> Any:
        """The memory of padded ids (B, S)."""

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> DecoderState:
        """A state before the first step. A masked model's is rewound to 0 before every step."""


class Model(EncoderDecoder, Protocol):
    """A model of kind `ordered`."""

    @property
    def order(self) -> Order:
        """The order in which the model fills the slots of a target."""

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """Read tokens (R, n) into the state, and return logits (R, n, V)."""


def is_ordered(model: Any) -> bool:
    """Whether a model of any kind is a `Model`, which generates step by step in its order."""
    return bool(model.kind == "ordered")


class MaskedModel(EncoderDecoder, Protocol):
    """A conditional masked language model, of kind `masked`; see `pipeline.model.masked.MaskedTransformer`."""

    def lengths(self, memory: Any) -> Tensor:
        """Log-probabilities of a target of 0, 1, … words, (B, n)."""

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """Logits (R, N, V) of words (R, N), MASK where hidden, right-padded with PAD."""


class DraftingModel(Protocol):
    """A model that drafts for an ordered model; see `pipeline.model.chained.ChainedTransformer`."""

    kind: str
    block: int
    """k, tokens that it was trained to draft at once, or one more than there are heads."""

    @property
    def verifier(self) -> Model:
        """An ordered model of one token per step. That of heads is the model without them and provides `hidden`."""

    def draft_tokens(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        """The best tokens (R, k) of draft states (R, k, D) after the tokens `last` (R,).

        If they will be `verified`, rounded weights may find them, more quickly.
        """


class DrafterModel(DraftingModel, Protocol):
    """A separate network that drafts, of kind `drafter`; see `pipeline.model.drafter.DrafterTransformer`."""

    def draft_memory(self, source: Tensor, memory: Any = None) -> Any:
        """The drafter's memory of padded ids (B, S), given the verifier's; without, that is computed if it is used."""

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> DecoderState:
        """A state before the first draft."""

    def propose(self, tokens: Tensor, lengths: Ints | int, block: int, state: Any) -> Tensor:
        """States (R, k, D) that predict the next k tokens after prefixes (R, T) of the given lengths.

        The decoder state then holds the prefixes.
        """

    def continue_greedily(self, tokens: Tensor, lengths: Ints | int, count: int, state: Any) -> Tensor:
        """The model's own greedy continuation (R, k) of prefixes (R, T) of the given lengths."""

    def draft_logits(self, states: Tensor, previous: Tensor) -> Tensor:
        """Logits (N, V) of draft states (N, D), given the tokens before theirs (N,)."""


class HeadsModel(DraftingModel, Protocol):
    """An ordered model with heads, of kind `heads`; see `pipeline.model.heads.BlockwiseHeads`."""

    def head_states(self, hidden: Tensor, heads: int) -> Tensor:
        """States (R, heads, D) of the first of k - 1 heads, after the tokens that hidden states (R, D) predicted."""


class LatticeModel(Protocol):
    """A count model that proposes words for every position, and a scorer of the steps between them; kind `lattice`."""

    kind: str

    @property
    def verifier(self) -> Model | None:
        """An ordered model of one token per step that verifies drafts; None: lattices are no drafts."""

    def length(self, source: Tensor) -> Tensor:
        """Predicted numbers of target words (B,), from 1, without the end symbol, for padded ids (B, S)."""

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        """Different words for each of N positions, best first, and their log P(y | x, t): both (B, N, K), K <= k.

        Positions with fewer than K words have PAD with -inf after them.
        """

    def encode(self, source: Tensor) -> Any:
        """The memory of padded ids (B, S)."""

    def edges(self, memory: Any, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log-probabilities of all steps between candidates (B, N, K), as in `chain.Edges`.

        Those of starting with candidate i, (B, K); of candidate j of position t + 1 after candidate i of position t,
        (B, N - 1, K, K); and of the end symbol after candidate i of position t, (B, N, K). Steps from or to PAD have
        any values.
        """
