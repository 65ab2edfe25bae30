"""Compiled functions that are called by their address: compiled once, found by every process, with errors passed on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import typeof
from numba.core.errors import TypingError

from pipeline.compiled import njit
from pipeline.engine import by_address as module
from pipeline.engine.by_address import by_address

_IMPORT = "from pipeline.compiled import njit\n"
FILES = {"called": f"{_IMPORT}from pipeline.engine.by_address import by_address\n\n\n@by_address\n@njit(cache=True)\n"
                   "def called(x):\n    return x[0] + 1\n",
         "caller": f"{_IMPORT}from called import called\n\n\n@njit(cache=True)\ndef caller(x):\n"
                   "    return 2 * called(x)\n"}
RUN = ("import numpy as np; from caller import caller; from called import called; x = np.ones(1)\n"
       "print(caller(x), sum(caller.stats.cache_hits.values()), sum(called.stats.cache_hits.values()))")


@by_address
@njit(nogil=True)
def shifted(x: Any, by: int) -> Any:
    if by > 5:
        raise IndexError("too far")
    x[0] += by
    return x.sum()


@njit(nogil=True)
def twice(x: Any) -> Any:
    total = 0.0
    for by in range(2):
        total += shifted(x, by)
    return total


@njit(nogil=True)
def far(x: Any) -> Any:
    return shifted(x, len(x))


@pytest.mark.parametrize("call", [shifted, shifted.py_func], ids=["compiled", "in Python"])
def test_called_from_python(call: Callable[..., Any]) -> None:
    x = np.ones(3)
    assert call(x, 2) == 5 and x[0] == 3 and shifted.__name__ == "shifted"


def test_all_callers_share_what_is_compiled_for_their_types() -> None:
    for number in (np.float32, np.float64):
        assert twice(np.ones(3, number)) == 3 + 4 and far(np.ones(2, number)) == 4
    assert len(shifted.overloads) == 2


def test_errors_reach_the_caller_of_the_caller() -> None:
    with pytest.raises(IndexError, match="too far"):
        far(np.ones(6))


def test_names_are_refused_when_the_caller_is_compiled() -> None:
    @njit()
    def named(x: Any) -> Any:
        return shifted(x, by=1)

    with pytest.raises(TypingError, match="called by address: give by by position"):
        named(np.ones(1))


@by_address
@njit()
def ignored(x: Any) -> int:
    return 1


class Pair(NamedTuple):
    x: Any
    by: int


@pytest.mark.parametrize("value", [
    1, 1.5, True, np.float32(1), np.ones(1, np.float32), np.ones((1, 2, 3), np.bool_)[:, ::2], np.ones(2, np.uint8),
    Pair(np.ones(1, np.int8), 2), Pair(Pair(1, 2), 3), np.broadcast_to(1.0, 3)])
def test_types_are_written_and_read(value: Any) -> None:
    kind = typeof(value)
    assert module._kind(json.loads(json.dumps(module._described(kind)))) == kind


def test_other_types_are_refused_when_the_caller_is_compiled() -> None:
    @njit()
    def plain(x: Any) -> Any:
        return ignored((x, 1))

    with pytest.raises(TypingError, match="is no number, array or named tuple"):
        plain(np.ones(1))


def test_one_that_cannot_be_found_is_an_error(monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    """Its cause is printed: the error of a function that Python calls for compiled code has nowhere else to go."""
    @njit(nogil=True)  # which comes by other memory than it would with the lock
    def lost(x: Any) -> Any:
        return shifted(x, 1)

    lost.compile("(float64[::1],)")
    monkeypatch.setattr(module, "_dispatchers", {})
    with pytest.raises(RuntimeError, match=r"shifted was not found; the cause is printed above"):
        lost(np.ones(1))
    assert "KeyError" in capsys.readouterr().err
    monkeypatch.undo()
    assert lost(np.ones(1)) == 2  # asked again


def test_machine_code_from_the_disk_finds_it(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                   "PYTHONPATH": os.pathsep.join((str(tmp_path), str(Path(module.__file__).parents[2])))}
    for hits in (["0", "0"], ["1", "1"]):
        done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, env=environment, capture_output=True,
                              text=True, check=True)
        assert done.stdout.split() == ["4.0", *hits]
