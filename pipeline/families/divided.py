"""Weights that are divided among devices (PyTorch's FSDP2), and whole again where they are searched or written."""

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from pipeline.model.checkpoint import unique_weights
from pipeline.model.transformer import Transformer


def divide(network: Transformer, mesh: DeviceMesh) -> None:
    """Leave each device of a mesh its share of all weights; a layer is whole while it computes.

    Only a call of the network itself makes what is outside its layers whole.
    """
    for layer in (*network.encoder, *network.decoder):
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)


def whole_weights(network: Transformer) -> dict[str, Tensor]:
    """The weights by name; where they are divided, all devices must call this together."""
    weights = unique_weights(network)
    if isinstance(network, FSDPModule):
        return {name: weight.full_tensor() if isinstance(weight, DTensor) else weight
                for name, weight in weights.items()}
    return weights
