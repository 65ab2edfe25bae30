"""A conditional masked language model (Ghazvininejad et al. 2019): a Transformer that predicts all words at once.

The decoder sees all positions of the target and predicts those that are hidden by MASK. A target consists of its words,
without an end symbol; the encoder predicts its length. For this, a LENGTH token without a position precedes the source:
the pieces keep the positions of an ordered model, whose weights this model may start from.

The paper predicts a length from 1 as one class of many. Here a length may also be 0, and what is predicted is by how
much the target is longer or shorter than the source: sources of all lengths teach that, and few pairs teach one length.
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

    Training calls `encoded`, `lengths` and `decoded`; search calls `encode`, `lengths`, `start` and `step`. A memory of
    this model begins with the encoded LENGTH token, which the decoder does not see.
    """

    kind = "masked"
    chooses_order = False

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(settings, source_vocabulary, target_vocabulary, make_order(OrderSettings("left_to_right")))
        self.source_positions = _PositionsAfterLength(settings, torch.arange(settings.max_length))
        self.excess = nn.Linear(settings.width, settings.max_length)
        """Of target over source tokens; the class in the middle is none, and the outermost ones are all beyond them."""
        nn.init.xavier_uniform_(self.excess.weight)
        nn.init.zeros_(self.excess.bias)

    def lengths(self, memory: Memory) -> Tensor:
        """Log-probabilities of a target of 0, 1, … words, (B, max_length), in float32 at least."""
        logits: Tensor = self.excess(memory.states[:, 0])
        classes = logits.shape[1]
        every = torch.arange(classes, device=logits.device)
        excess = (every - _source_lengths(memory).unsqueeze(1) + classes // 2).clamp(0, classes - 1)
        return logits.gather(1, excess).log_softmax(1, dtype=torch.promote_types(logits.dtype, torch.float32))

    # Training: entire targets.

    def hidden(self, source: Tensor, tokens: Tensor) -> Tensor:
        """The decoder's last hidden states, (B, N, D); `forward` without its projection.

        Args:
            source: (B, S) ids, right-padded with PAD.
            tokens: (B, N) words in reading order, MASK for hidden ones, right-padded with PAD.
        """
        return self.decoded(tokens, self.encoded(source))

    def encoded(self, source: Tensor) -> Memory:
        """Encode (B, S) ids as `encode` does, with gradients."""
        return self._encoder_states(_with_length(source))

    def decoded(self, tokens: Tensor, memory: Memory) -> Tensor:
        """The decoder's last hidden states, (B, N, D), of tokens (B, N) as in `hidden`."""
        return self._decoder_states(tokens, _visible(tokens), _without_length(memory))

    # Search: the three verbs.

    @torch.no_grad()
    def encode(self, source: Tensor) -> Memory:
        """See `Transformer.encode`."""
        return super().encode(_with_length(source))

    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """See `Transformer.start`; every iteration begins with this state."""
        return super().start(_without_length(memory), beams, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Logits (R, N, V) of all positions of targets (R, N) as in `hidden`; the state must hold no tokens."""
        n = tokens.shape[1]
        state.reserve(n)
        x = self._embed(self.target_embedding, tokens, self._position_tables().target[:n])
        x = self._decode(x, state, _visible(tokens))
        state.advance(n)
        return self.projection(self.decoder_norm(x)).view(len(tokens), n, -1)


class _PositionsAfterLength(Positions):
    """The positions of the source after a token that has none."""

    def forward(self) -> Tensor:
        return F.pad(super().forward(), (0, 0, 1, 0))


def _with_length(source: Tensor) -> Tensor:
    return F.pad(source, (1, 0), value=LENGTH)


def _without_length(memory: Memory) -> Memory:
    return Memory(memory.states[:, 1:], None if memory.mask is None else memory.mask[..., 1:])


def _source_lengths(memory: Memory) -> Tensor:
    """(B,) tokens of every source, without LENGTH."""
    B, S, _ = memory.states.shape
    return memory.states.new_full((B,), S - 1, dtype=torch.long) if memory.mask is None else (
        memory.mask.view(B, S).sum(1) - 1)


def _visible(tokens: Tensor) -> Tensor:
    """(B, 1, 1, N), true where there is a word, and everywhere in an empty target: softmax over nothing is NaN."""
    present = tokens != PAD
    return (present | ~present.any(1, keepdim=True))[:, None, None, :]
