"""How much memory something keeps alive, counted and not measured."""

import gc
from types import FunctionType, ModuleType

import numpy as np
from torch import Tensor, nn


def held_bytes(found: object) -> int:
    """Bytes of all arrays and tensors that something keeps alive, but for networks and what belongs to one."""
    seen: set[int] = set()
    memory: dict[int, int] = {}
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, (nn.Module, type, ModuleType)):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            memory[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        elif isinstance(one, np.ndarray) and one.base is None:
            memory[one.ctypes.data] = one.nbytes
        if isinstance(one, FunctionType):  # what it remembers, not the module that it stands in
            waiting += [cell.cell_contents for cell in one.__closure__ or ()]
        else:
            waiting += gc.get_referents(one)
    return sum(memory.values())
