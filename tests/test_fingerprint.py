"""A change of the code that computes is seen by whoever goes on with what older code has begun."""

from pathlib import Path

import pytest

from pipeline.fingerprint import code_digest, digest, digest_files, file_digests


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in ("decoding/beam.py", "engine/deep/er.py", "vocabulary.py", "distillation.py", "commands/distill.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


@pytest.mark.parametrize(("file", "seen"), [
    ("decoding/beam.py", True), ("decoding/new.py", True), ("engine/deep/er.py", True), ("vocabulary.py", True),
    ("distillation.py", True), ("commands/distill.py", False), ("decoding/notes.txt", False)])
def test_code_that_computes_is_in_the_digest(package: Path, file: str, seen: bool) -> None:
    before = code_digest("distillation.py", package=package)
    assert code_digest("distillation.py", package=package) == before
    (package / file).write_text("x = 2\n")
    assert (code_digest("distillation.py", package=package) != before) == seen


def test_files_that_change_places_are_seen(package: Path) -> None:
    before = code_digest(package=package)
    (package / "decoding/beam.py").rename(package / "decoding/other.py")
    assert code_digest(package=package) != before


def test_parts_are_told_apart() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


def test_files_have_the_digest_of_their_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.fingerprint._PIECE", 3)
    contents = [b"seven b", b"", b"abc"]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)
    assert digest_files(tmp_path / str(number) for number in range(3)) == digest(*contents)


def test_digests_of_files_are_of_what_is_imported_and_within() -> None:
    found = file_digests(["pipeline.checksums"], ("pipeline.files", "pipeline.err"))
    assert list(found) == ["pipeline.files"] and len(found["pipeline.files"]) == 64
