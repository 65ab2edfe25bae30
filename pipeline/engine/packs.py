"""A network's weights as compiled code reads them, each part packed on first use."""

import weakref
from collections.abc import Sequence
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from pipeline.engine.packing import pack_chain, pack_decoder, pack_encoder, pack_heads, pack_scorer, pack_source
from pipeline.engine.plain import Block, PlainWeights
from pipeline.engine.reading import (
    Bools,
    Floats,
    Packed,
    PackedChain,
    PackedEncoder,
    PackedHeads,
    PackedScorer,
    PackedSource,
)
from pipeline.errors import PipelineError

_PACKING = RLock()
P = TypeVar("P")


class _packed_once(cached_property[P]):
    """An attribute that the first of several threads computes while the others wait."""

    def __get__(self, packs: Any, owner: type | None = None) -> Any:
        with _PACKING:
            return super().__get__(packs, owner)


_EVERYTHING = np.zeros((0, 1, 0), np.bool_)


class Packs:
    """Copies of a network's weights, which later changes do not affect; a part is None where it is not compiled."""

    def __init__(self, network: Any) -> None:
        """Args:
            network: a `plain.Openable`; a drafting one also has `chain_weights` or `plain_heads`, a lattice
                `plain_scorer`.
        """
        # The network holds its packs: a cycle would keep those of a network that was trained on until it is collected.
        self._network = weakref.proxy(network)

    @_packed_once
    def plain(self) -> PlainWeights:
        """The network's parameters.

        Raises:
            PipelineError: one is not finite. Comparisons with NaN are false, so a compiled search would end at once.
        """
        for name, weight in self._network.named_parameters():
            if readable(weight) and not np.isfinite(array(weight)).all():  # torch takes ten times as long
                raise PipelineError(f"{name}: some of its numbers are not finite, so the network translates nothing; "
                                    "train it again, with a lower optimisation.learning_rate, or choose another model")
        weights: PlainWeights = self._network.plain_weights()
        return weights

    @_packed_once
    def size(self) -> int:
        """Bytes of all parameters."""
        return sum(one.numel() * one.element_size() for one in self._network.parameters())

    @_packed_once
    def decoder(self) -> Packed | None:
        """The decoder with its own weights."""
        return self._decoder(self.plain.rounded)

    @_packed_once
    def rounded(self) -> Packed | None:
        """The decoder with weights of 8 bits, for drafts."""
        return self.decoder if self.plain.rounded else self._decoder(rounded=True)

    @_packed_once
    def encoder(self) -> PackedEncoder | None:
        """The encoder."""
        plain = self.plain
        if plain.source_embedding is None or not plain.encoder or not readable(plain.projection):
            return None
        if self.decoder is not None and plain.source_embedding is plain.target_embedding:
            embeddings = self.decoder.embeddings  # one copy for both
        else:
            embeddings = array(plain.source_embedding * plain.scale)
        return pack_encoder(_arrays(plain.encoder), embeddings, array(plain.source_positions),
                            array(plain.encoder_norm), rounded=plain.rounded)

    @_packed_once
    def source(self) -> PackedSource | None:
        """The projection of encoded sources."""
        weight, bias = self.plain.source_keys_values
        return pack_source(array(weight), array(bias), rounded=self.plain.rounded) if readable(weight) else None

    @_packed_once
    def chain(self) -> tuple[PackedChain, PackedChain] | None:
        """The chain between the tokens of a draft: as the network scores them, and rounded."""
        if not readable(self.plain.projection):
            return None
        parts = [array(part) for part in self._network.chain_weights()]
        own = pack_chain(*parts, rounded=False, rounded_projection=self.plain.rounded)
        rounded = pack_chain(*parts, rounded=True, rounded_projection=True)
        return None if own is None or rounded is None else (own, rounded)

    @_packed_once
    def heads(self) -> PackedHeads | None:
        """Heads that predict the tokens after the next one, rounded."""
        return None if self.decoder is None else pack_heads(*map(array, self._network.plain_heads()))

    @_packed_once
    def scorer(self) -> PackedScorer | None:
        """The scorer of a lattice."""
        if self.decoder is None:
            return None
        plain, (self_attention, (weight, bias)) = self.plain, self._network.plain_scorer()
        return pack_scorer(self.decoder, [_arrays([layer])[0][1] for layer in plain.decoder],
                           [(array(one), array(other)) for one, other in self_attention], plain.heads,
                           array(plain.projection), (array(weight), float(bias)), rounded=plain.rounded)

    @_packed_once
    def visible(self) -> Bools:
        """Which slots see each other."""
        return mask_array(self.plain.visible)

    def _decoder(self, rounded: bool) -> Packed | None:
        plain = self.plain
        if not plain.decoder or not readable(plain.projection):
            return None
        packed = pack_decoder(_arrays(plain.decoder), array(plain.target_embedding * plain.scale),
                              array(plain.target_positions), array(plain.decoder_norm), array(plain.projection.t()),
                              rounded=rounded)
        if packed is None or plain.output_bias is None:
            return packed
        return packed._replace(output_bias=array(plain.output_bias).copy())


def readable(weights: Tensor) -> bool:
    """Whether compiled code can read weights."""
    return weights.device.type == "cpu" and weights.dtype in (torch.float32, torch.float64)


def mask_array(mask: Tensor | None) -> Bools:
    """A mask without its dimension of heads, (1 or R, 1 or n, T); no rows where it is true everywhere."""
    if mask is None:
        return _EVERYTHING
    return np.ascontiguousarray(mask.view(-1, *mask.shape[-2:]).numpy())


def array(tensor: Tensor) -> Floats:
    """A tensor for compiled code, which shares its memory."""
    found: Floats = tensor.detach().numpy()
    return found


def _arrays(layers: Sequence[Sequence[Block]]) -> list[list[list[Floats]]]:
    return [[[array(part) for part in block] for block in layer] for layer in layers]
