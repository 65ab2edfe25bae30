"""A description of the machine and the versions of its software, on which speed depends as well as on the code.

DVC restores the outputs of a stage whose dependencies it has seen before, and trusts a committed lock. A time that was
measured on another machine is not an output of this one, so the machine is a dependency of every stage that times
something.
"""

import hashlib
import os
import platform
import secrets
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.cores import usable_cores
from pipeline.errors import PipelineError
from pipeline.files import write_text

_IDENTITY = "fast-nmt-decoding/machine"
"""In the user's state folder: a random number, drawn when the project first runs on a machine."""
_SAME_ON_EVERY_BOOT = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags")
"""Fields of /proc/cpuinfo that do not change, unlike the clock frequencies."""
_INSTRUCTIONS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni")
"""Those of vectors for which the engine has code of its own, as /proc/cpuinfo names them."""


def describe_machine() -> dict[str, Any]:
    """Processor, accelerators, versions and an identity, without anything that names a person or a host."""
    return {
        "identity": _identity(), "processor": _processor(), "instructions": _instructions(), "cores": usable_cores(),
        "memory_gib": _memory(),
        "accelerators": _accelerators(), "system": platform.system(), "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("torch", "numpy")},
    }


def _identity() -> str:
    """Sixteen hexadecimal digits that another machine does not share, even if its processor has the same name.

    They are a digest, which reveals nothing about its inputs: the operating system's machine id, the hardware address
    of the network, the processor's details, and a random number that is drawn once. None of these changes when the
    machine boots. Copies of one system image may agree in all of them except the last.
    """
    facts = [_text("/etc/machine-id"), f"{uuid.getnode():x}", platform.machine(), *_processor_details(), _drawn_once()]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def _drawn_once() -> str:
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / _IDENTITY
    try:
        if not path.exists():
            write_text(path, secrets.token_hex(16) + "\n")
        return path.read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError, PipelineError):  # no writable home: the other facts must suffice
        return ""


def _processor() -> str:
    names = [line.split(":", 1)[1].strip() for line in _processor_details() if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _instructions() -> list[str]:
    """Of `_INSTRUCTIONS`, those that the processor has. Its name may not tell: clouds call several of them AMD EPYC."""
    flags = {flag for line in _processor_details() if line.startswith("flags") for flag in line.split()}
    return [name for name in _INSTRUCTIONS if name in flags]


def _processor_details() -> list[str]:
    """The lines about the first processor in /proc/cpuinfo that do not change; none where there is no such file."""
    first = _text("/proc/cpuinfo").split("\n\n")[0].splitlines()
    return [line for line in first if line.split("\t")[0].strip() in _SAME_ON_EVERY_BOOT]


def _memory() -> int | None:
    """The machine's memory in GiB, rounded; None where it is not known."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):
        return None


def _accelerators() -> list[str]:
    """Their names. PyTorch takes a second to import, so it is asked only where there may be an accelerator."""
    if platform.system() != "Darwin" and not any(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/kfd").exists():
        return []
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
