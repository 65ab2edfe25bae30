"""Models of random weights, whose outputs have any length that is asked for: to time shapes that no run has trained."""

import torch

from pipeline.engine.door import open_engine
from pipeline.model.checkpoint import column_major
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.transformer import Transformer

CPU = torch.device("cpu")


def random_model(order: OrderSettings, vocabulary: int, network: NetworkSettings, device: torch.device = CPU,
                 seed: int = 1) -> Transformer:
    """A model that never ends: the logit of its end symbol is 0, far below the best of the others."""
    torch.manual_seed(seed)
    model = Transformer(network, vocabulary, vocabulary, make_order(order)).eval()
    with torch.no_grad():
        model.projection.weight[model.order.end] = 0
    opened: Transformer = open_engine(column_major(model.to(device)))  # as a loaded checkpoint is
    return opened
