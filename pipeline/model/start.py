"""How a network begins with the weights of another one, which may be narrower, shallower or of another order."""

from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor, nn

from pipeline.errors import PipelineError
from pipeline.model.checkpoint import WEIGHTS, read_config, read_weights, unique_weights
from pipeline.model.settings import NetworkSettings
from pipeline.model.transformer import Transformer
from pipeline.model.widening import widened

DECODER = ("decoder", "source_keys_values", "target_positions")
"""How the names of the parameters begin that depend on the order of generation."""
_STACKED = ("source_keys_values.weight", "source_keys_values.bias")
_LAST = ("self_attention.output", "cross_attention.output", "feed_forward.outer")
"""The last maps of a layer's blocks."""


def begin_with(network: Transformer, folder: Path, *, left_out: tuple[str, ...] = (),
               positions: tuple[int, int] | None = None, seed: int = 1) -> list[str]:
    """Copy the weights of a checkpoint that agree with a network in name and shape.

    Those of a narrower network are widened first. Of matrices that stack all layers, the layers that both have are
    copied. With pre-norm, layers that the checkpoint lacks begin as the identity, on top of those that it has. In its
    own order, a network that is wider or deeper therefore begins with the function of the checkpoint.

    Args:
        network: changed in place.
        folder: a checkpoint.
        left_out: how the names of parameters begin that are not copied.
        positions: what a learned table of target positions is set to (`Positions.begin`), instead of being copied.
        seed: of what is random in widening.

    Returns:
        The names of parameters that were not copied.

    Raises:
        PipelineError: nothing fits, the network cannot repeat the units of the checkpoint's, or a file is absent or
            damaged.
    """
    given = NetworkSettings(**read_config(folder)["network"])
    stored = read_weights(folder / WEIGHTS)
    copies = network.settings.copies_of(given)
    if copies is not None:
        stored = widened(stored, given, copies, seed)
    if positions is not None:
        network.target_positions.begin(*positions)
        left_out = (*left_out, "target_positions.learned")
    if copies is not None and copies.width > 1:
        network.source_positions.repeat(copies.width)
        network.target_positions.repeat(copies.width)
    own = {name: weight for name, weight in unique_weights(network).items()
           if network.get_parameter(name).requires_grad}
    stored = {name: weight for name, weight in stored.items() if not name.startswith(left_out)}
    stored |= _common_layers(stored, own)
    fitting = {name for name in own if name in stored and stored[name].shape == own[name].shape}
    if not fitting:
        raise PipelineError(f"{folder / WEIGHTS}: no weight fits the model; start from a checkpoint of the same "
                            "network.width, or of one that divides it")
    with torch.no_grad():
        for name in fitting:
            own[name].copy_(stored[name])
    if network.settings.norm == "pre":
        _begin_as_identity("encoder", network.encoder, given.encoder_layers, fitting)
        _begin_as_identity("decoder", network.decoder, given.decoder_layers, fitting)
    network.clear_caches()
    return sorted(own.keys() - fitting)


def _common_layers(stored: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices that stack all layers: the layers of `stored`, as many as `own` has, then those that only `own` has."""
    if any(name not in stored for name in _STACKED) or stored[_STACKED[0]].shape[1] != own[_STACKED[0]].shape[1]:
        return {}
    return {name: torch.cat([stored[name][:len(own[name])], own[name][len(stored[name]):]]) for name in _STACKED}


@torch.no_grad()
def _begin_as_identity(stack: str, layers: nn.ModuleList, known: int, copied: Collection[str]) -> None:
    """Let the layers after the known ones of a stack add nothing, if the known ones are copied."""
    if any(name.startswith(f"{stack}.") for name in copied):
        for layer in layers[known:]:
            for name, parameter in layer.named_parameters():
                if name.startswith(_LAST):
                    parameter.zero_()
