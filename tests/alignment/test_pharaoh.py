"""Pharaoh files: what is written is read again, and what is no link is named."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.pharaoh import read_pharaoh
from pipeline.alignment import pharaoh
from pipeline.alignment.links import Links
from pipeline.alignment.pharaoh import write_pharaoh
from pipeline.errors import PipelineError

position = st.integers(0, 32_767)


def pack(pairs: list[list[tuple[int, int]]]) -> Links:
    flat = [link for pair in pairs for link in pair]
    return Links(np.cumsum([0, *map(len, pairs)], dtype=np.int64), np.array([s for s, _ in flat], np.int32),
                 np.array([t for _, t in flat], np.int32))


@settings(max_examples=40)
@given(st.lists(st.lists(st.tuples(position, position), max_size=6), max_size=9), st.integers(1, 4))
def test_links_survive_the_file(tmp_path_factory: pytest.TempPathFactory, pairs: list[list[tuple[int, int]]],
                                chunk: int) -> None:
    path = tmp_path_factory.mktemp("links") / "out.align"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pharaoh, "_CHUNK", chunk)
        write_pharaoh(path, [pack(pairs)])
    assert path.read_text() == "".join(" ".join(f"{s}-{t}" for s, t in pair) + "\n" for pair in pairs)
    for mine, theirs in zip(read_pharaoh(path), pack(pairs), strict=True):
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def test_loose_spaces_and_a_missing_line_feed(tmp_path: Path) -> None:
    (tmp_path / "loose").write_bytes(b"  0-1\t 2-3 \r\n\n4-5")
    links = read_pharaoh(tmp_path / "loose")
    assert links.offsets.tolist() == [0, 2, 2, 3]
    assert links.source.tolist() == [0, 2, 4] and links.target.tolist() == [1, 3, 5]


@pytest.mark.parametrize(("line", "message"), [
    (b"1-2 3", "line 2: '3' is not a link; write SOURCE-TARGET"), (b"1-2 a-b", "line 2: 'a-b' is not a link"),
    (b"0-0 -1-2", "line 2: '-1-2' is not a link"), (b"1-2-3", "line 2: '1-2-3' is not a link"),
    (b"1p2", "line 2: '1p2' is not a link"), (b"1-\xff", "line 2: '1-\ufffd' is not a link"),
    (b"0-32768", "line 2: position 32768 is beyond 32767; split the sentence"),
    (b"0-99999999999999999999", "line 2: '0-99999999999999999999' is not a link"),
])
def test_lines_that_hold_something_else(tmp_path: Path, line: bytes, message: str) -> None:
    (tmp_path / "bad").write_bytes(b"0-0\n" + line + b"\n")
    with pytest.raises(PipelineError, match="bad: ") as caught:
        read_pharaoh(tmp_path / "bad")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="absent: cannot be read: No such file"):
        read_pharaoh(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot be written"):
        write_pharaoh(tmp_path / "file" / "inside", [pack([[(0, 0)]])])
