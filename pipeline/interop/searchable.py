"""What other libraries can search. (No torch here: `facts` asks before anything is trained.)"""

from pipeline.model.settings import OrderSettings


def searchable(order: OrderSettings | None) -> bool:
    """Whether other libraries can search models of an order: from left to right, one token per step."""
    return order is not None and order.name == "left_to_right" and (order.directions or 1, order.words or 1) == (1, 1)
