"""Every generation order that the tests run through, by a label."""

import torch
from torch import Tensor

from pipeline.model.orders import Order, make_order
from pipeline.model.settings import OrderSettings

EVERY_ORDER: dict[str, Order] = {
    label: make_order(OrderSettings(*arguments)) for label, arguments in {
        "left_to_right": ("left_to_right",),
        "right_to_left": ("right_to_left",),
        "semi_autoregressive2": ("left_to_right", None, 2),
        "semi_autoregressive4": ("left_to_right", None, 4),
        "right_to_left3": ("right_to_left", None, 3),
        "interleaved": ("interleaved",),
        "interleaved_sa2": ("interleaved", None, 2),
        "interleaved_sa3": ("interleaved", None, 3),
        "multi_directional4": ("multi_directional",),
        "multi_directional6": ("multi_directional", 6),
        "multi_directional4_sa2": ("multi_directional", 4, 2),
        "double_token": ("double_token",),
        "double_token_l2r": ("double_token_l2r",),
        "double_token_r2l": ("double_token_r2l",),
        "vanilla_mask": ("vanilla_mask",),
        "vanilla_positions": ("vanilla_positions",),
        "middle_to_side": ("middle_to_side",),
        "independent_directions": ("independent_directions",),
        "alternating": ("alternating",),
    }.items()
}


def inputs_of(order: Order, arranged: Tensor) -> Tensor:
    """What a decoder reads (R, n) while it predicts these slots (R, n)."""
    starts = arranged.new_tensor([order.starts]).expand(len(arranged), -1)
    return torch.cat([starts, arranged[:, :-order.width]], 1)
