"""The parts of a network's search, compiled: ids to states, sources to keys and values, ids to logits, drafts.

Their arguments and results are tensors. Whatever a part is not compiled for (many rows, long sources, other types), the
network computes by torch, call by call.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.engine import bounds
from pipeline.engine.choice import engine_in_use
from pipeline.engine.helpers import current_team, together
from pipeline.engine.indexed import Indexed, index_of, indexed
from pipeline.engine.packs import Packs, mask_array
from pipeline.engine.padding import groups
from pipeline.engine.reading import Bools, Ints, Packed, PackedChain, PackedHeads, Reading

_CHAINED = 4
"""Rows up to which the compiled chain is faster than torch's."""
_Network: Any = object


class Compiled(_Network):
    """The first base class of an opened network, before the network's own class (`door.open_engine`).

    `super()` is therefore the network's own code, by torch. What compiled loops read is for this package only.
    """

    packs: Packs

    def clear_caches(self) -> None:
        super().clear_caches()
        self.packs = Packs(self)

    def with_vocabulary(self, ids: Tensor) -> Any:
        """See `pipeline.model.transformer.Transformer.with_vocabulary`."""
        from pipeline.engine.shortlist import with_vocabulary
        short = super().with_vocabulary(ids)
        if self._compiles:
            vars(short)["packs"] = with_vocabulary(self.packs, ids.numpy())
        return short

    # Parts of the three methods.

    def _encoded(self, source: Tensor, mask: Tensor | None) -> Tensor:
        if not (parts := self._parts(mask)):
            return self._encoded_together(source, mask)
        found = [self._encoded_together(source[rows, :longest], own) for rows, longest, own in parts]
        states = found[0].new_zeros(*source.shape, found[0].shape[2])
        for (rows, longest, _), part in zip(parts, found, strict=True):
            states[rows, :longest] = part
        return states

    def _encoded_together(self, source: Tensor, mask: Tensor | None) -> Tensor:
        packed = self.packs.encoder if self._compiles else None
        if packed is not None and self._encodes(*source.shape):
            from pipeline.engine.encoder import encode  # numba: half a second that training does not need
            plain = self.packs.plain
            states = np.empty((*source.shape, packed.positions.shape[1]), packed.positions.dtype)
            ids, visible = source.contiguous().numpy(), mask_array(mask)
            with self.sharing():
                known = encode(ids, packed, plain.heads, plain.pre, plain.activation, visible, states, current_team())
            if known:
                return torch.from_numpy(states)
        own: Tensor = super()._encoded(source, mask)  # which also raises the error for unknown ids
        return own

    def _projected(self, memory: Any) -> Tensor:
        if not (parts := self._parts(memory.mask)):
            return self._projected_together(memory)
        found = [self._projected_together(type(memory)(memory.states[rows, :longest], own))
                 for rows, longest, own in parts]
        (L, two, _, heads, _, depth), (B, S, _) = found[0].shape, memory.states.shape
        projected = found[0].new_zeros(L, two, B, heads, S, depth)
        for (rows, longest, _), part in zip(parts, found, strict=True):
            projected[:, :, rows, :, :longest] = part
        return projected

    def _projected_together(self, memory: Any) -> Tensor:
        B, S, D = memory.states.shape
        packed = self.packs.source if self._compiles else None
        if packed is None or not self._encodes(B, S):
            own: Tensor = super()._projected(memory)
            return own
        from pipeline.engine.encoder import project_source  # numba: half a second that training does not need
        heads = self.packs.plain.heads
        out = np.empty((len(packed.bias) // D // 2, 2, B, heads, S, D // heads), packed.bias.dtype)
        with self.sharing():
            project_source(memory.states.contiguous().numpy(), packed, out, current_team())
        return torch.from_numpy(out)

    def start(self, memory: Any, beams: int = 1, capacity: int = 64) -> Any:
        """See `pipeline.model.transformer.Transformer.start`."""
        state, rows = super().start(memory, beams, capacity), beams * len(memory.states)
        return state if rows == 1 or self._decoder(rows, self.order.width) is None else indexed(state)

    def _read(self, tokens: Tensor, state: Any, projected: bool) -> tuple[Tensor, Tensor]:
        if (packed := self._decoder(*tokens.shape)) is None:
            own: tuple[Tensor, Tensor] = super()._read(tokens, state, projected)
            return own
        from pipeline.engine.decoder import step  # numba: half a second that training does not need
        read = tokens.contiguous().numpy()
        (R, n), number = read.shape, packed.positions.dtype
        hidden = np.empty((R, n, packed.positions.shape[1]), number)
        logits = np.empty((R if projected else 0, n, len(packed.output_scale)), number)
        state.reserve(n)
        with self.sharing():
            reading, lengths = self._reading(packed, state, n, self.packs.visible)
            known = step(read, lengths, reading, hidden, logits)
        if not known:
            raise IndexError(f"token {read.min()} or {read.max()} is outside the vocabulary of "
                             f"{len(packed.embeddings)}, or {lengths.max() + n} tokens are more than the "
                             f"{len(packed.positions)} places")
        state.advance(n)
        state.hidden = torch.from_numpy(hidden)
        return state.hidden, torch.from_numpy(logits)

    def _decode(self, x: Tensor, state: Any, mask: Tensor | None) -> Tensor:
        R, n, _ = x.shape
        if (packed := self._decoder(R, n)) is None:
            if isinstance(state, Indexed):
                state.separate()
            own: Tensor = super()._decode(x, state, mask)
            return own
        from pipeline.engine.decoder import decode  # numba: half a second that training does not need
        x = x.contiguous()
        with self.sharing():
            reading, lengths = self._reading(packed, state, n, mask_array(mask))
            decode(x.numpy(), lengths, np.zeros_like(lengths), reading)
        return x

    def _edges(self, memory: Any, candidates: Tensor, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
        (B, N, K), packed = candidates.shape, self.packs.scorer if self._compiles and not exact else None
        if packed is not None and (B == 1 or self.packs.plain.rounded or bounds.has_all_cores(self._width)):
            from pipeline.engine.scorer import score_edges  # numba: half a second that training does not need
            sources = self._projected(memory)
            new = sources.new_empty
            edges = new(B, K), new(B, N - 1, K, K), new(B, N, K)
            plain, words = self.packs.plain, candidates.contiguous().numpy()
            with self.sharing():
                for b in range(B):
                    source = sources[:, :, b] if memory.mask is None else sources[:, :, b, :, memory.mask[b, 0, 0]]
                    first, inner, end = (scores[b].numpy() for scores in edges)
                    if not score_edges(words[b], source.contiguous().numpy(), packed, plain.pre, plain.activation,
                                       first, inner, end, current_team()):
                        break
                else:
                    return edges
        own: tuple[Tensor, Tensor, Tensor] = super()._edges(memory, candidates, exact)
        return own

    # Drafts.

    def draft_tokens(self, states: Tensor, last: Tensor, verified: bool = False) -> Tensor:
        """See `pipeline.model.chained.ChainedTransformer.draft_tokens`."""
        chain = self.packs.chain if self._compiles and self.chained and len(states) <= _CHAINED else None
        if chain is None:
            own: Tensor = super().draft_tokens(states, last, verified)
            return own
        from pipeline.engine.token_chain import choose_chained  # numba: half a second that training does not need
        tokens = torch.empty(states.shape[:2], dtype=torch.long)
        with self.sharing():
            choose_chained(states.contiguous().numpy(), last.contiguous().numpy(), chain[verified], tokens.numpy(),
                           current_team())
        return tokens

    def _continued(self, tokens: Tensor, lengths: Ints | int, count: int, state: Any) -> Tensor:
        reading = None
        if len(tokens) == 1 and isinstance(lengths, int) and state.lengths is None:
            new = lengths - state.length + count - 1
            reading = self.reading(state, new, rounded=True)
        if reading is None:
            own: Tensor = super()._continued(tokens, lengths, count, state)
            return own
        from pipeline.engine.greedy import run_ahead  # numba: half a second that training does not need
        found = np.empty((1, count), np.int64)
        run_ahead(tokens[0, state.length:lengths].numpy(), found[0], state.length, reading)
        state.advance(new)
        return torch.from_numpy(found)

    # What compiled loops read.

    def reading(self, state: Any, tokens: int, at_once: int = 1, rounded: bool = False) -> Reading | None:
        """The decoder as a compiled loop reads it, with room in the state for the tokens that it will read.

        The state does not advance: the loop counts what it has read.

        Args:
            state: of the rows.
            tokens: the most tokens per row that will be read.
            at_once: the most tokens per row that one step will read.
            rounded: whether its matrices may be rounded, because its predictions are verified.

        Returns:
            None where its steps are not compiled.
        """
        packed = self._decoder(state.rows, at_once) if self.packs.plain.keeps else None
        if packed is not None and rounded:
            packed = self.packs.rounded
        if packed is None:
            return None
        state.reserve(tokens)
        return self._reading(packed, state, tokens, self.packs.visible)[0]

    def packed_chain(self) -> PackedChain | None:
        """The rounded chain of `draft_tokens`; None where it is not compiled."""
        chain = self.packs.chain if self._compiles else None
        return chain and chain[True]

    def packed_heads(self) -> PackedHeads | None:
        """The rounded heads; None where they are not compiled."""
        return self.packs.heads if self._compiles else None

    @property
    def shares_products(self) -> bool:
        """Whether it is wide enough that the cores share the products of its compiled steps."""
        return self._compiles and self.packs.decoder is not None and self._width >= bounds.SHARED

    def sharing(self) -> AbstractContextManager[None]:
        """Helpers for the compiled calls of a block, if the network is wide enough for them."""
        return together() if self.shares_products else nullcontext()

    def portions(self, sentences: int, pieces: int) -> int:
        """See `door.portions_of`."""
        found = bounds.portions(sentences)
        compiled = bounds.has_all_cores(self._width) and self._encodes(-(-sentences // found), pieces)
        return found if self.packs.plain.rounded or compiled else 1  # torch has all cores for each call

    @property
    def _compiles(self) -> bool:
        return engine_in_use() == "compiled" and not self.training

    @property
    def _width(self) -> int:
        return self.packs.plain.target_positions.shape[1]

    def _decoder(self, rows: int, tokens: int) -> Packed | None:
        """The decoder, where a step over so many tokens of each row is compiled.

        Rounded ones always are, as are encoders: torch has no products of bytes that are as quick.
        """
        packed = self.packs.decoder if self._compiles else None
        if packed is None or rows * tokens == 0:
            return None
        return packed if self.packs.plain.rounded or bounds.of(self._width).include(rows, tokens) else None

    def _encodes(self, sentences: int, pieces: int) -> bool:
        """Whether the sources of a batch, padded to so many pieces, are encoded by compiled code."""
        rounded = self.packs.plain.rounded
        return sentences * pieces > 0 and (rounded or bounds.of(self._width).include_sources(sentences, pieces))

    def _parts(self, mask: Tensor | None) -> list[tuple[Tensor, int, Tensor | None]]:
        """The sentences of a padded batch that are encoded together; none: all of them, or nothing is compiled.

        Args:
            mask: (B, 1, 1, S) or None.

        Returns:
            Of each part the rows, the pieces of the longest one, and the mask, if it is padded.
        """
        if mask is None or not self._compiles:
            return []
        visible, parts = mask_array(mask)[:, 0], []
        lengths = visible.shape[1] - visible[:, ::-1].argmax(1)
        for rows in groups(lengths):
            longest, chosen = int(lengths[rows].max()), torch.from_numpy(rows)
            padded = not visible[rows, :longest].all()
            parts.append((chosen, longest, mask[chosen, ..., :longest] if padded else None))
        return parts if len(parts) > 1 else []

    def _reading(self, packed: Packed, state: Any, tokens: int, mask: Bools) -> tuple[Reading, Ints]:
        """A decoder that reads up to `tokens` more tokens per row, and the number that it has read, (R,)."""
        past, source, lengths = state.arrays(tokens)
        (own, origins, sources), plain = index_of(state), self.packs.plain
        return Reading(packed, past, own, origins, source, sources, mask, mask_array(state.source_mask), plain.pre,
                       plain.activation, current_team()), lengths


def sharing_by(model: Any) -> AbstractContextManager[None]:
    """Helpers for the compiled calls of a whole search by a model: its verifier's, where it drafts."""
    model = getattr(model, "verifier", model)
    return model.sharing() if isinstance(model, Compiled) else nullcontext()
