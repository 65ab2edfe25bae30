"""What speed depends on besides the code: the machine and the versions, as a file among the `speed` stage's deps.

DVC restores the outputs of a stage whose deps it has seen before; a time measured on other hardware is no output of
this one, so the hardware is a dep.
"""

import os
import platform
from pathlib import Path
from typing import Any

from pipeline.files import read_json, write_json


def describe_machine() -> dict[str, Any]:
    """Processor, accelerators and versions, without anything that names a person or a host."""
    import numpy
    import torch

    return {
        "processor": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads(),
        "accelerators": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())],
        "system": platform.system(), "python": platform.python_version(), "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def write_machine(path: Path) -> None:
    """Write the description if it differs from what is there, so that an unchanged machine changes no file."""
    now = describe_machine()
    if not path.exists() or read_json(path) != now:
        write_json(path, now)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
