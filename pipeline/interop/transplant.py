"""A checkpoint's weights in our layers, where these compute exactly the same, with less Python between operations.

These are Marian (post-norm; OPUS-MT is such a model), Pegasus and M2M100 or NLLB (pre-norm), with relu, gelu or swish,
and with the same heads and inner dimensions in decoder and encoder. BART and mBART also normalise the embeddings, and
T5 has biases instead of positions: these run on the library's layers (`network.py`).
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipeline.interop.export_huggingface import correspondence
from pipeline.interop.network import HuggingFaceModel, Renumbered, Symbols, position_table
from pipeline.model.settings import ACTIVATIONS, Activation, NetworkSettings, Norm
from pipeline.model.state import Memory, State
from pipeline.model.transformer import Transformer

_NORMS: dict[str, Norm] = {"marian": "post", "pegasus": "pre", "m2m_100": "pre"}
_ACTIVATIONS: dict[str, Activation] = {**{one: one for one in ACTIVATIONS}, "silu": "swish"}
"""By the library's names."""


class TransplantedModel(Renumbered):
    """A Transformer of ours with the weights of a checkpoint."""

    def __init__(self, network: Any, symbols: Symbols, settings: NetworkSettings) -> None:
        """Copy the weights of a network for which `our_settings` returned these settings."""
        super().__init__(network, symbols)
        self._transformer = Transformer(settings, len(self.source_ids), len(self.target_ids), self.order)
        self._transformer.to(network.get_output_embeddings().weight.dtype)
        theirs = network.state_dict()
        weights = {name: torch.cat([theirs[part] for part in parts])
                   for name, parts in correspondence(settings).items()}
        scale = 1.0 if network.config.scale_embedding else 1 / math.sqrt(settings.width)
        for side, ids, stack in (("source", self.source_ids, network.get_encoder()),
                                 ("target", self.target_ids, network.get_decoder())):
            weights[f"{side}_embedding.weight"] = weights[f"{side}_embedding.weight"][ids] * scale
            table = position_table(stack, settings.max_length, symbols.pad)
            slots = len(getattr(self._transformer, f"{side}_positions")())
            # After the longest target ours has a slot for its end symbol, which no search needs.
            weights[f"{side}_positions.learned"] = torch.cat((table, table[-1:].expand(slots - len(table), -1)))
        weights["projection.weight"] = weights["projection.weight"][self.target_ids]
        self._transformer.load_state_dict(weights)
        head = theirs["lm_head.weight"]
        bias = theirs.get("final_logits_bias", head.new_zeros(1, len(head)))[:, self.target_ids]
        if self.begins_freely:  # the suppressed tokens are then the same in every step
            bias = self._allowed(bias.unsqueeze(0), None)
        if bool(bias.any()):
            self._transformer.output_bias = bias.view(-1)
        self.eval()

    def encode(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, padded with PAD at the end."""
        return self._transformer.encode(source)

    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """Return the state before the first step, with `beams` adjacent rows per sentence and `capacity` slots."""
        return self._transformer.start(memory, beams, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Advance the state by the next n input tokens per row (BOS first): (R, n) to (R, n, V) logits."""
        if self.begins_freely:
            return self._transformer.step(tokens, state)
        slots = state.slots(tokens.shape[1])
        return self._allowed(self._transformer.step(tokens, state), slots)

    def with_opened(self, open_engine: Callable[[Any], Any]) -> Any:
        """See `pipeline.engine.plain.Around`. If any token may begin a translation, only the network is needed."""
        opened = open_engine(self._transformer)
        if self.begins_freely:
            return opened
        around = copy.copy(self)
        vars(around)["_transformer"] = opened  # found before the submodule of that name
        return around


def model_of(network: Any, symbols: Symbols, longest: int) -> Renumbered:
    """Return a network of the library as our `Model`: on our layers if they compute the same, else on its own.

    The network must not be used otherwise. `longest` is the most tokens of a source or a target, end symbol included.
    """
    settings = our_settings(network, longest)
    if settings is None:
        return HuggingFaceModel(network, symbols, longest)
    return TransplantedModel(network, symbols, settings)


def our_settings(network: Any, longest: int) -> NetworkSettings | None:
    """Return the settings of the Transformer that computes the same as a network of the library; None if none does."""
    config = network.config
    norm = _NORMS.get(config.model_type)
    if norm is None or config.activation_function not in _ACTIVATIONS:
        return None
    if (config.encoder_attention_heads, config.encoder_ffn_dim) != (config.decoder_attention_heads,
                                                                    config.decoder_ffn_dim) or config.d_model % 2:
        return None
    return NetworkSettings(
        width=config.d_model, heads=config.encoder_attention_heads, feed_forward=config.encoder_ffn_dim,
        encoder_layers=config.encoder_layers, decoder_layers=config.decoder_layers, norm=norm, tied_embeddings="none",
        positions="learned", activation=_ACTIVATIONS[config.activation_function], dropout=0.0, max_length=longest)
