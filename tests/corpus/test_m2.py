"""M2 files of invented sentences, and several references in aligned files."""

from pathlib import Path

import pytest

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.sources.build import build_corpus, read_splits
from pipeline.sources.inputs import describe_inputs
from pipeline.sources.readers.m2 import read_m2
from pipeline.sources.settings import CorpusSettings

BLOCKS = """\
S The otter swim in a rivers .
A 2 3|||R:VERB:SVA|||swims|||REQUIRED|||-NONE-|||0
A 4 5|||U:DET||||||REQUIRED|||-NONE-|||0
A 4 6|||R:NOUN|||the river||a river|||REQUIRED|||-NONE-|||1
A 7 7|||M:OTHER|||Today !|||REQUIRED|||-NONE-|||1

S All is well .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

S It glorps .
A 1 2|||UNK|||glorps|||REQUIRED|||-NONE-|||0
A 2 3|||Um|||-NONE-|||REQUIRED|||-NONE-|||2

S Nobody looked here .
"""
OTTER = ["The otter swims in rivers .", "The otter swim in the river . Today !"]


def write(folder: Path, text: str = BLOCKS, name: str = "a.m2") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def settings_for(path: Path, **changes: object) -> CorpusSettings:
    return build(CorpusSettings, {
        "source": "m2", "source_language": "en", "target_language": "en",
        "filters": {"min_words": 1, "drop_identical": False, "evaluation": False},
        "m2": {"train": [str(path), str(path)], "validation": [str(path)], "test": [str(path)], **changes}}, "corpus")


def test_edits_are_applied_per_annotator(tmp_path: Path) -> None:
    assert list(read_m2(write(tmp_path))) == [
        ("The otter swim in a rivers .", OTTER), ("All is well .", ["All is well ."]),
        ("It glorps .", ["It glorps .", "It glorps ."]), ("Nobody looked here .", ["Nobody looked here ."])]


def test_a_file_is_read_block_by_block(tmp_path: Path) -> None:
    (tmp_path / "a.m2").write_bytes(b"S All is well .\n\n\xff")
    sentences = read_m2(tmp_path / "a.m2")
    assert next(sentences) == ("All is well .", ["All is well ."])
    with pytest.raises(PipelineError, match=r"a\.m2:3: invalid UTF-8"):
        next(sentences)


def test_every_correction_is_trained_on_and_tested_against(tmp_path: Path) -> None:
    path = write(tmp_path)
    splits = {name: list(entries) for name, entries in read_splits(settings_for(path)).items()}
    source = "The otter swim in a rivers ."
    assert splits["train"][:3] == [(source, OTTER[0]), (source, OTTER[1]), ("All is well .",) * 2]
    assert len(splits["train"]) == 2 * 6  # the file is named twice
    assert splits["validation"][0] == (source, OTTER[0])
    assert splits["test"] == [(source, *OTTER), ("All is well .",) * 3, ("It glorps .",) * 3,
                              ("Nobody looked here .",) * 3]
    assert [file["path"] for file in describe_inputs(settings_for(path))["files"]] == [str(path)]


def test_the_corpus_stage_writes_all_references(tmp_path: Path) -> None:
    train = write(tmp_path, "S A heron waits\nA 3 3|||M:PUNCT|||.|||REQUIRED|||-NONE-|||0\n", "train.m2")
    test = write(tmp_path)
    validation = write(tmp_path, "S A crane sleep\nA 2 3|||R|||sleeps|||REQUIRED|||-NONE-|||0\n", "validation.m2")
    build_corpus(settings_for(test, train=[str(train)], validation=[str(validation)]), tmp_path / "out",
                 tmp_path / "report.json")
    assert (tmp_path / "out/test.target2").read_text("utf-8").splitlines()[0] == OTTER[1]
    assert (tmp_path / "out/train.target").read_text("utf-8") == "A heron waits .\n"


@pytest.mark.parametrize(("text", "message"), [
    ("no block", r"a\.m2:1: 'no block' is not a line of an M2 file"),
    ("So it begins", r"a\.m2:1: 'So it begins' is not a line of an M2 file"),
    ("A 0 1|||R|||a|||REQUIRED|||-NONE-|||0", r"a\.m2:1: 'A 0 1"),
    ("S a b\nS c d", r"a\.m2:2: 'S c d' is not a line"),
    ("S a b\nA 0|||R|||a|||REQUIRED|||-NONE-|||0", r"a\.m2:2: .* is not an edit; write A START END"),
    ("S a b\nA 0 1", r"a\.m2:2: .* is not an edit"),
    ("S a b\nA 1 3|||R|||c|||REQUIRED|||-NONE-|||0", r"a\.m2:2: the edit 1 3 .* is outside its 2 tokens"),
    ("S a b c\nA 0 2|||R|||c|||REQUIRED|||-NONE-|||0\nA 1 3|||R|||c|||REQUIRED|||-NONE-|||0", "overlaps another one"),
])
def test_damaged_files_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        list(read_m2(write(tmp_path, text)))
    assert "\n" not in str(caught.value)


def test_a_split_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"corpus\.m2\.test: \(\) must have at least one entry"):
        settings_for(tmp_path, test=[])


def of_files(folder: Path, **texts: str) -> CorpusSettings:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    one = [str(folder / "source"), str(folder / "first")]
    return build(CorpusSettings, {"source": "files", "files": {
        "train": one, "validation": one, "test": [str(folder / name) for name in texts]}}, "corpus")


def test_aligned_files_may_have_further_references(tmp_path: Path) -> None:
    settings = of_files(tmp_path, source="a\nb\n", first="c\nd\n", second="e\nf\n", third="g\nh\n")
    assert list(read_splits(settings)["test"]) == [("a", "c", "e", "g"), ("b", "d", "f", "h")]
    assert list(read_splits(settings)["train"]) == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize("second", ["e\n", "e\nf\ng\n"])
def test_a_further_reference_of_another_length_is_named(tmp_path: Path, second: str) -> None:
    settings = of_files(tmp_path, source="a\nb\n", first="c\nd\n", second=second)
    with pytest.raises(PipelineError, match=rf"source has 2 lines but .*second has {second.count(chr(10))}"):
        list(read_splits(settings)["test"])


def test_a_test_split_needs_a_reference(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"corpus\.files\.test has 1 files; name a source file and"):
        of_files(tmp_path, source="a\n")
