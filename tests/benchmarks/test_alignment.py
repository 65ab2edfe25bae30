"""The alignment benchmark around its measurements: texts that are refused, links, options."""

import os
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from benchmarks import alignment
from benchmarks.alignment import (
    OPTIONS,
    OURS,
    THEIRS,
    Systems,
    Text,
    as_sets,
    check,
    compare,
    main,
    symmetrised,
    write_text,
)
from benchmarks.fast_align_tables import read_tensions
from benchmarks.gold_alignments import Gold
from benchmarks.pharaoh import read_pharaoh
from pipeline.alignment.links import Links
from pipeline.errors import PipelineError


def text(folder: Path, source: str, target: str) -> Text:
    paths = folder / "own.source", folder / "own.target"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_text(content, encoding="utf-8")
    return Text("own", *paths)


def test_pairs_and_words_are_counted(tmp_path: Path) -> None:
    own = text(tmp_path, "one two\nthree", "ett\u00a0två tre\tfyra\nfem\n")  # a no-break space parts no words
    assert check(own) == {"pairs": 2, "source_words": 3, "target_words": 4}


@pytest.mark.parametrize(("source", "target", "message"), [
    ("a\n \nb\n", "a\nb\nc\n", r"own\.source: line 2 is empty"),
    ("a\nb\n", "a\nb ||| c\n", r"own\.target: line 2 .*'\|\|\|'"),
    ("", "a\n", r"own\.source: line 1 is empty"),
    ("a\nb\n", "a\n", r"own\.source: 2 lines, but .*own\.target has 1"),
])
def test_what_fast_align_cannot_read_is_refused_beforehand(tmp_path: Path, source: str, target: str,
                                                           message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        check(text(tmp_path, source, target))


def test_an_absent_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere: cannot be read") as caught:
        check(Text("own", tmp_path / "nowhere", tmp_path / "nowhere"))
    assert "\n" not in str(caught.value)


def test_packed_links_become_a_set_a_pair() -> None:
    links = Links(np.array([0, 2, 2, 3]), np.array([0, 12, 4], np.int32), np.array([1, 3, 4], np.int32))
    assert as_sets(links) == [{(0, 1), (12, 3)}, set(), {(4, 4)}]


def test_fast_align_finds_the_words_of_a_word_for_word_translation(tmp_path: Path) -> None:
    pytest.importorskip("systran_align")
    words = {"copper": "rab", "kettles": "tols", "whistle": "mipa", "softly": "ugu", "tonight": "zan"}
    sentences = [list(order) for order in permutations(words, 4)]
    gold = Gold(sentences, [[words[word] for word in sentence] for sentence in sentences],
                [{(i, i) for i in range(4)} for _ in sentences], 0)
    systems, verses = Systems(tmp_path, os.environ, 1), write_text(gold, tmp_path)

    seconds, forward = systems.fast_align(verses)
    assert 0 < forward < seconds
    assert as_sets(read_pharaoh(systems.links)) == gold.links

    tensions = read_tensions(systems.fast_align_tables(verses))
    found = symmetrised(tmp_path, tensions, verses, gold)
    assert found == dict.fromkeys(OPTIONS, gold.links)


def test_a_system_that_fails_says_why_in_one_line(tmp_path: Path) -> None:
    systems = Systems(tmp_path, os.environ, 1)
    with pytest.raises(PipelineError, match=r"python -m benchmarks\.fast_align_worker ended with status 1: ") as caught:
        systems.fast_align(Text("absent", tmp_path / "a", tmp_path / "b"))
    assert "\n" not in str(caught.value)


def test_times_faster_is_theirs_over_ours() -> None:
    found = compare(np.array([4.0, 8.0, 6.0]), np.array([2.0, 4.0, 3.0]))
    assert found[THEIRS] == {"median": 6.0, "min": 4.0, "max": 8.0}
    assert found[OURS] == {"median": 3.0, "min": 2.0, "max": 4.0}
    assert found["times_faster"] == [2.0, 2.0, 2.0]


def test_without_the_package_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(alignment, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        main(["--output", str(tmp_path / "out.json")])
    error = capsys.readouterr().err
    assert error.startswith("error: the package systran-align is not installed; ") and error.count("\n") == 1
    assert "install the extra `benchmarks`" in error and not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(("options", "message"), [
    (["--source", "a"], "one of --source and --target is missing"),
    (["--rounds", "-1"], "give at least 0 rounds"),
    (["--threads", "0"], "and 1 thread"),
])
def test_options_that_make_no_sense(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(options)
    assert message in capsys.readouterr().err
