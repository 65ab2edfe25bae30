"""Mapped arrays: what was written, read-only, and one clear line for every file that is not it."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from pipeline.count_model.arrays import map_arrays, write_arrays
from pipeline.errors import PipelineError

KINDS = ["u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8"]
REMEDY = "count again"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arrays") / "some.safetensors"


@st.composite
def some_arrays(draw: st.DrawFn) -> dict[str, NDArray[Any]]:
    names = draw(st.lists(st.text("abc.é", min_size=1, max_size=4), max_size=5, unique=True))
    arrays = {}
    for name in names:
        shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
        arrays[name] = np.arange(np.prod(shape)).reshape(shape).astype(draw(st.sampled_from(KINDS)))
    return arrays


@settings(max_examples=40)
@given(some_arrays(), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_what_is_written_is_mapped(scratch: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    write_arrays(scratch, arrays, metadata)
    found, found_metadata = map_arrays(scratch, REMEDY)
    assert found_metadata == metadata
    for others in found, load_file(scratch):  # the latter by the safetensors library
        assert others.keys() == arrays.keys()
        for name, array in arrays.items():
            assert others[name].dtype == array.dtype and np.array_equal(others[name], array)
    assert all(array.flags.aligned for array in found.values())
    before = scratch.read_bytes()
    write_arrays(scratch, arrays, metadata)
    assert scratch.read_bytes() == before


def test_a_view_by_columns_is_written_as_it_reads(scratch: Path) -> None:
    table = np.arange(12, dtype=np.int32).reshape(3, 4).T
    write_arrays(scratch, {"table": table}, {})
    assert np.array_equal(map_arrays(scratch, REMEDY)[0]["table"], table)


def test_views_of_the_map_are_read_only(scratch: Path) -> None:
    write_arrays(scratch, {"some": np.arange(3)}, {})
    view = map_arrays(scratch, REMEDY)[0]["some"]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    base: Any = view
    while not isinstance(base, np.memmap):
        base = base.base  # ends in None, and the test fails, where the file was read instead
        assert base is not None


def header(content: object, payload: bytes = bytes(24)) -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + payload


def entry(dtype: str = "I64", shape: object = (3,), data_offsets: object = (0, 24)) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": data_offsets}}


GOOD = save({"a": np.arange(3)}, {"some": "metadata"})
NOT_ONE = {
    "a length and nothing after it": struct.pack("<Q", 2**63),
    "a length beyond all memory": struct.pack("<Q", 2**64 - 1) + GOOD[8:],
    "a length beyond the end": struct.pack("<Q", len(GOOD) - 7) + GOOD[8:],
    "a length up to the end": struct.pack("<Q", len(GOOD) - 8) + GOOD[8:],
    "a length of nothing": struct.pack("<Q", 0) + GOOD[8:],
    "nothing": b"",
    "seven bytes": GOOD[:7],
    "text": b"The moth counts the lanterns near the ladder.\n" * 9,
    "not UTF-8": struct.pack("<Q", 4) + b'{"\xff\xfe' + bytes(24),
    "a list": header([1, 2]),
    "a number": header(7),
    "nothing in JSON": header(None),
    "an entry that is a number": header({"a": 1}),
    "an entry without offsets": header({"a": {"dtype": "I64", "shape": [3]}}),
    "another type": header(entry(dtype="BF16")),
    "another shape": header(entry(shape=(2, 2))),
    "a shape of words": header(entry(shape="three")),
    "one offset": header(entry(data_offsets=(0,))),
    "offsets of words": header(entry(data_offsets=("0", "24"))),
    "offsets from the end": header(entry(data_offsets=(-48, -24)), bytes(48)),
    "a shape that fits whatever is there": header(entry(shape=(-1,))),
    "metadata in a list": header({"__metadata__": ["format"], **entry()}),
    "part of an item": header(entry(data_offsets=(0, 23))),
}


@pytest.mark.parametrize("kind", NOT_ONE)
def test_a_file_that_is_none(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(NOT_ONE[kind])
    with pytest.raises(PipelineError, match=r"other.safetensors: truncated or not a safetensors file; count again$"):
        map_arrays(path, REMEDY)


@pytest.mark.parametrize("left", [9, len(GOOD) // 2, len(GOOD) - 24, len(GOOD) - 1])
def test_a_truncated_file(tmp_path: Path, left: int) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(GOOD[:left])
    with pytest.raises(PipelineError, match=r"cut.safetensors: truncated or not a safetensors file; count again$"):
        map_arrays(path, REMEDY)


@pytest.mark.parametrize(("make", "message"), [
    (lambda path: None, "not found"),
    (lambda path: path.mkdir(), "cannot be read: Is a directory"),
])
def test_no_file(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "gone.safetensors"
    make(path)
    with pytest.raises(PipelineError, match=f"gone.safetensors: {message}; count again"):
        map_arrays(path, REMEDY)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    write_arrays(path, {"a": np.arange(3)}, {})
    before = path.read_bytes()
    for other in np.array(["otter"]), np.arange(3.0).astype(object), np.arange(3) * 1j:
        with pytest.raises(ValueError, match="cannot be written"):
            write_arrays(path, {"a": np.arange(9), "b": other}, {})
    assert path.read_bytes() == before and [other.name for other in tmp_path.iterdir()] == [path.name]
