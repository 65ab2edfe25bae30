"""Operations of a Transformer and of searches with it, by formula.

The product of an (m, k) and a (k, n) matrix takes 2 m k n operations: a multiplication and an addition are two. Only
products of matrices are counted: with weights, in attention, and the projection onto the vocabulary. Softmax,
normalisation, activations, biases, residual sums, embeddings, the choice of the best tokens and everything else that a
search does are not counted.

Searches are counted by formula, because torch sees no compiled call, and its counter takes 100 to 200 ms for a
sentence that torch translates in 7. Tests hold every formula to torch's counter. The training of drafters and heads
has no formula and is counted by torch.

Positions that padding and masks hide are counted, because torch computes them. A compiled step (`pipeline.engine`)
skips masked keys: it takes at most the operations counted here.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pipeline.decoding.protocol import DecoderState
from pipeline.decoding.settings import Decoder
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.model.drafter import BidirectionalDrafter
from pipeline.model.settings import NetworkSettings
from pipeline.model.state import Ints

BACKWARD = 2
"""Products in the gradients of a product, one per factor: a training step is three forward passes."""


@dataclass(frozen=True)
class Costs:
    """Operations of the parts of one Transformer, by formula."""

    shape: NetworkSettings
    vocabulary: int
    """Size of the target vocabulary."""

    @classmethod
    def of(cls, network: Any) -> "Costs":
        """The costs of a network of any kind."""
        return cls(network.settings, network.projection.out_features)

    def encoder(self, rows: int, pieces: int) -> int:
        """All encoder layers over sources (rows, pieces)."""
        D = self.shape.width
        return self.shape.encoder_layers * rows * pieces * (8 * D * D + self._attention(pieces) + self.feed_forward)

    def source(self, rows: int, pieces: int) -> int:
        """Keys and values of sources (rows, pieces), for all decoder layers."""
        return 4 * self.shape.width**2 * self.shape.decoder_layers * rows * pieces

    def decoder(self, rows: int, new: int, past: int, pieces: int) -> int:
        """All decoder layers over the next tokens of every row.

        Args:
            rows: R.
            new: n, new tokens per row.
            past: tokens before them in the longest row.
            pieces: of the source.
        """
        D = self.shape.width
        own, cross = 8 * D * D + self._attention(past + new), 4 * D * D + self._attention(pieces)
        return self.shape.decoder_layers * rows * new * (own + cross + self.feed_forward)

    def projection(self, tokens: int) -> int:
        """Logits of a number of tokens."""
        return 2 * self.shape.width * self.vocabulary * tokens

    def step(self, rows: int, new: int, past: int, pieces: int) -> int:
        """A decoder step with its logits; see `decoder`."""
        return self.decoder(rows, new, past, pieces) + self.projection(rows * new)

    def forward(self, rows: int, pieces: int, slots: int) -> int:
        """A teacher-forced pass: sources (rows, pieces), targets (rows, slots)."""
        return self.encoder(rows, pieces) + self.source(rows, pieces) + self.step(rows, slots, 0, pieces)

    def training(self, rows: int, pieces: int, slots: int) -> int:
        """A training step: a teacher-forced pass, and the gradients of weights and activations."""
        return (1 + BACKWARD) * self.forward(rows, pieces, slots)

    @property
    def feed_forward(self) -> int:
        """A token's feed-forward block, or any other pair of projections from D to F and back."""
        return 4 * self.shape.width * self.shape.feed_forward

    def _attention(self, keys: int) -> int:
        """A token's attention to `keys` others: products of its query with keys, and of the weights with values."""
        return 4 * self.shape.width * keys


class Counted:
    """A model of any kind that reports the operations of each call of a method; everything else is the model's own.

    The methods are those of the engine in use, which decoders are timed with; the loop around them is Python's, which
    calls them as often as a compiled one. A drafter's calls within its methods are in the method's count. Not counted
    are the count model of a lattice, which multiplies no matrices, and tables that are computed once per model
    (`ChainWeights.table`, `SelfAttention.single_key`).
    """

    def __init__(self, model: Any, add: Callable[[int], object]) -> None:
        """Args:
            model: opened by the engine in use.
            add: called with the operations of each call.
        """
        self._model, self._add, self._costs = open_engine(model), add, Costs.of(model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def verifier(self) -> "Counted | None":
        verifier = self._model.verifier
        return None if verifier is None else Counted(verifier, self._add)

    def encode(self, source: Tensor) -> Any:
        memory = self._model.encode(source)
        self._add(self._costs.encoder(*memory.states.shape[:2]))  # a masked model's LENGTH token is one of them
        return memory

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> DecoderState:
        state: DecoderState = self._model.start(memory, beams=beams, capacity=capacity)
        sentences, pieces = _source(state)
        self._add(self._costs.source(sentences, pieces))
        return state

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        past: int = state.length
        logits: Tensor = self._model.step(tokens, state)
        self._add(self._costs.step(len(tokens), tokens.shape[1], past, _source(state)[1]))
        return logits

    def lengths(self, memory: Any) -> Tensor:
        found: Tensor = self._model.lengths(memory)
        self._add(2 * self._costs.shape.width * found.numel())
        return found

    def draft_memory(self, source: Tensor, memory: Any = None) -> Any:
        found = self._model.draft_memory(source, memory)
        if found is not memory:  # computed here, by the drafter's own encoder or by the verifier's
            costs = self._costs if self._model.settings.encoder_layers else Costs.of(self._model.verifier)
            self._add(costs.encoder(*found.states.shape[:2]))
        return found

    def propose(self, tokens: Tensor, lengths: Ints | int, block: int, state: Any) -> Tensor:
        length, past = _common_length(lengths, state), state.length
        states: Tensor = self._model.propose(tokens, lengths, block, state)
        drafted = states.shape[1]
        if isinstance(self._model, BidirectionalDrafter):  # reads tokens and masks again
            past, new = 0, length - 1 + drafted
        else:  # the last token of the prefix replaces the first mask
            new = length - past + drafted - 1
        self._add(self._costs.decoder(len(tokens), new, past, _source(state)[1]))
        return states

    def continue_greedily(self, tokens: Tensor, lengths: Ints | int, count: int, state: Any) -> Tensor:
        length = _common_length(lengths, state)
        past = min(state.length, length - 1)
        drafted: Tensor = self._model.continue_greedily(tokens, lengths, count, state)
        R, k = drafted.shape
        if k:
            pieces = _source(state)[1]
            self._add(self._costs.decoder(R, length - past, past, pieces) + self._costs.projection(R * k)
                      + sum(self._costs.decoder(R, 1, length + own, pieces) for own in range(k - 1)))
        return drafted

    def draft_tokens(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        tokens: Tensor = self._model.draft_tokens(states, last, verified)
        self._add(self._costs.projection(tokens.numel()))
        if self._model.chained:  # the contribution of a token to the next state is looked up
            self._add(self._costs.feed_forward * tokens.numel())
        return tokens

    def draft_logits(self, states: Tensor, previous: Tensor) -> Tensor:
        logits: Tensor = self._model.draft_logits(states, previous)
        self._add(self._costs.projection(len(logits)))
        if self._model.chained:
            self._add(self._costs.feed_forward * 3 // 2 * len(logits))
        return logits

    def head_states(self, hidden: Tensor, heads: int) -> Tensor:
        states: Tensor = self._model.head_states(hidden, heads)
        self._add(self._costs.feed_forward * len(hidden) * heads)
        return states

    def edges(self, memory: Any, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores: tuple[Tensor, Tensor, Tensor] = self._model.edges(memory, candidates)
        (B, N, K), pieces, costs = candidates.shape, memory.states.shape[1], self._costs
        rows, D = B * (1 + N * K), costs.shape.width
        # Self-attention of a row with a single key is one matrix (`SelfAttention.single_key`).
        layers = costs.decoder(rows, 1, 0, pieces) - costs.shape.decoder_layers * rows * (6 * D * D + 4 * D)
        products = rows + sum(one.numel() for one in scores)  # with the normaliser and the tokens' output embeddings
        self._add(costs.source(B, pieces) + layers + 2 * D * products)
        return scores


def _source(state: Any) -> tuple[int, int]:
    """Numbers of sentences and of pieces per sentence."""
    _, _, sentences, _, pieces, _ = state.source.shape
    return sentences, pieces


def _common_length(lengths: Ints | int, state: Any) -> int:
    """The length of all prefixes.

    Raises:
        PipelineError: they differ.
    """
    if not isinstance(lengths, int) or state.lengths is not None:
        raise PipelineError("operations: a drafter's are counted only while all its prefixes are equally long; give it "
                            "one sentence at a time")
    return lengths


def sentence_operations(model: Any, search: Decoder, sentences: Sequence[Tensor]) -> list[int]:
    """The operations of translating each sentence in a batch of its own.

    Args:
        model: of any kind.
        search: a decoder for that kind.
        sentences: (1, S) ids each.

    Raises:
        PipelineError: a batch of several sentences.
    """
    totals = []
    for sentence in sentences:
        if len(sentence) != 1:
            raise PipelineError(f"operations: a batch of {len(sentence)} sentences; they are counted per sentence, so "
                                "give them one at a time")
        operations: list[int] = []
        search(Counted(model, operations.append), sentence)
        totals.append(sum(operations))
    return totals


def compiled_share(model: Any, search: Decoder, sentences: Sequence[Tensor]) -> float:
    """The share of the operations of translating sentences that compiled code does.

    Those are the operations that the formula counts and torch does not see; see `sentence_operations` for arguments and
    errors.
    """
    search(model, sentences[0])  # weights that are gathered once do not belong to the search
    operations: list[int] = []
    seen = seen_by_torch(lambda: operations.extend(sentence_operations(model, search, sentences)))
    return 1 - seen / sum(operations) if sum(operations) else 0.0


def seen_by_torch(work: Callable[[], object]) -> int:
    """The operations that torch counts in its own calls."""
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _Nowhere()  # type: ignore[assignment]
    # Of the fused kernels of attention, the counter knows only those of a GPU; the plain one consists of products.
    with sdpa_kernel(SDPBackend.MATH), counter:
        work()
    return int(counter.get_total_flops())


class _Nowhere(nullcontext[None]):
    """Replaces the counter's module tracker, which fails where a training step computes its own predictions without
    gradients (glancing)."""

    parents = frozenset({"Global"})
