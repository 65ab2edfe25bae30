"""Files are whole or absent, and what cannot be written or read is one line."""

import errno
import os
from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.files import atomic_path, read_json, remove, write_json, write_text


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
