"""All that search knows of a model: an order, three verbs, and a state that can move."""

from typing import Any, Protocol

from torch import Tensor

from pipeline.model.orders import Order


class DecoderState(Protocol):
    """What a decoder remembers between two steps. Its rows are sentences times beams, beams next to each other."""

    hidden: Tensor | None
    """(R, n, D), the decoder's last states in the last step; None where a model does not show them."""

    def select(self, rows: Tensor) -> None:
        """Keep and reorder rows."""

    def rewind(self, lengths: Tensor | int) -> None:
        """Forget what lies behind a length, a row or all rows."""


class Model(Protocol):
    """An encoder-decoder that can be searched; see `pipeline.model.transformer.Transformer` for the shapes."""

    kind: str
    """`ordered`."""

    @property
    def order(self) -> Order:
        """The order in which the model fills the slots of a target."""

    def encode(self, source: Tensor) -> Any:
        """(B, S) padded ids to a memory."""

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> DecoderState:
        """A state before the first step."""

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """(R, n) tokens to (R, n, V) logits; the state moves by n."""


def is_ordered(model: Any) -> bool:
    """Whether a model of any kind is a `Model`, which generates step by step in its order."""
    return bool(model.kind == "ordered")


class MaskedModel(Protocol):
    """A conditional masked language model; see `pipeline.model.masked.MaskedTransformer` for the shapes."""

    kind: str
    """`masked`."""

    def encode(self, source: Tensor) -> Any:
        """(B, S) padded ids to a memory."""

    def lengths(self, memory: Any) -> Tensor:
        """Log-probabilities of a target of 0, 1, … words, (B, n)."""

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> DecoderState:
        """A state to be rewound to 0 before every step."""

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """(R, N) words, MASK where hidden and PAD behind, to (R, N, V) logits; the state moves by N."""


class DraftingModel(Protocol):
    """What makes words of the states of a draft; see `pipeline.model.chained.ChainedTransformer`."""

    def draft_tokens(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        """The best token of each of states (R, k, D), (R, k), of a draft that stands behind the tokens `last` (R,).

        Tokens that will be `verified` need not be quite the best, and may be found more quickly.
        """


class DrafterModel(DraftingModel, Protocol):
    """A network that drafts, and the one that verifies; see `pipeline.model.drafter.DrafterTransformer`."""

    kind: str
    """`drafter`."""
    block: int
    """k, tokens that it was trained to draft at once."""

    @property
    def verifier(self) -> Model:
        """An ordered model of one token a step."""

    def draft_memory(self, source: Tensor, memory: Any) -> Any:
        """The drafter's memory of (B, S) padded ids, of which the verifier has the given one."""

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> DecoderState:
        """A state before the first draft."""

    def propose(self, tokens: Tensor, lengths: Tensor | int, block: int, state: Any) -> Tensor:
        """States that predict the next k tokens, (R, k, D), behind prefixes (R, T) of the given lengths; the decoder's
        state moves to their ends."""

    def continue_greedily(self, tokens: Tensor, lengths: Tensor | int, count: int, state: Any) -> Tensor:
        """The model's own greedy continuation of prefixes (R, T) of the given lengths, (R, k); the state moves."""

    def draft_logits(self, states: Tensor, previous: Tensor) -> Tensor:
        """Logits (N, V) of states (N, D), each behind the previous token (N,)."""


class HeadsModel(DraftingModel, Protocol):
    """An ordered model with heads; see `pipeline.model.heads.BlockwiseHeads`."""

    kind: str
    """`heads`."""
    block: int
    """k, one more than there are heads."""

    @property
    def verifier(self) -> Model:
        """The model without its heads, one of one token a step, whose states show `hidden`."""

    def head_states(self, hidden: Tensor, heads: int) -> Tensor:
        """States of the first few of k - 1 heads, (R, heads, D), behind the tokens that states (R, D) predicted."""


class LatticeModel(Protocol):
    """A count model that proposes words for every position, and a network that scores the steps between them."""

    kind: str
    """`lattice`."""

    @property
    def verifier(self) -> Model | None:
        """An ordered model of one token a step that judges drafts; None where nothing is to be drafted."""

    def length(self, source: Tensor) -> Tensor:
        """Predicted words of a translation, without the end symbol: (B, S) padded ids to (B,) integers from 1."""

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        """At most k words for each of N positions, best first, and their log P(y | x, t): both (B, N, K), K <= k.

        No word comes twice at a position. Where there are fewer than K, the rest is PAD with -inf.
        """

    def encode(self, source: Tensor) -> Any:
        """(B, S) padded ids to a memory."""

    def edges(self, memory: Any, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log-probabilities of all steps between candidates (B, N, K), as in `chain.Edges`.

        Of starting with candidate i, (B, K); of candidate j of position t + 1 behind candidate i of position t,
        (B, N - 1, K, K); of the end symbol behind candidate i of position t, (B, N, K). What starts or ends in PAD may
        be anything.
        """
