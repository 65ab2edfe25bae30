"""The vocabulary: pinned ids, lossless round trip, same bytes twice, sizes that the corpus allows."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.checksums import SUMS
from pipeline.corpus.batches import Slice
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import PairBatches, Resample
from pipeline.corpus.pairs import Pairs
from pipeline.corpus.settings import BpeSettings
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.build import build_corpus
from pipeline.sources.settings import CorpusSettings
from pipeline.train_bpe import train_bpe
from pipeline.vocabulary import BOS, EOD, EOS, LENGTH, MASK, PAD, SPECIALS, UNK

JOINT = BpeSettings(vocabulary=150)
SILENT = (PAD, BOS, EOS, MASK, EOD, LENGTH)  # the special ids that stand for no text


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory,
           write_toy_files: Callable[[Path], CorpusSettings]) -> Path:
    """A built corpus of 400, 30 and 30 toy pairs."""
    folder = tmp_path_factory.mktemp("bpe")
    build_corpus(write_toy_files(folder), folder / "text", folder / "text.json")
    return folder / "text"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """The output folder of the stage, joint; its report is `../report.json`."""
    out = tmp_path_factory.mktemp("trained") / "bpe"
    train_bpe(JOINT, corpus, out, out.parent / "report.json")
    return out


@pytest.fixture(scope="session")
def tokenizer(trained: Path) -> Tokenizer:
    return Tokenizer.load(trained)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_text_becomes_ids_and_ids_the_same_text(corpus: Path, trained: Path, tokenizer: Tokenizer) -> None:
    for split, count in zip(SPLITS, (400, 30, 30), strict=True):
        pairs = Pairs.open(trained / f"{split}.pairs", tokenizer.digest)
        assert len(pairs) == count
        targets = lines(corpus / f"{split}.target")
        assert tokenizer.decode_targets([pairs.target(index) for index in range(count)]) == targets
        sources = lines(corpus / f"{split}.source")
        assert [pairs.source(index).tolist() for index in range(count)] == tokenizer.encode_source(sources)


def test_the_special_ids_are_the_pinned_ones(tokenizer: Tokenizer) -> None:
    assert tuple(range(len(SPECIALS))) == (PAD, UNK, BOS, EOS, MASK, EOD, LENGTH)
    assert tokenizer.source_size == tokenizer.target_size == JOINT.vocabulary
    assert tokenizer.decode_target(SILENT) == ""
    assert tokenizer.decode_target([UNK]) == "⁇"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*SPECIALS, "heron", "</s", "☃", "Tor", " "]), max_size=6).map("".join))
def test_no_text_can_smuggle_in_a_special_id(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode_source([text])[0]
    assert not set(SILENT) & set(ids)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_text_of_known_characters_survives(tokenizer: Tokenizer, data: st.DataObject) -> None:
    text = data.draw(st.text("Graue ihrNcba", max_size=40))
    text = " ".join(text.split())
    assert tokenizer.decode_target(tokenizer.encode_target([text])[0]) == text


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, JOINT.vocabulary - 1), max_size=20))
def test_any_ids_decode_without_special_pieces(tokenizer: Tokenizer, ids: list[int]) -> None:
    text = tokenizer.decode_target(ids)
    assert not any(piece in text for piece in SPECIALS)
    assert text == tokenizer.decode_target([token for token in ids if token not in SILENT])


@pytest.mark.parametrize("bad", [-1, JOINT.vocabulary])
def test_ids_outside_the_vocabulary_are_an_error(tokenizer: Tokenizer, bad: int) -> None:
    with pytest.raises(PipelineError, match="outside the vocabulary of 150"):
        tokenizer.decode_target([UNK, bad])


def test_separate_vocabularies(tmp_path: Path, corpus: Path) -> None:
    train_bpe(replace(JOINT, joint=False, vocabulary=120), corpus, tmp_path / "bpe", tmp_path / "report.json")
    tokenizer = Tokenizer.load(tmp_path / "bpe")
    assert not tokenizer.joint
    assert UNK in tokenizer.encode_source(["Geräusch"])[0]
    assert UNK not in tokenizer.encode_target(["Geräusch"])[0]


def test_two_trainings_give_the_same_bytes(tmp_path: Path, corpus: Path, trained: Path) -> None:
    train_bpe(JOINT, corpus, tmp_path / "bpe", tmp_path / "report.json")
    for path in trained.iterdir():
        assert (tmp_path / "bpe" / path.name).read_bytes() == path.read_bytes(), path.name
    assert (tmp_path / "report.json").read_bytes() == (trained.parent / "report.json").read_bytes()


def test_the_report_agrees_with_the_ids(trained: Path) -> None:
    report = json.loads((trained.parent / "report.json").read_text(encoding="utf-8"))
    for split in SPLITS:
        pairs = Pairs.open(trained / f"{split}.pairs")
        for side, lengths in (("source", pairs.source_lengths), ("target", pairs.target_lengths)):
            described = report[split][side]
            assert described["tokens"] == lengths.sum()
            assert described["mean"] == pytest.approx(lengths.mean(), abs=0.005)
            assert described["median"] == pytest.approx(np.median(lengths), abs=0.05)
            assert described["max"] == lengths.max()
            assert sum(described["histogram"].values()) == len(pairs) == report[split]["pairs"]
            assert described["histogram"]["17-32"] == np.sum((lengths >= 17) & (lengths <= 32))


def test_unknown_pieces_are_reported(tmp_path: Path, corpus: Path) -> None:
    strange = copy_corpus(corpus, tmp_path / "strange")
    for name, line in (("test.source", "☃ ☃\n"), ("test.target", "Tor\n")):
        (strange / name).write_bytes((strange / name).read_bytes() + line.encode())
    train_bpe(JOINT, strange, tmp_path / "bpe", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["test"]
    assert report["source"]["unknown_rate"] == pytest.approx(2 / report["source"]["tokens"], abs=1e-6)
    assert report["target"]["unknown_rate"] == 0


def test_only_train_loses_its_longest_pairs(tmp_path: Path, corpus: Path, trained: Path) -> None:
    pairs = Pairs.open(trained / "train.pairs")
    limit = int(np.median(pairs.target_lengths))
    kept = int(np.sum((pairs.source_lengths <= limit) & (pairs.target_lengths <= limit)))
    train_bpe(replace(JOINT, max_length=limit), corpus, tmp_path / "bpe", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["train"]["pairs"], report["train"]["too_long"]) == (kept, 400 - kept)
    assert 0 < kept < 400
    assert report["test"]["pairs"] == 30
    assert report["test"]["target"]["max"] > limit
    with pytest.raises(PipelineError, match=r"no pair is left \(400 have more than bpe\.max_length 1 "):
        train_bpe(replace(JOINT, max_length=1), corpus, tmp_path / "none", tmp_path / "none.json")
    assert not (tmp_path / "none").exists()


def test_synthetic_pairs_are_encoded_with_the_vocabulary_of_train(tmp_path: Path, corpus: Path, trained: Path) -> None:
    assert not (trained / "synthetic.pairs").exists()
    noisy = copy_corpus(corpus, tmp_path / "noisy")
    for side, sentences in (("source", ["Grau Reiher der", "Nacht " * 99]), ("target", ["Der graue Reiher", "Nacht"])):
        (noisy / f"synthetic.{side}").write_text("".join(line + "\n" for line in sentences), encoding="utf-8")
    train_bpe(replace(JOINT, max_length=90), noisy, tmp_path / "bpe", tmp_path / "report.json")
    tokenizer = Tokenizer.load(tmp_path / "bpe")
    assert tokenizer.digest == Tokenizer.load(trained).digest
    pairs = Pairs.open(tmp_path / "bpe" / "synthetic.pairs", tokenizer.digest)
    assert tokenizer.decode_targets([pairs.target(0)]) == ["Der graue Reiher"]
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["synthetic"]
    assert (report["pairs"], report["too_long"]) == (len(pairs), 1) == (1, 1)
    assert report["source"]["tokens"] == len(pairs.source(0))


def test_a_thinned_corpus_gives_the_whole_vocabulary(tmp_path: Path, corpus: Path, trained: Path) -> None:
    train_bpe(replace(JOINT, sample=300), corpus, tmp_path / "bpe", tmp_path / "report.json")
    thinned = Tokenizer.load(tmp_path / "bpe")
    assert thinned.target_size == JOINT.vocabulary
    assert thinned.digest != Tokenizer.load(trained).digest
    assert len(Pairs.open(tmp_path / "bpe" / "train.pairs")) == 400


@pytest.mark.parametrize("line", ["Ω Nacht ▅", "Nacht " * 999 + "Ω"], ids=["a reserved character", "a long line"])
def test_no_line_is_left_out_of_the_vocabulary(tmp_path: Path, corpus: Path, line: str) -> None:
    """SentencePiece would leave out both without a message, and the letter would be unknown."""
    longer = copy_corpus(corpus, tmp_path / "longer")
    for side in ("source", "target"):
        with (longer / f"train.{side}").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    train_bpe(JOINT, longer, tmp_path / "bpe", tmp_path / "report.json")
    assert UNK not in Tokenizer.load(tmp_path / "bpe").encode_source(["Ω"])[0]


def test_a_vocabulary_too_large_names_the_largest_possible(tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(PipelineError, match=r"at most \d+, not 9999") as caught:
        train_bpe(replace(JOINT, vocabulary=9999), corpus, tmp_path / "bpe", tmp_path / "report.json")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    largest = int(str(caught.value).split("at most ")[1].split(",")[0])
    train_bpe(replace(JOINT, vocabulary=largest), corpus, tmp_path / "bpe", tmp_path / "report.json")
    assert Tokenizer.load(tmp_path / "bpe").target_size == largest
    with pytest.raises(PipelineError, match=f"at most {largest}, not {largest + 1}"):
        train_bpe(replace(JOINT, vocabulary=largest + 1), corpus, tmp_path / "more", tmp_path / "report.json")


def test_a_vocabulary_too_small_names_the_smallest_possible(tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(PipelineError, match=r"vocabulary to \d+ or more") as caught:
        train_bpe(replace(JOINT, vocabulary=20), corpus, tmp_path / "bpe", tmp_path / "report.json")
    smallest = int(str(caught.value).split("vocabulary to ")[1].split()[0])
    train_bpe(replace(JOINT, vocabulary=smallest), corpus, tmp_path / "bpe", tmp_path / "report.json")
    with pytest.raises(PipelineError, match=f"vocabulary to {smallest} or more"):
        train_bpe(replace(JOINT, vocabulary=smallest - 1), corpus, tmp_path / "less", tmp_path / "report.json")


def test_a_missing_or_empty_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"train\.source: cannot be read: No such file"):
        train_bpe(JOINT, tmp_path, tmp_path / "bpe", tmp_path / "report.json")
    for side in ("source", "target"):
        (tmp_path / f"train.{side}").touch()
    with pytest.raises(PipelineError, match=r"train\.source"):
        train_bpe(JOINT, tmp_path, tmp_path / "bpe", tmp_path / "report.json")
    assert not (tmp_path / "bpe").exists()


def test_damaged_or_foreign_models_are_refused(tmp_path: Path, trained: Path) -> None:
    folder = copy_corpus(trained, tmp_path / "bpe")
    whole = (folder / "joint.model").read_bytes()
    with pytest.raises(PipelineError, match=r"meta\.json: not found"):
        Tokenizer.load(tmp_path)
    for damaged in (b"", b"junk", whole[:100]):
        (folder / "joint.model").write_bytes(damaged)
        with pytest.raises(PipelineError, match=r"joint\.model: "):
            Tokenizer.load(folder)
    (folder / "joint.model").write_bytes(whole)
    (folder / "meta.json").write_text(json.dumps({"joint": True, "digest": "0" * 64}), encoding="utf-8")
    with pytest.raises(PipelineError, match=r"joint\.model: not the vocabulary"):
        Tokenizer.load(folder)
    (folder / "joint.model").unlink()
    with pytest.raises(PipelineError, match=r"joint\.model: not found"):
        Tokenizer.load(folder)


@pytest.mark.parametrize("content", ["{}", "[]", "7", '{"joint": true}', '{"digest": "0"}'])
def test_a_description_without_the_vocabulary_is_named(tmp_path: Path, trained: Path, content: str) -> None:
    folder = copy_corpus(trained, tmp_path / "bpe")
    (folder / "meta.json").write_text(content, encoding="utf-8")
    with pytest.raises(PipelineError, match=r"meta\.json: does not describe a vocabulary; run `dvc checkout`"):
        Tokenizer.load(folder)


def test_a_folder_in_the_place_of_a_model_is_named(tmp_path: Path, trained: Path) -> None:
    folder = copy_corpus(trained, tmp_path / "bpe")
    (folder / "joint.model").unlink()
    (folder / "joint.model").mkdir()
    with pytest.raises(PipelineError, match=r"joint\.model: cannot be read: Is a directory"):
        Tokenizer.load(folder)


def copy_corpus(folder: Path, to: Path) -> Path:
    """Copy files without their digests."""
    to.mkdir()
    for path in folder.iterdir():
        if path.name != SUMS:
            (to / path.name).write_bytes(path.read_bytes())
    return to


def test_dropout_writes_the_same_text_in_other_pieces(trained: Path, tokenizer: Tokenizer) -> None:
    """By the seed of each pair alone; what an unknown piece stood for is lost, so its side keeps its pieces."""
    file = Pairs.open(trained / "train.pairs", tokenizer.digest)
    pairs = [(file.source(row), file.target(row)) for row in range(60)]
    pairs.append(([9, UNK, 11], pairs[0][1]))
    seeds = list(range(len(pairs)))
    found = tokenizer.resampled(pairs, 0.3, seeds)
    for side in (0, 1):
        known, anew = ([list(map(int, pair[side])) for pair in some] for some in (pairs[:60], found[:60]))
        assert tokenizer.decode_targets(anew) == tokenizer.decode_targets(known)  # one vocabulary for both sides
        assert sum(map(len, anew)) > 1.1 * sum(map(len, known)) and UNK not in np.concatenate(anew)
    assert list(found[60][0]) == [9, UNK, 11] and len(found[60][1]) > 0
    backwards = tokenizer.resampled(pairs[::-1], 0.3, seeds[::-1])[::-1]
    assert [[list(side) for side in pair] for pair in backwards] == [[list(side) for side in pair] for pair in found]
    others = tokenizer.resampled(pairs, 0.3, [seed + 1 for seed in seeds])
    assert sum(list(one[0]) != list(other[0]) for one, other in zip(found, others, strict=True)) > 50


def test_pairs_are_divided_anew_in_every_epoch(trained: Path, tokenizer: Tokenizer) -> None:
    """And the same again, wherever a run begins; those that would become too long are not."""
    file, rows = Pairs.open(trained / "train.pairs", tokenizer.digest), np.arange(5, 25)
    plain = PairBatches([file], 60)[Slice(rows, 1.0)]
    dropping = PairBatches([file], 60, Resample(tokenizer, 0.3, seed=1))
    first, again, second = (dropping[Slice(rows, 1.0, epoch)] for epoch in (0, 0, 1))
    assert torch.equal(first.target, again.target) and torch.equal(first.source, again.source)
    assert first.target_lengths.sum() > plain.target_lengths.sum()
    assert first.target_lengths.tolist() != second.target_lengths.tolist()
    longest = int(max(file.source_lengths[rows].max(), file.target_lengths[rows].max())) + 1
    tight = PairBatches([file], longest, Resample(tokenizer, 0.9, seed=1))[Slice(rows, 1.0)]
    assert tight.target.shape[1] < longest and tight.target_lengths.tolist() == plain.target_lengths.tolist()
