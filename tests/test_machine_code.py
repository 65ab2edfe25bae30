"""Machine code is kept for one state of all files with compiled functions, for all copies of that state."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline
from pipeline.compiled import forget_old, machine_code, prepare

COMPILED = Path(pipeline.__file__).parent / "compiled.py"
CALLED = "from pipeline.compiled import njit\n\n\n@njit(cache=True)\ndef called():\n    return {}\n"
CALLER = ("from pipeline.compiled import njit\nfrom pipeline.inner.deep.called import called\n\n\n"
          "@njit(cache=True)\ndef caller():\n    return called()\n")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
RUN = "from pipeline.inner.caller import caller; print(caller(), sum(caller.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with our `njit`, two files with compiled functions, and one that neither imports."""
    folder = tmp_path / "first" / "pipeline"
    (folder / "inner/deep").mkdir(parents=True)
    for one in (folder, folder / "inner", folder / "inner/deep"):
        (one / "__init__.py").write_text("")
    shutil.copy(COMPILED, folder)
    (folder / "inner/deep/called.py").write_text(CALLED.format(1))
    (folder / "inner/caller.py").write_text(CALLER)
    (folder / "plain.py").write_text("x = 1\n")
    return folder


def run(package: Path, code: str = RUN, **environment: str) -> list[str]:
    # Python's own cache, which -B turns off, does not see a change within a second that leaves a file as long.
    done = subprocess.run([sys.executable, "-B", "-c", code], cwd=package.parent, capture_output=True, text=True,
                          check=True, env={**ENVIRONMENT, "XDG_CACHE_HOME": str(package.parents[1] / "cache"),
                                           "PYTHONPATH": str(package.parent), **environment})
    return done.stdout.split()


def test_a_change_of_a_called_function_is_seen_and_a_copy_shares_what_is_compiled(package: Path) -> None:
    """numba alone would not see the change, because the caller's file is as it was, nor know the copy."""
    assert run(package) == ["1", "0"]
    copied = package.parents[1] / "second" / "pipeline"
    shutil.copytree(package, copied)
    assert run(copied) == ["1", "1"]
    (package / "inner/deep/called.py").write_text(CALLED.format(2))
    assert run(package) == ["2", "0"]
    elsewhere = package.parents[1] / "elsewhere"
    assert run(package, NUMBA_CACHE_DIR=str(elsewhere)) == ["2", "0"] and list(elsewhere.glob("numba-*"))


def test_a_folder_that_cannot_be_made_costs_compiling_and_nothing_else(package: Path) -> None:
    (package.parents[1] / "cache").write_text("a file\n")
    own = package.parents[1] / "temporary"
    own.mkdir()
    assert run(package, TMPDIR=str(own)) == ["1", "0"]
    (package / "inner/deep/called.py").write_text(CALLED.format(2))
    assert run(package, TMPDIR=str(own)) == ["2", "0"]  # beside the caller's file it would be 1
    assert list(own.iterdir()) == []


def test_machine_code_that_cannot_be_written_costs_compiling_and_nothing_else(package: Path) -> None:
    full = ("import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); ")
    for _ in range(2):
        assert run(package, full + RUN) == ["1", "0"]
    assert [run(package) for _ in range(2)] == [["1", "0"], ["1", "1"]]


def test_a_folder_for_every_state(package: Path) -> None:
    """Also of constants that compiled functions read: numba keeps their values in machine code."""
    states = [machine_code(package)]
    (package / "plain.py").write_text("x = 2\n")
    assert machine_code(package) == states[0]
    for name, text in {"inner/deep/called.py": CALLED.format(2), "inner/constants.py": "x = 1\n",
                       "inner/caller.py": "from pipeline.plain import x\n" + CALLER, "plain.py": "x = 3\n"}.items():
        (package / name).write_text(text)
        states.append(machine_code(package))
    (package / "inner/deep/called.py").rename(package / "inner/called.py")
    states.append(machine_code(package))
    assert len(set(states)) == len(states) and len({state.parent for state in states}) == 1


def test_the_machine_code_of_old_states_is_removed(tmp_path: Path) -> None:
    folders, others = [tmp_path / f"numba-{number:016x}" for number in range(6)], tmp_path / "numba-notes"
    for age, folder in enumerate([*folders, others]):
        folder.mkdir()
        os.utime(folder, (1e9 - age, 1e9 - age))
    assert prepare(folders[5]) == folders[5]  # which is the last to be used now
    assert len(list(tmp_path.iterdir())) == 7  # nothing is new
    forget_old(tmp_path / f"numba-{6:016x}")
    assert sorted(tmp_path.iterdir()) == [*folders[:2], folders[5], others]
    forget_old(tmp_path / "nowhere" / "numba-new")


def test_vectors_are_as_wide_as_the_processors_unless_somebody_chose(tmp_path: Path) -> None:
    code = ("from numba.core import config; import pipeline.compiled, llvmlite.binding as llvm; "
            "print(config.CPU_NAME == llvm.get_host_cpu_name(), '-prefer-256-bit' in (config.CPU_FEATURES or ''), "
            "config.CPU_NAME)")
    root, cache = Path(pipeline.__file__).parent, {"XDG_CACHE_HOME": str(tmp_path)}
    assert run(root, code, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="", **cache)[1:] == ["False", "generic"]
    assert run(root, code, NUMBA_CPU_FEATURES="", **cache)[1:] == ["False", "None"]
    if platform.machine() == "x86_64":
        assert run(root, code, **cache)[:2] == ["True", "True"]
