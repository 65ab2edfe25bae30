"""An encoder-decoder of the transformers library with the three methods of `decoding.protocol.Model`.

The layers are the library's (`transplant.py` has the models that our layers compute). Three parts around them differ:

* The decoder's cache is a `model.state.State`, which the layers fill through their cache interface: preallocated, with
  a length per row, so that rejected drafts are removed per row.
* The library's decoders derive positions from the length of the cache, which is one number for all rows. Their table of
  positions (in T5, of biases per distance) is replaced by one with the same values that is read at each row's slots.
* The mask of a step is made here, for the same reason.

Ids are renumbered at the interface, because search identifies PAD, BOS and EOS by the ids of `pipeline.vocabulary`. BOS
is not a token of the checkpoint: it replaces the decoder's start symbol, which in every architecture also has another
use (T5 and Marian start with padding, the others with the end symbol), and is never predicted.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.model.orders import Order, make_order
from pipeline.model.settings import OrderSettings
from pipeline.model.state import Memory, State
from pipeline.vocabulary import BOS, EOS, PAD


@dataclass(frozen=True)
class Symbols:
    """The special tokens of a checkpoint, in its own ids."""

    pad: int
    start: int
    """The decoder's first input."""
    end: int
    first: int | None = None
    """The first token of every translation, such as its language; None: any."""
    suppressed: tuple[int, ...] = ()
    """Never predicted; padding never is."""
    suppressed_first: tuple[int, ...] = ()
    """Never predicted as the first token."""


def renumber(size: int, symbols: Symbols) -> Tensor:
    """Return the checkpoint's id per id of ours, (size + 1,): PAD, BOS and EOS in their places, the others in order.

    >>> renumber(6, Symbols(pad=1, start=5, end=2)).tolist()
    [1, 0, 5, 2, 3, 4, 5]
    """
    ids = [token for token in range(size) if token not in (symbols.pad, symbols.end)]
    for place, token in sorted({PAD: symbols.pad, BOS: symbols.start, EOS: symbols.end}.items()):
        ids.insert(place, token)
    return torch.tensor(ids)


def inverse(ids: Tensor) -> Tensor:
    """Return our id per id of the checkpoint, given the result of `renumber`; the start symbol's is not BOS."""
    found = torch.empty(len(ids) - 1, dtype=torch.long)
    ours = torch.arange(len(ids))
    found[ids[ours != BOS]] = ours[ours != BOS]
    return found


class Renumbered(nn.Module):
    """The base of such models: left to right, one token per step, in our ids."""

    kind = "ordered"
    source_ids: Tensor
    target_ids: Tensor
    _suppressed: Tensor
    _first: Tensor

    def __init__(self, network: Any, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols
        self.order: Order = make_order(OrderSettings("left_to_right"))
        self.begins_freely = symbols.first is None and not symbols.suppressed_first
        self.register_buffer("source_ids", renumber(network.get_encoder().get_input_embeddings().num_embeddings,
                                                    symbols), persistent=False)
        self.register_buffer("target_ids", renumber(network.get_output_embeddings().out_features, symbols),
                             persistent=False)
        ours = inverse(self.target_ids)
        never = [BOS, PAD, *ours[list(symbols.suppressed)].tolist()]
        first = torch.zeros(len(self.target_ids))
        first[ours[list(symbols.suppressed_first)]] = -torch.inf
        if symbols.first is not None:
            first.fill_(-torch.inf)[ours[symbols.first]] = 0
        self.register_buffer("_suppressed", torch.tensor(never), persistent=False)
        self.register_buffer("_first", first, persistent=False)

    def _allowed(self, logits: Tensor, slots: Tensor | None) -> Tensor:
        """Mask suppressed tokens in logits (R, n, V), in place, and those that may not begin a translation.

        `slots`, (n,) or (R, n), are the predicted ones; None if any token may begin a translation (`begins_freely`).
        """
        logits.index_fill_(2, self._suppressed, -torch.inf)
        if slots is None:
            return logits
        return torch.where((slots == 0).unsqueeze(-1), logits + self._first, logits)


class HuggingFaceModel(Renumbered):
    """Any of the architectures, computed by the library's layers."""

    def __init__(self, network: Any, symbols: Symbols, longest: int) -> None:
        """Wrap a model for conditional generation, which is changed and can then be used only through this class.

        `longest` is the most tokens of a source or a target, end symbol included.
        """
        super().__init__(network, symbols)
        self._sources, self._slots = _replace_positions(network.get_decoder(), longest, symbols.pad)
        self._network = network
        self.eval()

    @torch.no_grad()
    def encode(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, padded with PAD at the end."""
        present = source != PAD
        states = self._network.get_encoder()(input_ids=self.source_ids[source],
                                             attention_mask=present.long()).last_hidden_state
        return Memory(states, present[:, None, None, :])

    @torch.no_grad()
    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """Return the state before the first step, with `beams` adjacent rows per sentence and `capacity` slots.

        The layers read keys and values of the source per row, so it is repeated for every beam, and the state treats
        every row as a sentence. Reordering without removing rows leaves the source in place, since the beams of a
        sentence share it.
        """
        assert memory.mask is not None  # `encode` makes one
        states = memory.states
        keys_values = [torch.stack([matrix(states).view(*states.shape[:2], heads, -1).transpose(1, 2)
                                    for matrix in matrices]) for *matrices, heads in self._sources]
        return State(torch.stack(keys_values).repeat_interleave(beams, 2),
                     _additive(memory.mask, states.dtype).repeat_interleave(beams, 0), 1, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Advance the state by the next n input tokens per row (BOS first): (R, n) to (R, n, V) logits."""
        from pipeline.interop.cache import cache_of
        (R, n), S = tokens.shape, state.source.shape[4]
        state.reserve(n)
        slots = self._slots.slots = state.slots(n)
        visible = torch.arange(state.length + n, device=tokens.device) <= slots.unsqueeze(-1)
        dtype = state.source.dtype
        mask = _additive(visible.view(-1, 1, *visible.shape[-2:]), dtype)
        # The layers read the source from the cache; its states must only be present.
        logits = self._network(
            decoder_input_ids=self.target_ids[tokens], encoder_outputs=(state.source.new_empty(R, S, 0),),
            attention_mask=state.source_mask, decoder_attention_mask=mask, past_key_values=cache_of(state),
            use_cache=True).logits
        state.advance(n)
        return self._allowed(logits.index_select(2, self.target_ids), None if self.begins_freely else slots)


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the additive mask: 0 where visible, the lowest number elsewhere."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)


Sources = list[tuple[nn.Module, nn.Module, int]]
"""Per layer, the projections of the source to keys and to values, and their number of heads."""


def _replace_positions(decoder: Any, longest: int, pad: int) -> tuple[Sources, "_Slots"]:
    if decoder.config.model_type == "t5":
        attention = decoder.block[0].layer[0].SelfAttention
        # The biases of the last slot have all distances.
        biases = attention.compute_bias(1, longest, past_seen_tokens=longest - 1)[0, :, 0].flip(1).t()
        distances = _Distances(biases.detach().contiguous())
        attention.compute_bias = distances.forward
        across = [block.layer[1].EncDecAttention for block in decoder.block]
        return [(one.k, one.v, one.n_heads) for one in across], distances
    positions = _Positions(position_table(decoder, longest, pad))
    decoder.embed_positions = positions
    across = [layer.encoder_attn for layer in decoder.layers]
    return [(one.k_proj, one.v_proj, one.num_heads) for one in across], positions


def position_table(stack: Any, longest: int, pad: int) -> Tensor:
    """Return a copy of the positions, (longest, D), of an encoder or a decoder other than T5's."""
    # Any tokens but padding, which M2M100 does not count; Marian and Pegasus take their shape.
    tokens = torch.full((1, longest), pad + 1)
    table = stack.embed_positions(tokens.shape if stack.config.model_type in ("marian", "pegasus") else tokens)
    return table.detach().view(longest, -1).clone()


class _Slots(nn.Module):
    """A table that is read at the slots of a step."""

    table: Tensor
    slots: Tensor
    """(n,) or (R, n), of the input tokens; set before every step."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)


class _Positions(_Slots):
    """Replaces a decoder's `embed_positions`: the vector of each slot, (longest, D)."""

    def forward(self, *_: Any, **__: Any) -> Tensor:
        """Return (n, D) or (R, n, D)."""
        return self.table[self.slots]


class _Distances(_Slots):
    """Replaces T5's `compute_bias`: the bias of each distance between a token and an earlier one, (longest, heads)."""

    def forward(self, queries: int, keys: int, *_: Any, **__: Any) -> Tensor:
        """Return (1, heads, n, keys) or (R, heads, n, keys); the values of later keys are arbitrary, being masked."""
        distances = self.slots.unsqueeze(-1) - torch.arange(keys, device=self.slots.device)
        return self.table[distances.clamp(min=0)].view(-1, queries, keys, self.table.shape[1]).permute(0, 3, 1, 2)
