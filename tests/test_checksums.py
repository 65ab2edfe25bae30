"""Files whose bytes have changed since they were written are named and not used."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import layout
from pipeline.checksums import SUMS, check, check_folder, is_recorded, record, summed_folder
from pipeline.corpus.pairs import Pairs
from pipeline.errors import PipelineError
from pipeline.evaluation.quality import HypothesisLine, read_hypotheses, write_hypotheses
from pipeline.model.checkpoint import CONFIG, WEIGHTS, load_checkpoint, read_weights


def flip(path: Path, place: int = -1) -> None:
    """Flip a bit, and leave size and time as they were: what a disk does."""
    found, content = path.stat(), bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with summed_folder(tmp_path / "made") as folder:
        (folder / "a b").write_text("one")
        (folder / "within").mkdir()
        (folder / "within/c").write_text("two")
    return tmp_path / "made"


def test_sha256sum_reads_the_digests(made: Path) -> None:
    assert subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=made, check=False).returncode == 0
    assert (made / SUMS).read_text().count("\n") == 2


@pytest.mark.parametrize("name", ["a b", "within/c"])
def test_a_changed_file_is_named(made: Path, name: str) -> None:
    check_folder(made)
    flip(made / name)
    os.utime(made / name)  # a process trusts what it has read itself
    with pytest.raises(PipelineError, match=rf"{name}: damaged: its SHA-256 is not the one in {SUMS}; remove .*{name}"):
        check_folder(made)


def test_a_flipped_bit_in_any_byte_of_the_digests_is_noticed(made: Path) -> None:
    content = (made / SUMS).read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        (made / SUMS).write_bytes(changed)
        with pytest.raises(PipelineError):
            check_folder(made)


def test_a_folder_without_files_is_whole_and_a_truncated_list_is_not(made: Path) -> None:
    with summed_folder(made.with_name("empty")):
        pass
    check_folder(made.with_name("empty"))
    (made / SUMS).write_bytes(b"")
    with pytest.raises(PipelineError, match="damaged: a line is not a digest and a name"):
        check_folder(made)


def test_other_files_keep_their_digests(made: Path) -> None:
    """Also wrong ones: only what was written is described anew."""
    flip(made / "a b")
    (made / "d").write_text("three")
    assert not is_recorded(made / "d")
    record(made, ["d"])
    assert is_recorded(made / "d")
    check(made / "d")
    with pytest.raises(PipelineError, match="a b: damaged"):
        check(made / "a b")
    (made / "a b").unlink()
    record(made, ["d"])
    assert not is_recorded(made / "a b") and "a b" not in (made / SUMS).read_text()


def test_what_has_no_digest_is_not_checked(made: Path) -> None:
    (made / "d").write_text("three")
    check(made / "d")
    (made / SUMS).unlink()
    flip(made / "a b")
    check(made / "a b")
    check(made / "absent")


READERS: dict[str, Callable[[Path], object]] = {
    "data/corpus/test.target": layout.read_corpus,
    "data/bpe/train.pairs": Pairs.open,
    f"checkpoints/teacher/{WEIGHTS}": read_weights,
    f"checkpoints/teacher/{CONFIG}": lambda path: load_checkpoint(path.parent),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_checks(workspace: Path, name: str) -> None:
    path = Path(name)
    record(path.parent, [path.name])
    size = path.stat().st_size
    # Of the configuration a digit, of others the last byte: each gives a file that could be read.
    place = path.read_bytes().index(b'"max_length": 64') + 15 if path.name == CONFIG else size - 1
    flip(path, place)
    with pytest.raises(PipelineError, match=rf"^{name}: damaged: its SHA-256"):
        READERS[name](path)


def test_a_worker_does_not_read_again_what_its_parent_has_checked(workspace: Path) -> None:
    record(layout.BPE, ["train.pairs"])
    pairs = Pairs.open(layout.BPE / "train.pairs")
    reopen, arguments = pairs.__reduce__()
    flip(pairs.path)
    os.utime(pairs.path)
    reopen(*arguments)


def test_hypotheses_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "greedy.jsonl"
    write_hypotheses(path, [HypothesisLine(0, "a moth", 2, 3, True)], [0])
    record(tmp_path, [path.name])
    flip(path, path.read_bytes().index(b"moth"))
    with pytest.raises(PipelineError, match=r"greedy\.jsonl: damaged: its SHA-256"):
        read_hypotheses(path, 1)
