"""`score` gives a translation the score that a search gives it; `average` is the mean of the weights."""

import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from drafters import drafter
from safetensors.torch import load_file

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.model.checkpoint import load_checkpoint, save_checkpoint, unique_weights
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.networks import rebuild
from pipeline.model.settings import VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.scoring import PairLine, Scorer
from pipeline.vocabulary import EOS

PAIRS = [("The tiny otter paints the ladder no 1 .", "mip lumo"), ("The red snail", ""),
         ("The pale moth", "fenn siki aro")]


def scored(lines: str, family: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes],
           *options: str) -> tuple[int, list[list[str]], str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    status = main(["score", "--family", family, "--device", "cpu", *options])
    printed = capsysbinary.readouterr()
    rows = [line.split("\t") for line in printed.out.decode().split("\n")[:-1]]
    return status, rows, printed.err.decode()


@pytest.mark.parametrize("family", ["teacher", "interleaved"])
def test_a_score_is_the_score_of_teacher_forcing(family: str, workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """One pair at a time, by the definition; `score` takes them as one padded batch."""
    tokenizer = Tokenizer.load(layout.BPE)
    network, _ = load_checkpoint(layout.checkpoint(family))
    status, rows, _ = scored("".join(f"{source}\t{target}\n" for source, target in PAIRS), family, monkeypatch,
                             capsysbinary)
    assert status == 0
    for (source, target), row in zip(PAIRS, rows, strict=True):
        words = torch.tensor(tokenizer.encode_target([target]), dtype=torch.long).view(1, -1)
        arranged = network.order.arrange(words, torch.tensor([words.shape[1]]))
        with torch.no_grad():
            logits = network(torch.tensor([[*tokenizer.encode_source([source])[0], EOS]]), arranged)
        expected = logits.log_softmax(2).gather(2, arranged.unsqueeze(2)).sum().item()
        assert float(row[0]) == pytest.approx(expected, abs=1e-3)
        assert row[1:] == [str(arranged.shape[1]), source, target]


@pytest.mark.parametrize(("line", "tabs"), [("no tab", "no tab"), ("", "no tab"), ("a\tb\tc", "2 tabs")])
def test_a_line_without_exactly_one_tab_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsysbinary: pytest.CaptureFixture[bytes], line: str,
                                                 tabs: str) -> None:
    """A second tab would be scored as a blank of the translation. The lines before it have their scores."""
    status, rows, error = scored(f"a red moth\tlumo\n{line}\n", "teacher", monkeypatch, capsysbinary)
    assert status == 2 and error == f"error: standard input:2: has {tabs}; give SOURCE<TAB>TRANSLATION\n"
    assert rows == scored("a red moth\tlumo\n", "teacher", monkeypatch, capsysbinary)[1]


@pytest.mark.parametrize("side", ["source", "translation"])
def test_two_long_texts_do_not_share_a_score(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                             capsysbinary: pytest.CaptureFixture[bytes], side: str) -> None:
    """The model reads 63 pieces; what follows would change nothing."""
    lines = ["a red moth\tlumo"]
    for last in ("raven", "snail"):
        text = "otter " * 80 + last
        lines.append(f"{text}\tlumo" if side == "source" else f"a red moth\t{text}")
    status, rows, error = scored("".join(line + "\n" for line in lines), "teacher", monkeypatch, capsysbinary)
    assert status == 2 and [row[2:] for row in rows] == [["a red moth", "lumo"]]  # of before
    assert error.startswith(f"error: standard input:2: a {side} of ") and error.count("\n") == 1
    assert error.endswith(" pieces is longer than the model's 63; split the pair, or leave it out\n")


def test_the_longest_source_that_is_read_whole_has_a_score(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                                           capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = next(text for n in range(200) for text in ["o" * n]
                if len(Tokenizer.load(layout.BPE).encode_source([text])[0]) == 63)
    status, rows, _ = scored(f"{text}\tlumo\n", "teacher", monkeypatch, capsysbinary)
    assert status == 0 and len(rows) == 1
    assert scored(f"{text}o\tlumo\n", "teacher", monkeypatch, capsysbinary)[0] == 2


def test_however_many_pairs_are_scored_each_is(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    pairs = [[f"The red otter no {number}", "mip"] for number in range(130)]
    text = "".join("\t".join(pair) + "\n" for pair in pairs)
    whole = scored(text, "teacher", monkeypatch, capsysbinary)
    assert whole[0] == 0 and [row[2:] for row in whole[1]] == pairs
    status, rows, error = scored(f"{text}no tab\n", "teacher", monkeypatch, capsysbinary)
    assert (status, rows) == (2, whole[1]) and error.startswith("error: standard input:131: ")


def test_pairs_are_read_ahead_as_far_as_is_asked_for(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A program that waits for each score would otherwise wait for ever."""
    chunks, score, text = list[int](), Scorer.__call__, "a red moth\tlumo\n" * 33

    def counted(self: Scorer, pairs: Sequence[PairLine]) -> list[tuple[float, int]]:
        chunks.append(len(pairs))
        return score(self, pairs)

    monkeypatch.setattr(Scorer, "__call__", counted)
    Path("pairs.tsv").write_text(text)
    for options, expected in (([], [32, 1]), (["--ahead", "1"], [1] * 33), (["--input", "pairs.tsv"], [33])):
        chunks.clear()
        status, rows, _ = scored(text, "teacher", monkeypatch, capsysbinary, *options)
        assert status == 0 and len(rows) == 33 and list(filter(None, chunks)) == expected
    for option in ("--ahead", "--batch-tokens"):
        assert scored("", "teacher", monkeypatch, capsysbinary, option, "0") == (
            2, [], f"error: {option}: 0 must be at least 1\n")


def test_a_checkpoint_of_another_library_gives_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anything is fetched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.commands.score.open_model", None)
    assert main(["score", "--model", "hf:someone/model"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --model: hf:someone/model is a checkpoint of transformers, which is opened to be ")
    assert "; name a family or a model folder" in error and error.count("\n") == 1
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    assert "hf:NAME" not in capsys.readouterr().out


def test_a_score_of_nothing_is_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert scored("", "teacher", monkeypatch, capsysbinary) == (0, [], "")


def test_a_byte_order_mark_is_not_scored(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    both = [scored(f"{mark}a red moth\tlumo\n", "teacher", monkeypatch, capsysbinary) for mark in ("", "\ufeff")]
    assert both[0] == both[1] and both[0][0] == 0


def test_the_average_of_a_checkpoint_with_itself_is_itself(workspace: Path) -> None:
    folder = str(layout.checkpoint("teacher"))
    assert main(["average", folder, folder, "--output", "mean"]) == 0
    before, after = load_file(f"{folder}/weights.safetensors"), load_file("mean/weights.safetensors")
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)


def test_every_checkpoint_counts_alike_in_an_average(workspace: Path) -> None:
    folder = layout.checkpoint("teacher")
    network, config = load_checkpoint(folder)
    tripled = {name: 3 * weight for name, weight in unique_weights(network).items()}
    save_checkpoint(Path("tripled"), network, VocabularySettings(**config["vocabulary"]), tripled, config["training"])
    for folders in ((folder, Path("tripled")), (Path("tripled"), folder)):
        mean = f"mean of {folders[0].name} first"
        assert main(["average", *map(str, folders), "--output", mean]) == 0
        before, after = load_file(folder / "weights.safetensors"), load_file(f"{mean}/weights.safetensors")
        for name, weight in before.items():
            torch.testing.assert_close(after[name], 2 * weight)


def test_families_are_not_averaged_with_each_other(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(layout.checkpoint(family)) for family in ("teacher", "interleaved")]
    assert main(["average", *folders, "--output", "mean"]) == 2
    assert "its order differs" in capsys.readouterr().err
    assert not Path("mean").exists()


def test_checkpoints_of_other_vocabularies_are_not_averaged(workspace: Path,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    """Whose pieces have other meanings under the same numbers."""
    folder = layout.checkpoint("teacher")
    network, config = load_checkpoint(folder)
    vocabulary = VocabularySettings(**{**config["vocabulary"], "digest": "0" * 64})
    save_checkpoint(Path("other"), network, vocabulary, unique_weights(network), config["training"])
    assert main(["average", str(folder), "other", "--output", "mean"]) == 2
    assert "its vocabulary differs" in capsys.readouterr().err and not Path("mean").exists()


def other_verifier(change: str) -> Transformer:
    """The teacher with other weights, or with a setting that no shape shows."""
    teacher, config = load_checkpoint(layout.checkpoint("teacher"))
    if change == "dropout":
        config["network"]["dropout"] += 0.25
        return cast(Transformer, rebuild(config, VocabularySettings(**config["vocabulary"])))
    next(teacher.parameters()).mul_(2)
    return teacher


@pytest.mark.parametrize(("changes", "verifier", "key"), [
    ({"seed": 4}, "", ""), ({"prefix": "bidirectional"}, "", "prefix"), ({"block": 3}, "", "block"),
    ({"chained": True}, "", "chained"), ({}, "dropout", "verifier"), ({}, "weights", "copy of the verifier"),
])
@torch.no_grad()
def test_drafters_are_averaged_only_if_they_draft_alike_for_one_verifier(
        workspace: Path, changes: dict[str, Any], verifier: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    teacher, config = load_checkpoint(layout.checkpoint("teacher"))
    vocabulary, same = VocabularySettings(**config["vocabulary"]), {"tied_embeddings": "all", "max_length": 64}
    drafters = {"one": drafter(teacher, **same),
                "other": drafter(other_verifier(verifier) if verifier else teacher, **{**same, **changes})}
    for name, network in drafters.items():
        save_checkpoint(Path(name), network, vocabulary, unique_weights(network), {"steps": name})
    assert main(["average", "one", "other", "--output", "mean"]) == (2 if key else 0)
    assert capsys.readouterr().err == (
        f"error: other: its {key} differs from one's; average checkpoints of one family only\n" if key else "")
    assert Path("mean").exists() == (not key)


def test_lattices_are_averaged_only_if_they_have_the_same_counts(lattice_family: Path,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    folder = layout.checkpoint("lattice")
    shutil.copytree(folder, "other")
    assert main(["average", str(folder), "other", "--output", "mean"]) == 0
    network, config = load_checkpoint(folder)
    assert isinstance(network, LatticeTransformer)
    network.attach_counts(network.counts._replace(tension=2.0))
    save_checkpoint(Path("other"), network, VocabularySettings(**config["vocabulary"]), unique_weights(network), {})
    assert main(["average", str(folder), "other", "--output", "another"]) == 2
    assert f"other: its counts.safetensors differs from {folder}'s; " in capsys.readouterr().err


def test_an_average_overwrites_nothing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(layout.checkpoint("teacher"))
    assert main(["average", folder, "--output", folder]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("output", [".", "o" * 300, "params.yaml/mean"])
def test_an_average_that_cannot_be_written(workspace: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert main(["average", str(layout.checkpoint("teacher")), "--output", output]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {output}: ") and error.count("\n") == 1
