"""The number of processor cores."""

import os
from contextlib import suppress
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container: microseconds of processor time per period, or `max`, and the period."""


def usable_cores() -> int:
    """The number of cores that this process may use, or that its container's quota of time is worth, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or no quota
        quota, period = map(int, _QUOTA.read_text(encoding="ascii").split())
        cores = min(cores, -(-quota // period))
    return cores
