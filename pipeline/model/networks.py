"""How a checkpoint describes a network, and how a network is rebuilt from that.

A kind of network is a subclass of `Network`, in a file of this package, that defines `kind`. Nothing lists them.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from pipeline.model.orders import Order, make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings


class Network(nn.Module):
    """A network that a checkpoint can hold."""

    kind: str
    """Which searches apply."""
    chooses_order: ClassVar[bool] = True
    """Whether its order is a setting; other kinds have a fixed one."""
    choices: ClassVar[tuple[str, ...]] = ()
    """Further arguments of the constructor, which are also attributes."""
    settings: NetworkSettings
    order: Order

    def architecture(self) -> dict[str, Any]:
        """A description for `rebuild`, as plain JSON."""
        return {"kind": self.kind, "order": order_identity(self.order) if self.chooses_order else None,
                "network": dataclasses.asdict(self.settings), **{name: getattr(self, name) for name in self.choices}}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], vocabulary: VocabularySettings) -> "Network":
        """A network of this class with random weights; see the function `rebuild`, which finds the class."""
        order = described["order"]
        chosen = {"order": make_order(OrderSettings(order["name"], order["directions"], order["words"]))
                  } if cls.chooses_order else {}
        return cls(settings=NetworkSettings(**described["network"]), source_vocabulary=vocabulary.source,
                   target_vocabulary=vocabulary.target, **chosen, **{name: described[name] for name in cls.choices})

    def save_tables(self, folder: Path) -> None:
        """Write what the network needs in addition to its weights; most need nothing."""

    def load_tables(self, folder: Path, digest: str) -> None:
        """Read what `save_tables` has written, for the vocabulary of a digest."""


def rebuild(described: Mapping[str, Any], vocabulary: VocabularySettings) -> Network:
    """A network of any kind with random weights, as `Network.architecture` has described it.

    Raises:
        KeyError, TypeError, Refused: this describes no network.
    """
    kind, order = described["kind"], described["order"]
    found = _networks().get(kind)
    if found is None or (found.chooses_order and order is None):
        raise KeyError(f"kind {kind!r} with order {order}")
    return found.rebuild(described, vocabulary)


def order_identity(order: Order) -> dict[str, Any]:
    """The properties of an order that a checkpoint and the code that reads it must agree on."""
    return {"name": order.name, "directions": order.directions, "words": order.words, "width": order.width,
            "starts": list(order.starts), "end": order.end}


@cache
def _networks() -> dict[str, type[Network]]:
    """The classes of this package that define their kind."""
    files = [importlib.import_module(f"pipeline.model.{found.name}")
             for found in pkgutil.iter_modules([str(Path(__file__).parent)])]
    return {one.kind: one for file in files for one in vars(file).values()
            if isinstance(one, type) and issubclass(one, Network) and "kind" in vars(one)}
