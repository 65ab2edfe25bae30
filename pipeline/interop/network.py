"""An encoder-decoder of the transformers library that speaks the three verbs of `decoding.protocol.Model`.

The layers are theirs and compute what they always compute (`transplant.py` has those that ours compute as well). Ours
are three things around them:

* What the decoder remembers is a `model.state.State`, which they fill through their cache interface: preallocated, each
  row as long as it is, so that rejected drafts are forgotten row by row.
* Their decoders count positions from the length of the cache, which is one number for all rows. Where they look up a
  position (or, T5, a bias for a distance), a table of the same numbers is put in that reads each row's own slots.
* The mask of a step is made here, for the same reason.

Ids are renumbered at the border, for search knows PAD, BOS and EOS by the ids of `pipeline.vocabulary`. BOS is no token
of the checkpoint: it stands for the decoder's start symbol, which in every architecture is one that has another use
besides (T5 and Marian start with their padding, the others with their end symbol), and is never said.
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
    """What a checkpoint says of single tokens, in its own ids."""

    pad: int
    start: int
    """The decoder's first input."""
    end: int
    first: int | None = None
    """The first token of every translation, such as its language; None: any."""
    suppressed: tuple[int, ...] = ()
    """Never said; padding never is."""
    suppressed_first: tuple[int, ...] = ()
    """Not said as the first token."""


def renumber(size: int, symbols: Symbols) -> Tensor:
    """The checkpoint's id of each of our ids, (size + 1,): PAD, BOS and EOS in their places, then all others in order.

    >>> renumber(6, Symbols(pad=1, start=5, end=2)).tolist()
    [1, 0, 5, 2, 3, 4, 5]
    """
    ids = [token for token in range(size) if token not in (symbols.pad, symbols.end)]
    for place, token in sorted({PAD: symbols.pad, BOS: symbols.start, EOS: symbols.end}.items()):
        ids.insert(place, token)
    return torch.tensor(ids)


def inverse(ids: Tensor) -> Tensor:
    """Our id of each of the checkpoint's, from what `renumber` gives; that of the start symbol is not BOS."""
    found = torch.empty(len(ids) - 1, dtype=torch.long)
    ours = torch.arange(len(ids))
    found[ids[ours != BOS]] = ours[ours != BOS]
    return found


class Renumbered(nn.Module):
    """What every such model has: it generates from left to right, one token a step, in our numbers."""

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
        """Logits (R, n, V) without what is never said, in place, and without what does not begin a translation.

        Args:
            slots: (n,) or (R, n), those that are predicted; None where anything may begin one (`begins_freely`).
        """
        logits.index_fill_(2, self._suppressed, -torch.inf)
        if slots is None:
            return logits
        return torch.where((slots == 0).unsqueeze(-1), logits + self._first, logits)


class HuggingFaceModel(Renumbered):
    """Any of the architectures, computed by their own layers."""

    def __init__(self, network: Any, symbols: Symbols, longest: int) -> None:
        """Args:
            network: a model for conditional generation of one of the architectures; changed, so that it can be used
                through this class only.
            symbols: of its vocabularies.
            longest: tokens of a source or a target, end symbol included.
        """
        super().__init__(network, symbols)
        self._sources, self._slots = _take_apart(network.get_decoder(), longest, symbols.pad)
        self._network = network
        self.eval()

    @torch.no_grad()
    def encode(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, padded with PAD behind."""
        present = source != PAD
        states = self._network.get_encoder()(input_ids=self.source_ids[source],
                                             attention_mask=present.long()).last_hidden_state
        return Memory(states, present[:, None, None, :])

    @torch.no_grad()
    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """The state before the first step, with `beams` neighbouring rows a sentence and room for `capacity` slots.

        Their layers read keys and values of the source a row, so it is repeated for every beam, and every row is a
        sentence to the state. Where it reorders as many rows as there are it leaves the source in its place, which the
        beams of one sentence have in common.
        """
        assert memory.mask is not None  # `encode` makes one
        states = memory.states
        keys_values = [torch.stack([matrix(states).view(*states.shape[:2], heads, -1).transpose(1, 2)
                                    for matrix in matrices]) for *matrices, heads in self._sources]
        return State(torch.stack(keys_values).repeat_interleave(beams, 2),
                     _additive(memory.mask, states.dtype).repeat_interleave(beams, 0), 1, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Feed the next n input tokens of every row (at first BOS) and move the state: (R, n) to (R, n, V) logits."""
        from pipeline.interop.cache import cache_of
        (R, n), S = tokens.shape, state.source.shape[4]
        state.reserve(n)
        slots = self._slots.slots = state.slots(n)
        visible = torch.arange(state.length + n, device=tokens.device) <= slots.unsqueeze(-1)
        dtype = state.source.dtype
        mask = _additive(visible.view(-1, 1, *visible.shape[-2:]), dtype)
        # What their layers read of the source is in the cache; of its states they only look whether there are any.
        logits = self._network(
            decoder_input_ids=self.target_ids[tokens], encoder_outputs=(state.source.new_empty(R, S, 0),),
            attention_mask=state.source_mask, decoder_attention_mask=mask, past_key_values=cache_of(state),
            use_cache=True).logits
        state.advance(n)
        return self._allowed(logits.index_select(2, self.target_ids), None if self.begins_freely else slots)


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where something may be seen, and the lowest number where not."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)


# Of their architectures: the matrices that read the source, and the places where slots are read.

Sources = list[tuple[nn.Module, nn.Module, int]]
"""Of every layer, the matrices that make keys and values of the source, and their heads."""


def _take_apart(decoder: Any, longest: int, pad: int) -> tuple[Sources, "_Slots"]:
    if decoder.config.model_type == "t5":
        attention = decoder.block[0].layer[0].SelfAttention
        # Their own biases of the last slot, for all distances.
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
    """What an encoder or a decoder, not T5's, adds to the embedding of each slot: (longest, D), a copy."""
    # Any tokens but padding, which M2M100 does not count; Marian and Pegasus ask for their shape.
    tokens = torch.full((1, longest), pad + 1)
    table = stack.embed_positions(tokens.shape if stack.config.model_type in ("marian", "pegasus") else tokens)
    return table.detach().view(longest, -1).clone()


class _Slots(nn.Module):
    """A table that is read at the slots of a step."""

    table: Tensor
    slots: Tensor
    """(n,) or (R, n), of the tokens that are fed; set before every step."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)


class _Positions(_Slots):
    """In place of a decoder's `embed_positions`: the vector of each slot, (longest, D)."""

    def forward(self, *_: Any, **__: Any) -> Tensor:
        """(n, D) or (R, n, D)."""
        return self.table[self.slots]


class _Distances(_Slots):
    """In place of T5's `compute_bias`: that of each distance between a token and an earlier one, (longest, heads)."""

    def forward(self, queries: int, keys: int, *_: Any, **__: Any) -> Tensor:
        """(1, heads, n, keys) or (R, heads, n, keys); later keys get anything, for the mask hides them."""
        distances = self.slots.unsqueeze(-1) - torch.arange(keys, device=self.slots.device)
        return self.table[distances.clamp(min=0)].view(-1, queries, keys, self.table.shape[1]).permute(0, 3, 1, 2)
