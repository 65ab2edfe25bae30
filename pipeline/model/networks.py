"""What a checkpoint knows of a network: how it describes one, and how one is made again.

A kind of network is a subclass of `Network` in a file of this package that says its `kind`. Nothing lists them.
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
    """What a search must know how to search."""
    chooses_order: ClassVar[bool] = True
    """Whether it generates in an order of its own choice; the other kinds have none to choose."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The attributes that its constructor takes after shape, vocabularies and order."""
    settings: NetworkSettings
    order: Order

    def architecture(self) -> dict[str, Any]:
        """What `rebuild` makes the network from, as plain JSON."""
        return {"kind": self.kind, "order": order_identity(self.order) if self.chooses_order else None,
                "network": dataclasses.asdict(self.settings), **{name: getattr(self, name) for name in self.choices}}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], vocabulary: VocabularySettings) -> "Network":
        """A network with random weights of an `architecture`; see `rebuild` of this file, which knows its class."""
        order = described["order"]
        chosen = {"order": make_order(OrderSettings(order["name"], order["directions"], order["words"]))
                  } if cls.chooses_order else {}
        return cls(settings=NetworkSettings(**described["network"]), source_vocabulary=vocabulary.source,
                   target_vocabulary=vocabulary.target, **chosen, **{name: described[name] for name in cls.choices})

    def save_tables(self, folder: Path) -> None:
        """Write what the network reads besides its weights; most read nothing."""

    def load_tables(self, folder: Path, digest: str) -> None:
        """Read what `save_tables` has written, for the vocabulary of that digest."""


def rebuild(described: Mapping[str, Any], vocabulary: VocabularySettings) -> Network:
    """A network with random weights of an architecture.

    Args:
        described: by `Network.architecture`, of any kind.
        vocabulary: that it is for.

    Raises:
        KeyError, TypeError, Refused: this describes no network.
    """
    kind, order = described["kind"], described["order"]
    found = _networks().get(kind)
    if found is None or (found.chooses_order and order is None):
        raise KeyError(f"kind {kind!r} with order {order}")
    return found.rebuild(described, vocabulary)


def order_identity(order: Order) -> dict[str, Any]:
    """What a checkpoint and the code that reads it must agree on about an order."""
    return {"name": order.name, "directions": order.directions, "words": order.words, "width": order.width,
            "starts": list(order.starts), "end": order.end}


@cache
def _networks() -> dict[str, type[Network]]:
    """The classes of this package that say their kind."""
    files = [importlib.import_module(f"pipeline.model.{found.name}")
             for found in pkgutil.iter_modules([str(Path(__file__).parent)])]
    return {one.kind: one for file in files for one in vars(file).values()
            if isinstance(one, type) and issubclass(one, Network) and "kind" in vars(one)}
