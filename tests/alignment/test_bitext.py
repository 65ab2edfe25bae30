"""Text and encoded corpora become packed pairs."""

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pipeline.alignment.bitext import Bitext, Side, read_text
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.errors import PipelineError


def rows(side: Side, words: list[str]) -> list[list[str]]:
    return [[words[word] for word in side.ids[start:end]] for start, end in pairwise(side.offsets)]


def write(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    (folder / "a.en").write_bytes(source)
    (folder / "a.de").write_bytes(target)
    return folder / "a.en", folder / "a.de"


def test_words_are_numbered_as_they_appear(tmp_path: Path) -> None:
    paths = write(tmp_path, b"the kite rose\n\n  kite \t string\r\n", "der Drachen stieg\nübrig\nein Seil".encode())
    bitext, source_words, target_words = read_text(*paths)
    assert source_words == ["the", "kite", "rose", "string"]
    assert bitext.source.ids.dtype == np.int32 and bitext.source.ids.tolist() == [0, 1, 2, 1, 3]
    assert bitext.source.offsets.tolist() == [0, 3, 3, 5] and bitext.source.lengths.tolist() == [3, 0, 2]
    assert rows(bitext.target, target_words) == [["der", "Drachen", "stieg"], ["übrig"], ["ein", "Seil"]]
    assert bitext.pairs == 3


def test_a_no_break_space_and_other_separators_stay_in_their_words(tmp_path: Path) -> None:
    paths = write(tmp_path, "20\u00a0kites left\u2028over\n".encode(), b"x\n")
    bitext, words, _ = read_text(*paths)
    assert rows(bitext.source, words) == [["20\u00a0kites", "left\u2028over"]]


def test_small_letters(tmp_path: Path) -> None:
    paths = write(tmp_path, "Öl öl ÖL\n".encode(), b"Oil\n")
    assert read_text(*paths)[1] == ["Öl", "öl", "ÖL"]
    assert read_text(*paths, lowercase=True)[1:] == (["öl"], ["oil"])


def test_two_empty_files_are_a_mistake_and_empty_lines_are_not(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"a\.en and .*a\.de: both are empty; .* one sentence per line"):
        read_text(*write(tmp_path, b"", b""))
    bitext, source_words, target_words = read_text(*write(tmp_path, b"\n", b"\n"))
    assert bitext.pairs == 1 and source_words == target_words == []


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    assert read_text(*write(tmp_path, b"\xef\xbb\xbfkite\nkite\n", b"a\nb\n"))[1] == ["kite"]


def test_compressed_text(tmp_path: Path) -> None:
    source, target = write(tmp_path, b"kite\n", b"Drachen\n")
    (tmp_path / "a.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert read_text(tmp_path / "a.gz", target)[1:] == (["kite"], ["Drachen"])


def test_unequal_numbers_of_lines(tmp_path: Path) -> None:
    source, target = write(tmp_path, b"a\nb\nc\n", b"a\n")
    with pytest.raises(PipelineError, match=r"has 3 lines and .*a\.de has 1; line N of one must") as caught:
        read_text(source, target)
    assert str(source) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("lowercase", [False, True])
def test_bytes_that_are_no_text(tmp_path: Path, lowercase: bool) -> None:
    source, target = write(tmp_path, b"fine\ncaf\xe9\n", b"gut\nKaffee\n")
    with pytest.raises(PipelineError, match=r"a\.en:2: invalid UTF-8 at byte 4"):
        read_text(source, target, lowercase)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    source, _ = write(tmp_path, b"a\n", b"b\n")
    with pytest.raises(PipelineError, match=r"absent\.de: cannot be read: No such file"):
        read_text(source, tmp_path / "absent.de")
    with pytest.raises(PipelineError, match="cannot be read: Is a directory"):
        read_text(tmp_path, source)


def test_an_encoded_corpus_is_not_copied(tmp_path: Path) -> None:
    write_pairs(tmp_path / "train.pairs", [([5, 6, 7], [8]), ([], [9, 10]), ([11], [])], 12, "0" * 64)
    pairs = Pairs.open(tmp_path / "train.pairs")
    bitext = Bitext.from_pairs(pairs)
    assert np.shares_memory(bitext.source.ids, pairs.source(0))
    assert bitext.source.ids.tolist() == [5, 6, 7, 11] and bitext.target.offsets.tolist() == [0, 1, 3, 3]
    swapped = bitext.swapped()
    assert swapped.source is bitext.target and swapped.target is bitext.source
    part = bitext.part(1, 3)
    assert part.pairs == 2 and np.shares_memory(part.target.ids, bitext.target.ids)
    assert part.source.offsets.tolist() == [0, 0, 1] and part.source.ids.tolist() == [11]
    assert part.target.offsets.tolist() == [0, 2, 2] and part.target.ids.tolist() == [9, 10]
