"""The cache interface of the transformers library, which it imports, on our decoder state."""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

from pipeline.model.state import State


class _Past(DynamicLayer):
    """Keys and values of earlier target tokens in one layer."""

    def __init__(self, state: State, layer: int) -> None:
        super().__init__()
        self._state, self._layer = state, layer

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens, and return all."""
        keys, values = self._state.append(self._layer, torch.stack((key_states, value_states)))
        return keys, values

    def get_seq_length(self) -> int:
        return self._state.length


class _Source(DynamicLayer):
    """Keys and values of the source in one layer, which do not change."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = keys, values, True


def cache_of(state: State) -> EncoderDecoderCache:
    """Return the cache that a step reads and appends to. Call `state.advance` after the step."""
    return EncoderDecoderCache(Cache(layers=[_Past(state, layer) for layer in range(len(state.source))]),
                               Cache(layers=[_Source(keys, values) for keys, values in state.source]))
