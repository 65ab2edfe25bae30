"""The door to the engine: from a network to one that searches by compiled code, or by static steps on a GPU."""

import copy
from functools import lru_cache
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from pipeline.engine import bounds
from pipeline.engine.choice import Engine, engine_in_use, use_engine
from pipeline.engine.helpers import own_threads
from pipeline.engine.network import Compiled, sharing_by
from pipeline.engine.packs import Packs, readable
from pipeline.engine.recorded import Recorder
from pipeline.engine.space import Pool
from pipeline.engine.static import Static

__all__ = ["compiles_steps", "engine_in_use", "open_engine", "portions_of", "sentences_per_call", "shares_products",
           "sharing_by", "use_engine"]

_LIGHT = 2**25
"""The size of a model's parameters in bytes up to which a thread is faster with one sentence, or a few, than with a
portion of a batch (`python -m benchmarks.apart`)."""

_opened: "WeakKeyDictionary[nn.Module, dict[Engine, tuple[int, Any]]]" = WeakKeyDictionary()
"""Of each network, by the engine in use: the network's generation, and the opened one."""
_opening = RLock()
"""So that of several first searches one packs the parameters, and the others wait for it."""


def open_engine(model: Any) -> Any:
    """A model with the same methods, compiled or recorded where the engine can, and computed by torch elsewhere.

    It shares the network's parameters, whose packed copies are made once, and again when the network's parameters may
    have changed (`Openable.generation`).

    Args:
        model: of any kind.

    Returns:
        The model itself where nothing can be opened: it is not `Openable`, it is in training mode, its weights are on
        a device or have a type that the engine does not know, or `use_engine` has chosen torch.
    """
    own_threads()  # before torch counts the threads of a thread that begins during another one's search
    engine = engine_in_use()
    if engine == "torch" or isinstance(model, (Compiled, Static) if engine == "compiled" else Static):
        return model
    if hasattr(type(model), "with_opened"):
        return model.with_opened(open_engine)
    if not hasattr(type(model), "plain_weights") or model.training:
        return model
    with _opening:
        known = _opened.setdefault(model, {})
        generation, opened = known.get(engine, (None, None))
        if generation != model.generation:
            on_gpu = next(model.parameters()).is_cuda
            if engine == "compiled" and not on_gpu and not all(map(readable, model.parameters())):
                return model
            opened = _open_by(Static if engine == "static" or on_gpu else Compiled, model)
            known[engine] = model.generation, opened
    if "verifier" in model._modules:
        vars(opened)["verifier"] = open_engine(model.verifier)  # found before the submodule of that name
    return opened


def _open_by(opener: type, network: Any) -> Any:
    """A network with the same parameters and parts whose class begins with another."""
    opened = copy.copy(network)
    opened.__class__ = _opened_class(opener, _own_class(network))
    vars(opened).update({"pool": Pool(), "recorder": Recorder()} if opener is Static else {"packs": Packs(opened)})
    return opened


def _own_class(network: Any) -> type:
    """The class of a network, also of one that is open."""
    return type(network).__bases__[1] if isinstance(network, (Compiled, Static)) else type(network)


@lru_cache
def _opened_class(opener: type, network: type) -> type:
    return type(network.__name__, (opener, network), {"__doc__": network.__doc__})


def compiles_steps(model: Any) -> bool:
    """Whether compiled code takes the steps of a model: all of a quantised one, narrow ones of another."""
    return isinstance(model, Compiled) and engine_in_use() == "compiled" and model.packs.decoder is not None


def shares_products(model: Any) -> bool:
    """Whether the cores share the products of a model's compiled steps."""
    return isinstance(model, Compiled) and model.shares_products


def sentences_per_call(model: Any, source: Tensor, *, shares_calls: bool, reads_at_once: bool) -> int:
    """How many sentences of a batch are best searched per compiled call, in as many threads as PyTorch has.

    Args:
        model: opened; its search runs in compiled calls.
        source: (B, S) ids.
        shares_calls: whether a call can search several sentences.
        reads_at_once: whether it reads so many tokens of one sentence at once that a batch reads weights no less often.

    Returns:
        0 where it is faster to search the entire batch, or portions of it (`portions_of`).
    """
    if len(source) < 2 or not compiles_steps(model) or not (reads_at_once or model.packs.size <= _LIGHT):
        return 0
    return bounds.sentences_per_call(len(source)) if shares_calls else 1


def portions_of(model: Any, source: Tensor) -> int:
    """The number of portions of a batch (B, S) that are best searched at the same time, each by one thread.

    1 where threads that share the products of the entire batch are quicker, or torch computes them.
    """
    return model.portions(*source.shape) if compiles_steps(model) else 1
