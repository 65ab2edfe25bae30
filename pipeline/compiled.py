"""numba's `njit` for all compiled functions of this package, with the processor's widest vectors.

LLVM prefers vectors of 256 bits on processors that have 512, because earlier ones slowed down under the wider ones.
Most of what is compiled here are products of small matrices, which gain from them.
"""

import llvmlite.binding as llvm
from numba import njit
from numba.core import config

__all__ = ["njit"]

if getattr(config, "CPU_NAME", None) is None and "x86_64" in llvm.get_process_triple():  # not set by the user
    config.CPU_NAME = llvm.get_host_cpu_name()  # type: ignore[attr-defined]
    config.CPU_FEATURES = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"  # type: ignore[attr-defined]
