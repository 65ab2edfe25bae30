"""Plain files and TSV: alignment, line ends, compression and everything that can be wrong with a file."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import read_aligned, read_lines
from pipeline.sources.build import read_splits
from pipeline.sources.readers.tsv import read_columns
from pipeline.sources.settings import CorpusSettings


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"]))),
       end=st.sampled_from(["\n", "\r\n"]), compressed=st.booleans())
def test_only_line_feeds_end_a_line(tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str,
                                    compressed: bool) -> None:
    path = tmp_path_factory.mktemp("text") / ("text.gz" if compressed else "text")
    content = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert list(read_lines(path)) == lines


def test_a_byte_order_mark_and_a_missing_last_line_feed_are_harmless(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbffirst\nlast")
    assert list(read_lines(tmp_path / "text")) == ["first", "last"]


@pytest.mark.parametrize("left, right", [("a\nb\nc\n", "x\n"), ("a\n", "x\ny\nz\n"), ("", "x\n")])
def test_unequal_line_counts_name_both_files_and_counts(tmp_path: Path, left: str, right: str) -> None:
    (tmp_path / "t.en").write_text(left, encoding="utf-8")
    (tmp_path / "t.de").write_text(right, encoding="utf-8")
    expected = rf"t\.en has {left.count(chr(10))} lines but .*t\.de has {right.count(chr(10))}"
    with pytest.raises(PipelineError, match=expected):
        list(read_aligned(tmp_path / "t.en", tmp_path / "t.de"))


def test_blank_lines_count_as_lines(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_bytes(b"a\n\nb\n")
    (tmp_path / "t.de").write_bytes(b"x\ny\n\n")
    assert list(read_aligned(tmp_path / "t.en", tmp_path / "t.de")) == [("a", "x"), ("", "y"), ("b", "")]


def test_invalid_utf8_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_bytes(b"fine\nstill fine\nbad \xff here\n")
    with pytest.raises(PipelineError, match=r"t\.en:3: invalid UTF-8 at byte 5"):
        list(read_lines(tmp_path / "t.en"))


def test_unreadable_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="absent: cannot be read: No such file or directory; check the path"):
        list(read_lines(tmp_path / "absent"))
    with pytest.raises(PipelineError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))
    (tmp_path / "plain.gz").write_bytes(b"not compressed\n")
    with pytest.raises(PipelineError, match=r"plain\.gz: cannot be decompressed"):
        list(read_lines(tmp_path / "plain.gz"))
    content = gzip.compress(bytes(range(256)).hex().encode() + b"\n")
    (tmp_path / "cut.gz").write_bytes(content[:-20])
    with pytest.raises(PipelineError, match=r"cut\.gz: cannot be decompressed"):
        list(read_lines(tmp_path / "cut.gz"))


def test_tsv_is_read_a_file_a_split(tmp_path: Path) -> None:
    for split in SPLITS:
        (tmp_path / split).write_text(f"{split} source\t{split} target\n", encoding="utf-8")
    block = {split: str(tmp_path / split) for split in SPLITS}
    splits = read_splits(build(CorpusSettings, {"source": "tsv", "tsv": block}, "corpus"))
    assert {split: list(splits[split]) for split in SPLITS} == {
        split: [(f"{split} source", f"{split} target")] for split in SPLITS}


@pytest.mark.parametrize("line, columns", [("no tab", 1), ("", 1), ("a\tb\tc", 3)])
def test_a_line_without_exactly_two_columns_is_named(tmp_path: Path, line: str, columns: int) -> None:
    (tmp_path / "t.tsv").write_text(f"fine\tgut\n{line}\n", encoding="utf-8")
    with pytest.raises(PipelineError, match=rf"t\.tsv:2: {columns} column"):
        list(read_columns(tmp_path / "t.tsv"))
