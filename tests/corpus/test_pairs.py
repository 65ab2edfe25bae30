"""The packed file: what goes in comes out, and nothing damaged is ever read."""

import pickle
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.errors import PipelineError

DIGEST = "0123456789abcdef" * 4
EXAMPLE = [([5, 6, 7], [8]), ([], [9, 10]), ([11], [])]


def id_rows(vocabulary: int) -> st.SearchStrategy[list[tuple[list[int], list[int]]]]:
    row = st.lists(st.integers(0, vocabulary - 1), max_size=9)
    return st.lists(st.tuples(row, row), max_size=12)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "train.pairs"
    write_pairs(path, EXAMPLE, vocabulary=12, digest=DIGEST)
    return path


@settings(max_examples=60, deadline=None)
@given(data=st.data(), vocabulary=st.sampled_from([1, 7, 1 << 16, (1 << 16) + 1, 1 << 31]))
def test_any_rows_survive_the_file(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject,
                                   vocabulary: int) -> None:
    rows = data.draw(id_rows(vocabulary))
    path = tmp_path_factory.mktemp("pairs") / "any.pairs"
    assert write_pairs(path, iter(rows), vocabulary, DIGEST) == len(rows)
    pairs = Pairs.open(path, DIGEST)
    assert [(pairs.source(i).tolist(), pairs.target(i).tolist()) for i in range(len(pairs))] == rows
    assert pairs.source_lengths.tolist() == [len(source) for source, _ in rows]
    assert pairs.target_lengths.tolist() == [len(target) for _, target in rows]
    assert list(path.parent.iterdir()) == [path]


def test_a_chunk_border_falls_inside_the_corpus(tmp_path: Path) -> None:
    rows = [([index % 50] * (index % 4), [index % 7]) for index in range(10_000)]
    write_pairs(tmp_path / "many.pairs", rows, 50, DIGEST)
    pairs = Pairs.open(tmp_path / "many.pairs")
    for index in (0, 4095, 4096, 4097, 8191, 8192, 9999):
        assert pairs.source(index).tolist() == rows[index][0]
        assert pairs.target(index).tolist() == rows[index][1]


def test_small_vocabularies_take_two_bytes_an_id(tmp_path: Path) -> None:
    rows = [([1] * 1000, [2] * 1000)]
    sizes = []
    for vocabulary in (1 << 16, (1 << 16) + 1):
        path = tmp_path / f"{vocabulary}.pairs"
        write_pairs(path, rows, vocabulary, DIGEST)
        sizes.append(path.stat().st_size)
    assert sizes[1] - sizes[0] == 2 * 2000


def test_rows_of_numpy_ids_are_written_like_lists(tmp_path: Path, packed: Path) -> None:
    rows = [(np.array(source, np.uint16), np.array(target, np.uint16)) for source, target in EXAMPLE]
    write_pairs(tmp_path / "again.pairs", rows, 12, DIGEST)
    assert (tmp_path / "again.pairs").read_bytes() == packed.read_bytes()


def test_a_pickled_reader_maps_the_same_file(packed: Path) -> None:
    sent = pickle.dumps(Pairs.open(packed))
    assert len(sent) < 1000
    assert pickle.loads(sent).source(0).tolist() == [5, 6, 7]


def test_sides_are_all_rows_without_a_copy(packed: Path) -> None:
    pairs = Pairs.open(packed)
    (source, source_offsets), (target, target_offsets) = pairs.sides()
    assert source.tolist() == [5, 6, 7, 11] and source_offsets.tolist() == [0, 3, 3, 4]
    assert target.tolist() == [8, 9, 10] and target_offsets.tolist() == [0, 1, 3, 3]
    assert np.shares_memory(source, pairs.source(0)) and not target.flags.writeable


def test_rows_are_read_only(packed: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        Pairs.open(packed).source(0)[0] = 1


@pytest.mark.parametrize("index", [-1, 3])
def test_rows_beyond_the_end_are_refused(packed: Path, index: int) -> None:
    pairs = Pairs.open(packed)
    for read in (pairs.source, pairs.target):
        with pytest.raises(IndexError, match="of 3 pairs"):
            read(index)


@pytest.mark.parametrize("bad", [-1, 12])
def test_an_id_outside_the_vocabulary_is_refused(tmp_path: Path, bad: int) -> None:
    with pytest.raises(ValueError, match="vocabulary of 12"):
        write_pairs(tmp_path / "bad.pairs", [([1], [2]), ([1], [bad])], 12, DIGEST)
    assert list(tmp_path.iterdir()) == []


def test_a_file_cut_anywhere_is_refused(packed: Path) -> None:
    whole = packed.read_bytes()
    for size in range(len(whole)):
        packed.write_bytes(whole[:size])
        with pytest.raises(PipelineError, match=r"dvc repro"):
            Pairs.open(packed)
    packed.write_bytes(whole + b"\0")
    with pytest.raises(PipelineError, match=f"{len(whole) + 1} bytes instead of {len(whole)}"):
        Pairs.open(packed)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("row", "value"), [(0, 1), (1, -727_379_968), (1, 1 << 43), (2, -1), (3, 5)])
def test_offsets_that_do_not_rise_to_the_end_are_refused(packed: Path, side: int, row: int, value: int) -> None:
    content = bytearray(packed.read_bytes())
    struct.pack_into("<q", content, 72 + 8 * (4 * side + row), value)
    packed.write_bytes(content)
    name = ("source", "target")[side]
    with pytest.raises(PipelineError, match=rf"train\.pairs: damaged: the {name} offsets do not rise .*dvc repro"):
        Pairs.open(packed)


def test_any_byte_may_be_wrong(packed: Path) -> None:
    """Whatever is opened can be read to the end, within its bounds."""
    whole = packed.read_bytes()
    for place in range(len(whole)):
        for flipped in 0x01, 0x80:
            packed.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1:])
            with suppress(PipelineError):
                pairs = Pairs.open(packed)
                assert len(pairs) == len(EXAMPLE)
                for row, lengths in ((pairs.source, pairs.source_lengths), (pairs.target, pairs.target_lengths)):
                    assert [len(row(index)) for index in range(len(pairs))] == lengths.tolist()


@pytest.mark.parametrize(("sizes", "message"), [((11, 12), "source id 11 is outside the vocabulary of 11"),
                                                ((12, 10), "target id 10 is outside the vocabulary of 10")])
def test_ids_outside_the_vocabulary_are_refused(packed: Path, sizes: tuple[int, int], message: str) -> None:
    Pairs.open(packed).check_ids(12, 11)
    with pytest.raises(PipelineError, match=rf"train\.pairs: damaged: the {message}; run `dvc repro`"):
        Pairs.open(packed).check_ids(*sizes)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read: Is a directory; check its permissions, or remove it"):
        Pairs.open(tmp_path)


def test_other_files_are_refused(tmp_path: Path, packed: Path) -> None:
    with pytest.raises(PipelineError, match=r"absent\.pairs: not found"):
        Pairs.open(tmp_path / "absent.pairs")
    with pytest.raises(PipelineError, match="another vocabulary"):
        Pairs.open(packed, "f" * 64)
    whole = packed.read_bytes()
    packed.write_bytes(b"X" + whole[1:])
    with pytest.raises(PipelineError, match="not a file of encoded pairs"):
        Pairs.open(packed)
    packed.write_bytes(whole[:8] + b"\x63" + whole[9:])
    with pytest.raises(PipelineError, match="format version 99"):
        Pairs.open(packed)


def test_a_source_that_fails_leaves_the_old_file(packed: Path) -> None:
    def interrupted():
        yield [1], [2]
        raise KeyboardInterrupt

    before = packed.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_pairs(packed, interrupted(), 12, DIGEST)
    assert packed.read_bytes() == before
    assert list(packed.parent.iterdir()) == [packed]


def test_a_full_disk_is_one_line_and_no_file(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="a limit on the size of files stands in for the full disk")
    program = f"""
import resource
from pathlib import Path
from pipeline.corpus.pairs import write_pairs
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
write_pairs(Path({str(tmp_path / "big.pairs")!r}), (([1] * 9, [2] * 9) for _ in range(20_000)), 9, "{DIGEST}")
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    last = finished.stderr.strip().splitlines()[-1]
    assert "PipelineError" in last and "big.pairs: cannot be written" in last
    assert list(tmp_path.iterdir()) == []
