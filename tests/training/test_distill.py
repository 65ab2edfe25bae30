"""Distillation: cut short and run again, it writes the same bytes (for two devices see test_devices.py)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Pairs
from pipeline.decoding import beam
from pipeline.decoding.limits import LengthLimit
from pipeline.distillation import DistillationModule, shards_folder
from pipeline.files import atomic_path
from pipeline.model.checkpoint import load_checkpoint
from pipeline.sources.readers import files
from pipeline.training.metrics import CorpusBleu

PAIRS, REPORT = Path("data/distilled/train.pairs"), Path("reports/distilled.json")
SHARDS = Path("checkpoints/.work/.shards")


def distill() -> tuple[bytes, bytes]:
    assert main(["distill", "--devices", "1", "--accelerator", "cpu"]) == 0
    return PAIRS.read_bytes(), REPORT.read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    folder = tmp_path_factory.mktemp("distilled") / "workspace"
    shutil.copytree(toy_folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return distill()


class Broken(Exception):
    pass


def broken_off(*arguments: object) -> None:
    raise Broken


@pytest.mark.parametrize("finished", [0, 1, 4])
def test_cut_short_it_goes_on(workspace: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: tuple[bytes, bytes],
                              finished: int) -> None:
    made: list[int] = []
    original = DistillationModule.predict_step

    def predict_step(self: DistillationModule, shard: int, batch_idx: int) -> None:
        if len(made) == finished:
            raise Broken
        made.append(shard)
        original(self, shard, batch_idx)

    with monkeypatch.context() as patch, pytest.raises(Broken):
        patch.setattr(DistillationModule, "predict_step", predict_step)
        distill()
    assert not PAIRS.exists()
    assert len(list(SHARDS.rglob("shard-*"))) == finished == len(made)

    again: list[int] = []
    monkeypatch.setattr(DistillationModule, "predict_step", lambda self, shard, batch_idx: (
        again.append(shard), original(self, shard, batch_idx))[1])
    assert distill() == uninterrupted
    assert not set(again) & set(made) and len(again) + len(made) == 5  # 300 pairs in shards of 64
    assert not SHARDS.exists()


@pytest.fixture
def two_shards(workspace: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: tuple[bytes, bytes]) -> list[int]:
    """The workspace of a run that was cut short after two shards, and the shards that are translated from then on."""
    original, made = DistillationModule.predict_step, list[int]()

    def predict_step(self: DistillationModule, shard: int, batch_idx: int) -> None:
        if len(made) == 2:
            raise Broken
        made.append(shard)
        original(self, shard, batch_idx)

    with monkeypatch.context() as patch, pytest.raises(Broken):
        patch.setattr(DistillationModule, "predict_step", predict_step)
        distill()
    again: list[int] = []
    monkeypatch.setattr(DistillationModule, "predict_step", lambda self, shard, batch_idx: (
        again.append(shard), original(self, shard, batch_idx))[1])
    return again


def test_other_code_begins_anew(two_shards: list[int], monkeypatch: pytest.MonkeyPatch,
                                uninterrupted: tuple[bytes, bytes]) -> None:
    monkeypatch.setattr("pipeline.distillation.code_digest", lambda *more: "of other code")
    assert distill() == uninterrupted
    assert sorted(two_shards) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("damage", [
    lambda content: content[:len(content) // 2], lambda content: b"",
    lambda content: content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
    lambda content: content[:600] + bytes([content[600] ^ 1]) + content[601:]])
def test_a_damaged_shard_is_made_again(two_shards: list[int], uninterrupted: tuple[bytes, bytes],
                                       capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes]) -> None:
    shard = sorted(SHARDS.rglob("shard-*"))[0]
    shard.write_bytes(damage(shard.read_bytes()))
    assert distill() == uninterrupted
    assert len(two_shards) == 4
    assert f"{shard}: damaged; its sentences are translated again\n" in capsys.readouterr().err


def test_cut_sources_are_counted(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the definition: of more pieces than the teacher reads with an end symbol after them."""
    distill()
    assert json.loads(REPORT.read_text())["sources_cut"] == 0 and "cut" not in capsys.readouterr().err
    config = layout.checkpoint("teacher") / "config.json"
    content = json.loads(config.read_text())
    content["network"]["max_length"] = 20
    config.write_text(json.dumps(content))
    distill()
    pairs = Pairs.open(layout.BPE / "train.pairs")
    cut = sum(len(pairs.source(row)) + 1 > 20 for row in range(len(pairs)))
    assert 0 < cut < 300 and json.loads(REPORT.read_text())["sources_cut"] == cut
    assert f"{cut} of 300 sources are cut to the model's 19 pieces\n" in capsys.readouterr().err


@pytest.mark.parametrize("devices", ["0", "-1", "two", ""])
def test_devices_are_a_number_or_auto(workspace: Path, capsys: pytest.CaptureFixture[str], devices: str) -> None:
    assert main(["distill", "--devices", devices]) == 2
    assert capsys.readouterr().err == f"error: --devices: {devices!r} must be a number from 1, or auto\n"


def test_several_translations_of_further_sources_too(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """The two best that ended, and none twice; sources that are known, too short or repeated are left out.

    The sources are those of the file as it is, whatever an unfinished run has read.
    """
    known = layout.read_corpus(layout.CORPUS / "train.source")[:120]
    fresh = [f"{line[:-2]}." for line in known]
    monkeypatch.setattr(files, "inputs", lambda settings: ["more"])
    monkeypatch.setattr(files, "read_monolingual", lambda settings, languages: iter(
        [*known, *Path("more").read_text().splitlines(), "Too short", f" {fresh[3]}\n"]), raising=False)
    change_params({"distillation": {"sentences": 90, "hypotheses": 2, "extra_sources": True}})
    with monkeypatch.context() as patch, pytest.raises(Broken):
        patch.setattr(DistillationModule, "predict_step", broken_off)
        Path("more").write_text("\n".join(fresh[:7]))
        distill()
    Path("more").write_text("\n".join(fresh))
    distill()
    tokenizer = Tokenizer.load(layout.BPE)
    raw, distilled = Pairs.open(layout.BPE / "train.pairs"), Pairs.open(PAIRS, tokenizer.digest)
    teacher, _ = load_checkpoint(layout.checkpoint("teacher"))
    sources = [*(raw.source(row) for row in range(90)), *tokenizer.encode_source(fresh)]
    found = beam.search(teacher, pad_sources(sources, teacher.settings.max_length), LengthLimit(0.5, 4, 63),
                        beam.Settings(3, nbest=2))
    expected = [(list(map(int, sources[row])), found.tokens[row, place, :found.lengths[row, place]].tolist())
                for row in range(210) for place in (0, 1) if found.ended[row, place]]
    pairs = [(distilled.source(row).tolist(), distilled.target(row).tolist()) for row in range(len(distilled))]
    assert pairs == expected and len(pairs) > len({tuple(source) for source, _ in pairs}) > 3
    assert pairs[-1][0] in sources[90:]
    report = json.loads(REPORT.read_text())
    assert report["extra_sources"] == 120 and report["pairs"] == len(pairs)
    assert report["without_end"] == 210 - len({tuple(source) for source, _ in pairs})
    assert report["mean_length"] == pytest.approx(np.mean([len(target) for source, target in pairs
                                                           if source not in sources[90:]]), abs=0.006)


def test_the_length_penalty_is_that_of_the_best_validation(
        workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch,
        bleu_tokenizers: set[str]) -> None:
    """It is chosen once, and kept for a run that is cut short."""
    change_params({"distillation": {"sentences": 120, "length_penalty": [0.0, 2.0, 1.0], "validation_sentences": 9},
                   "evaluation": {"bleu_tokenizer": "char"}})
    scores = [1.0, 3.0, 2.0]
    monkeypatch.setattr(CorpusBleu, "compute", lambda self: torch.tensor(scores.pop(0)))
    with monkeypatch.context() as patch, pytest.raises(Broken):
        patch.setattr(DistillationModule, "predict_step", broken_off)
        distill()
    distill()
    assert scores == [] and bleu_tokenizers == {"char"}
    tokenizer, teacher = Tokenizer.load(layout.BPE), load_checkpoint(layout.checkpoint("teacher"))[0]

    def search(split: str, count: int, alpha: float) -> list[list[int]]:
        pairs = Pairs.open(layout.BPE / f"{split}.pairs")
        source = pad_sources([pairs.source(row) for row in range(count)], teacher.settings.max_length)
        found = beam.search(teacher, source, LengthLimit(0.5, 4, 63), beam.Settings(3, beam.LengthPenalty(alpha=alpha)))
        ended = found.ended[:, 0].tolist() if split == "train" else [True] * count
        return [words for words, whole in zip(found.best_words(), ended, strict=True) if whole]

    chosen = json.loads(REPORT.read_text())["length_penalty"]
    references = Pairs.open(layout.BPE / "validation.pairs").target_lengths[:9].sum()
    for alpha in (0.0, 2.0, 1.0):
        ratio = sum(map(len, search("validation", 9, alpha))) / references
        assert chosen["validation"][str(alpha)]["length_ratio"] == pytest.approx(ratio, abs=1e-4)
    assert chosen["alpha"] == 2.0 and chosen["validation"]["2.0"]["bleu"] == 3.0
    distilled = Pairs.open(PAIRS, tokenizer.digest)
    written = [distilled.target(row).tolist() for row in range(len(distilled))]
    assert written == search("train", 120, 2.0) != search("train", 120, 0.0)


def test_another_teacher_begins_anew(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                     uninterrupted: tuple[bytes, bytes]) -> None:
    original, made = DistillationModule.predict_step, []

    def predict_step(self: DistillationModule, shard: int, batch_idx: int) -> None:
        if len(made) == 2:
            raise Broken
        made.append(shard)
        original(self, shard, batch_idx)

    shutil.copytree("checkpoints/teacher", "teacher")
    shutil.rmtree("checkpoints/teacher")
    shutil.copytree("checkpoints/interleaved", "checkpoints/teacher")
    with monkeypatch.context() as patch, pytest.raises(Broken):
        patch.setattr(DistillationModule, "predict_step", predict_step)
        distill()
    shutil.rmtree("checkpoints/teacher")
    shutil.copytree("teacher", "checkpoints/teacher")
    assert distill() == uninterrupted


def test_a_process_that_a_killed_run_has_left_does_not_meet_the_next_one(
        workspace: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: tuple[bytes, bytes]) -> None:
    """It goes on writing what another teacher translates, where that one's shards are."""
    original, left = DistillationModule.predict_step, shards_folder(SHARDS, {"teacher": "another"})

    def predict_step(self: DistillationModule, shard: int, batch_idx: int) -> None:
        original(self, shard, batch_idx)
        with atomic_path(left / f"shard-{shard + 1:06d}.npz") as aside:
            aside.write_bytes(b"another teacher's")

    monkeypatch.setattr(DistillationModule, "predict_step", predict_step)
    assert distill() == uninterrupted
    assert not SHARDS.exists()


def test_every_sentence_is_the_teachers_translation(workspace: Path) -> None:
    distill()
    tokenizer = Tokenizer.load(layout.BPE)
    raw, distilled = Pairs.open(layout.BPE / "train.pairs", tokenizer.digest), Pairs.open(PAIRS, tokenizer.digest)
    teacher, _ = load_checkpoint(layout.checkpoint("teacher"))
    source = pad_sources([raw.source(row) for row in range(len(raw))], teacher.settings.max_length)
    found = beam.search(teacher, source, LengthLimit(0.5, 4, 63), beam.Settings(3))
    ended = found.ended[:, 0].nonzero().squeeze(1).tolist()
    # A translation that met the length limit teaches nothing and is left out.
    assert 10 < len(ended) == len(distilled) < len(raw)
    for place, row in enumerate(ended):
        assert np.array_equal(distilled.source(place), raw.source(row))
        assert distilled.target(place).tolist() == found.tokens[row, 0, :found.lengths[row, 0]].tolist()
