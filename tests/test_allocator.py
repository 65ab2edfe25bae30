"""Memory that a training frees is not fetched from the system again at its next step."""

import platform
import subprocess
import sys
from argparse import Namespace

import pytest

from pipeline.commands import fit
from pipeline.errors import PipelineError

BLOCKS, MEGABYTES, TIMES = 6, 16, 20
_FILL = f"""
import ctypes, resource, sys
import pipeline.allocator
if sys.argv[1] == "keep":
    pipeline.allocator.keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def once():
    blocks = [library.malloc({MEGABYTES} << 20) for _ in range({BLOCKS})]
    for block in blocks:
        ctypes.memset(block, 1, {MEGABYTES} << 20)
    for block in blocks:
        library.free(block)
once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TIMES}):
    once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_what_is_freed_is_used_again() -> None:
    found = {way: int(subprocess.run([sys.executable, "-c", _FILL, way], check=True, capture_output=True).stdout)
             for way in ("keep", "return")}
    assert found["return"] > 10 * found["keep"]


def test_a_training_keeps_memory_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[str]()

    def stop() -> None:
        calls.append("read")
        raise PipelineError("params.yaml")

    monkeypatch.setattr(fit, "keep_freed_memory", lambda: calls.append("kept"))
    monkeypatch.setattr(fit, "load_params", stop)
    with pytest.raises(PipelineError):
        fit.run(Namespace(), [])
    assert calls == ["kept", "read"]
