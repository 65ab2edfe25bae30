"""Files are whole or absent, one run at a time writes them, and what cannot be written or read is one line."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline
from pipeline import files, layout
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, locked, read_json, remove, reserve, write_json, write_text

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1])}


def write_folder(path: Path, name: str) -> None:
    with atomic_path(path) as aside:
        aside.mkdir()
        (aside / name).write_text(name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed(code: str, *arguments: object) -> int:
    """Run code that ends by killing itself, and return the process id that it had."""
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=ENVIRONMENT)
    assert process.wait(60) == -signal.SIGKILL
    return process.pid


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep/er/text.txt"
    with atomic_path(path) as aside:
        aside.write_text("half")
        assert not path.exists()
        aside.write_text("whole")
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_replaces_a_folder_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("a file of an earlier version")
    for name in ("first", "second"):
        with atomic_path(path) as aside:
            aside.mkdir()
            (aside / name).write_text(name)
        assert [inner.name for inner in path.iterdir()] == [name]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_what_was(tmp_path: Path, error: type[BaseException], folder: bool) -> None:
    path = tmp_path / "out"
    path.mkdir() if folder else path.write_text("old")
    with pytest.raises(error), atomic_path(path) as aside:
        aside.mkdir() if folder else aside.write_text("new")
        raise error
    assert list(tmp_path.iterdir()) == [path]
    assert folder or path.read_text() == "old"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_a_full_disk_is_one_line(tmp_path: Path, code: int) -> None:
    path = tmp_path / "out.txt"
    with pytest.raises(PipelineError, match=f"out.txt: cannot be written: {os.strerror(code)}") as caught, \
            atomic_path(path) as aside:
        aside.write_text("half")
        raise OSError(code, os.strerror(code))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_lock_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", is_full)
    with pytest.raises(PipelineError, match=r"made: cannot be locked: No space left on device; .* the free space"), \
            locked(tmp_path / "made"):
        pass
    assert not list(tmp_path.iterdir())


def test_the_line_names_what_is_written_and_no_hidden_folder(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=f"^{tmp_path}/made/out.txt: cannot be written"), \
            atomic_path(tmp_path / "made") as aside, atomic_path(aside / "out.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_reserved_file_has_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing into a map of a file that has none would kill the process."""
    with open(tmp_path / "file", "w+b") as file:
        reserve(file, 100_000, tmp_path)
        found = os.fstat(file.fileno())
        assert found.st_size == 100_000 <= 512 * found.st_blocks

        def is_full(*_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "posix_fallocate", is_full)
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
            reserve(file, 200_000, tmp_path)


def test_other_errors_of_the_system_are_bugs(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="pipe") as caught, atomic_path(tmp_path / "out.txt"):
        raise BrokenPipeError(errno.EPIPE, "pipe")
    assert not isinstance(caught.value, PipelineError)


@pytest.mark.parametrize("place", ["a file/out.txt", "a folder", "n" * 300])
def test_places_where_no_file_can_be(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("x")
    (tmp_path / "a folder/full").mkdir(parents=True)
    with pytest.raises(PipelineError, match="cannot be written"):
        write_text(tmp_path / place, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a file", "a folder"]


@pytest.mark.parametrize("path", [Path(), Path(".."), Path("/")])
def test_what_is_no_entry_of_a_folder(path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be written: it names a folder from within"):
        write_text(path, "text")


KILL_BETWEEN = """
import os, signal, sys
from pathlib import Path
from pipeline import files
moment, path = sys.argv[1], Path(sys.argv[2])
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if moment == "flush":
    files._flush = kill
else:
    os.replace = kill
with files.atomic_path(path) as aside:
    aside.mkdir()
    (aside / "new").write_text("new")
"""


def test_a_folder_stays_until_the_new_one_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every removal and rename, one of both is there, whole."""
    path = tmp_path / "out"
    write_folder(path, "old")
    seen: list[list[str]] = []

    def watch(module: object, name: str) -> None:
        original = getattr(module, name)

        def watched(*arguments: object) -> object:
            seen.append(sorted(inner.name for inner in tmp_path.rglob("*") if inner.is_file()))
            return original(*arguments)

        monkeypatch.setattr(module, name, watched)

    watch(os, "replace")
    watch(files.shutil, "rmtree")
    write_folder(path, "new")
    assert seen == [["new", "old"]] * 2
    assert names(tmp_path) == ["out"] and names(path) == ["new"]


@pytest.mark.parametrize("moment", ["flush", "replace"])
def test_what_a_killed_write_leaves_is_cleared_up_by_the_next_one(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "out"
    write_folder(path, "old")
    killed(KILL_BETWEEN, moment, path)
    assert path.exists() == (moment == "flush")
    with pytest.raises(RuntimeError), atomic_path(path):
        assert names(path) == ["old"]  # also where a killed run had renamed it
        assert names(tmp_path) == ["out"]
        raise RuntimeError
    assert names(path) == ["old"] and names(tmp_path) == ["out"]
    killed(KILL_BETWEEN, moment, path)
    write_folder(path, "newer")
    assert names(path) == ["newer"] and names(tmp_path) == ["out"]


def test_nobody_clears_up_what_may_still_be_written(tmp_path: Path) -> None:
    """What processes that live, other hosts and writes to other paths have beside a path stays."""
    dead = killed("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    others = [f".out.{os.getppid()}-0@{files._HOST}.aside", f".out.{dead}-0@00000000.aside",
              f".out.txt.{dead}-0@{files._HOST}.aside", f".out.{dead}.aside", ".out.notes"]
    for name in [*others, f".out.{dead}-7@{files._HOST}.aside", f".out.{dead}-8@{files._HOST}.old.aside"]:
        (tmp_path / name).write_text("half")
    write_text(tmp_path / "out", "text")
    assert names(tmp_path) == sorted(["out", *others])


def test_two_writes_of_one_process_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with atomic_path(path) as first, atomic_path(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first" and names(tmp_path) == ["out"]


def test_a_folder_is_flushed_with_all_that_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    synchronise = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        synchronise(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_path(tmp_path / "out") as aside:
        (aside / "inner").mkdir(parents=True)
        (aside / "inner/file").write_text("text")
    assert flushed == [f"{aside}/inner/file", f"{aside}/inner", str(aside), str(tmp_path)]
    del flushed[:]
    write_text(tmp_path / "text", "text")
    assert [Path(path).suffix for path in flushed] == [".aside", ""] and flushed[1] == str(tmp_path)


def test_one_run_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "new/out"
    with locked(path):
        busy = rf"^{re.escape(str(path))}: another run \(process {os.getpid()} on .+\) is writing it; wait until it has"
        with pytest.raises(PipelineError, match=busy), locked(path):
            pass
        with locked(tmp_path / "new/other"):
            pass
    with pytest.raises(RuntimeError), locked(path):
        raise RuntimeError
    with locked(path):
        pass
    assert not names(path.parent)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "out"
    code = ("import os, signal, sys; from pathlib import Path; from pipeline.files import locked\n"
            "with locked(Path(sys.argv[1])):\n    print('locked', flush=True)\n    signal.pause()")
    with subprocess.Popen([sys.executable, "-c", code, path], env=ENVIRONMENT, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == b"locked\n"
            with pytest.raises(PipelineError, match=rf"another run \(process {other.pid} on "), locked(path):
                pass
        finally:
            other.kill()
    with locked(path):
        pass
    assert not names(tmp_path)


@pytest.mark.parametrize("rank", ["RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID"])
def test_the_first_process_of_a_run_has_the_lock_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                         rank: str) -> None:
    with locked(tmp_path / "out"):
        monkeypatch.setenv(rank, "1")
        with locked(tmp_path / "out"):
            pass
        monkeypatch.setenv(rank, "0")
        with pytest.raises(PipelineError, match="another run"), locked(tmp_path / "out"):
            pass


def test_where_no_lock_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(PipelineError, match=r"file/out: cannot be locked: .*; check the folder's permissions"), \
            locked(tmp_path / "file/out"):
        pass


def test_equal_json_is_equal_bytes(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None], "a": "grün\u2028"}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value
    first = (tmp_path / "value.json").read_bytes()
    write_json(tmp_path / "value.json", value)
    assert (tmp_path / "value.json").read_bytes() == first
    assert first.endswith(b"}\n") and "grün".encode() in first


def test_no_json(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"absent.json: not found; run `dvc repro`"):
        read_json(tmp_path / "absent.json")
    for content in (b"{", b"\xff", b""):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(PipelineError, match=r"bad.json: not valid JSON"):
            read_json(tmp_path / "bad.json")


def test_remove_takes_whatever_is_there(tmp_path: Path) -> None:
    (tmp_path / "folder/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder/inner").exists()  # not through the link
    remove(tmp_path / "folder")
    remove(tmp_path / "absent")
    assert not list(tmp_path.iterdir())


def test_only_line_feeds_end_the_lines_of_a_corpus(tmp_path: Path) -> None:
    lines = ["one\rtwo\r", "three\u2028four\x0c", ""]
    (tmp_path / "train.source").write_bytes("".join(line + "\n" for line in lines).encode())
    assert layout.read_corpus(tmp_path / "train.source") == lines
