"""`score` says what a search would have said; `average` is the mean of the weights."""

import io
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipeline import layout
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.model.checkpoint import load_checkpoint
from pipeline.vocabulary import EOS

PAIRS = [("The tiny otter paints the ladder no 1 .", "mip lumo"), ("The red snail", ""),
         ("The pale moth", "fenn siki aro")]


def scored(lines: str, family: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes],
           ) -> tuple[int, list[list[str]], str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    status = main(["score", "--family", family, "--device", "cpu"])
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


def test_a_line_without_a_tab_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    status, _, said = scored("a red moth\tlumo\nno tab\n", "teacher", monkeypatch, capsysbinary)
    assert status == 2 and said == "error: standard input: line 2 has no tab; give SOURCE<TAB>TRANSLATION\n"


def test_the_average_of_a_checkpoint_with_itself_is_itself(workspace: Path) -> None:
    folder = str(layout.checkpoint("teacher"))
    assert main(["average", folder, folder, "--output", "mean"]) == 0
    before, after = load_file(f"{folder}/weights.safetensors"), load_file("mean/weights.safetensors")
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)


def test_families_are_not_averaged_with_each_other(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(layout.checkpoint(family)) for family in ("teacher", "interleaved")]
    assert main(["average", *folders, "--output", "mean"]) == 2
    assert "its order differs" in capsys.readouterr().err
    assert not Path("mean").exists()


def test_an_average_overwrites_nothing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(layout.checkpoint("teacher"))
    assert main(["average", folder, "--output", folder]) == 2
    assert "exists" in capsys.readouterr().err
