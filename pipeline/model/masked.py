"""A conditional masked language model (Ghazvininejad et al. 2019): the Transformer, but all words at once.

The decoder sees every position of the target, in both directions, and fills in those that are hidden by MASK. A
target is exactly its words, without an end symbol; its length is predicted by the encoder. For that a LENGTH token
stands in front of the source, without a position, so that the pieces keep the positions of an ordered model whose
weights may be the start of this one's. The paper predicts lengths of 1 and more; here 0 is a length as well.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.model.layers import Positions
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.state import Memory, State
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import LENGTH, PAD


class MaskedTransformer(Transformer):
    """Predicts hidden words from the source and all other words, and the length of a target from its source.

    Training calls `encoded`, `lengths` and `decoded`; search calls `encode`, `lengths`, `start` and `step`. A memory
    of this model has the encoded LENGTH token in front, which the decoder never sees.
    """

    kind = "masked"
    chooses_order = False

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(settings, source_vocabulary, target_vocabulary, make_order(OrderSettings("left_to_right")))
        self.source_positions = _PositionsBehindLength(settings, torch.arange(settings.max_length))
        self.length = nn.Linear(settings.width, settings.max_length)  # classes 0 .. max_length - 1
        nn.init.xavier_uniform_(self.length.weight)
        nn.init.zeros_(self.length.bias)

    def lengths(self, memory: Memory) -> Tensor:
        """Log-probabilities of a target of 0, 1, … words, (B, max_length)."""
        return self.length(memory.states[:, 0]).log_softmax(1)

    # Training: whole targets.

    def hidden(self, source: Tensor, tokens: Tensor) -> Tensor:
        """The decoder's last hidden states, (B, N, D); `forward` without its projection.

        Args:
            source: (B, S) ids, padded with PAD behind.
            tokens: (B, N) words in reading order, MASK in place of the hidden ones, padded with PAD.
        """
        return self.decoded(tokens, self.encoded(source))

    def encoded(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, with gradients; the counterpart of `encode`."""
        return self._encoder_states(_behind_length(source))

    def decoded(self, tokens: Tensor, memory: Memory) -> Tensor:
        """`hidden` of (B, N) tokens whose source is encoded."""
        return self._decoder_states(tokens, _visible(tokens), _without_length(memory))

    # Search: the three verbs.

    @torch.no_grad()
    def encode(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, padded with PAD behind and at most `max_length` long."""
        return super().encode(_behind_length(source))

    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """The state of every iteration, with `beams` neighbouring rows a sentence; see `Transformer.start`."""
        return super().start(_without_length(memory), beams, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Read whole targets; the state must be at its start (`state.rewind(0)`).

        Args:
            tokens: (R, N) as in `hidden`.

        Returns:
            (R, N, V) logits of every position.
        """
        n = tokens.shape[1]
        state.reserve(n)
        x = self._embed(self.target_embedding, tokens, self._position_tables().target[:n])
        x = self._decode(x, state, _visible(tokens))
        state.advance(n)
        return self.projection(self.decoder_norm(x)).view(len(tokens), n, -1)


class _PositionsBehindLength(Positions):
    """The positions of the source behind a token that has none."""

    def forward(self) -> Tensor:
        return F.pad(super().forward(), (0, 0, 1, 0))


def _behind_length(source: Tensor) -> Tensor:
    return F.pad(source, (1, 0), value=LENGTH)


def _without_length(memory: Memory) -> Memory:
    return Memory(memory.states[:, 1:], None if memory.mask is None else memory.mask[..., 1:])


def _visible(tokens: Tensor) -> Tensor:
    """(B, 1, 1, N), true where there is a word; everywhere in an empty target, whose attention would divide by 0."""
    present = tokens != PAD
    return (present | ~present.any(1, keepdim=True))[:, None, None, :]
