"""Machine code is kept for one state of all files with compiled functions."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pipeline
from pipeline import machine_code

CALLED = "from numba import njit\n\n\n@njit(cache=True)\ndef called():\n    return {}\n"
CALLER = ("from numba import njit\n\nfrom toy.inner.called import called\n\n\n"
          "@njit(cache=True)\ndef caller():\n    return called()\n")


def test_a_folder_for_every_state(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "called.py").write_text(CALLED.format(1))
    (inner / "plain.py").write_text("x = 1\n")
    first = machine_code(tmp_path)
    (inner / "plain.py").write_text("x = 2\n")
    assert machine_code(tmp_path) == first
    (inner / "called.py").write_text(CALLED.format(2))
    assert machine_code(tmp_path) != first and first.parent == tmp_path / "__pycache__"


def test_a_change_of_a_called_function_is_seen(tmp_path: Path) -> None:
    """Which numba alone would not see: the caller's file is as it was."""
    inner = tmp_path / "toy" / "inner"
    inner.mkdir(parents=True)
    for package in (inner.parent, inner):
        (package / "__init__.py").write_text("")
    (inner / "caller.py").write_text(CALLER)

    def run() -> str:
        code = ("import os; from pathlib import Path; from pipeline import machine_code; "
                "os.environ['NUMBA_CACHE_DIR'] = str(machine_code(Path('toy'))); "
                "from toy.inner.caller import caller; print(caller())")
        paths = [str(tmp_path), str(Path(pipeline.__file__).parents[1])]
        # Python's own cache, which -B turns off, does not see a change within a second that leaves a file as long.
        done = subprocess.run([sys.executable, "-B", "-c", code], cwd=tmp_path, capture_output=True, text=True,
                              check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        return done.stdout.strip()

    for value in ("1", "2"):
        (inner / "called.py").write_text(CALLED.format(value))
        assert run() == value


def test_somebody_elses_choice_stands() -> None:
    code = "import os, pipeline; print(os.environ['NUMBA_CACHE_DIR'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "NUMBA_CACHE_DIR": "elsewhere"})
    assert done.stdout.strip() == "elsewhere"


def test_vectors_are_as_wide_as_the_processors_unless_somebody_chose() -> None:
    code = ("from numba.core import config; import pipeline.compiled, llvmlite.binding as llvm; "
            "print(config.CPU_NAME == llvm.get_host_cpu_name(), '-prefer-256-bit' in (config.CPU_FEATURES or ''), "
            "config.CPU_NAME)")

    def run(**chosen: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, **chosen})
        return done.stdout.split()

    assert run(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")[1:] == ["False", "generic"]
    if platform.machine() == "x86_64":
        assert run()[:2] == ["True", "True"]
