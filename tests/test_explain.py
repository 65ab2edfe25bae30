"""`explain`: what became of every token, on rounds made by hand and on what random models draft."""

import argparse
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import sources

from pipeline import layout
from pipeline.commands import explain
from pipeline.corpus.bpe import Tokenizer
from pipeline.decoding import iad
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance
from pipeline.decoding.verify import Round
from pipeline.errors import PipelineError
from pipeline.trace import Fate, Marked, MarkedRound, Trace, departures, mark_rounds, output_of, render
from pipeline.vocabulary import EOS, PAD

A, R, B, D = Fate.ACCEPTED, Fate.RELAXED, Fate.BIFURCATION, Fate.DROPPED
PIECES = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "<eod>", "<length>", *(f"▁w{n}" for n in range(7, 40))]


def one(draft: list[int], verdict: list[int], accepted: int) -> Round:
    return Round(torch.tensor([0]), torch.tensor([draft], dtype=torch.long), torch.tensor([verdict]),
                 torch.tensor([accepted]))


def fates(marked: list[Marked]) -> list[Fate]:
    return [token.fate for token in marked]


@pytest.mark.parametrize(("draft", "verdict", "accepted", "drafted", "predicted"), [
    ([10, 11, 12], [10, 11, 12, 13], 4, [A, A, A], [A, A, A, A]),          # all of it
    ([10, 11, 12], [20, 21, 22, 23], 1, [B, D, D], [B, D, D, D]),          # nothing of it
    ([10, 11, 12], [10, 21, 12, 23], 2, [A, B, D], [A, B, D, D]),          # agreement after the bifurcation is void
    ([10, EOS, 12], [10, EOS, 22, 23], 2, [A, A], [A, A]),                 # the end inside the block
    ([10, 11, 12], [10, EOS, 22, 23], 2, [A, B, D], [A, B]),               # the verifier ends where the draft does not
    ([10, EOS, 12], [10, 21, 22, EOS], 2, [A, B], [A, B, D, D]),           # the draft ends where the verifier does not
    ([10, 11, 12], [10, 11, 12, 13], 2, [A, A, D], [A, A, D, D]),          # cut by the limit
    ([], [10], 1, [], [A]),                                                # nothing drafted
    ([10, PAD, PAD], [10, 13, 20, 21], 2, [A], [A, A]),                    # a short draft in a wide batch
    ([PAD, PAD], [13, 20, 21], 1, [], [A]),                                # none in a wide batch
])
def test_a_round(draft: list[int], verdict: list[int], accepted: int, drafted: list[Fate],
                 predicted: list[Fate]) -> None:
    marked, = mark_rounds([one(draft, verdict, accepted)], 0, [False] * accepted)
    assert (fates(marked.draft), fates(marked.verdict)) == (drafted, predicted)
    assert [token.token for token in marked.verdict] == verdict[:len(predicted)]
    assert [token.token for token in marked.draft] == draft[:len(drafted)]
    assert marked.accepted == accepted


def test_what_is_kept_by_relaxation_is_found_by_its_slot() -> None:
    rounds = [one([10, 11], [10, 21, 22], 2), one([12, 13], [12, 13, 14], 3)]
    first, second = mark_rounds(rounds, 0, [True, False, False, True, False])
    assert (fates(first.draft), fates(first.verdict)) == ([R, B], [R, B, D])
    assert (fates(second.draft), fates(second.verdict)) == ([A, R], [A, R, A])
    assert output_of(rounds, 0) == [10, 21, 12, 13, 14]


def test_sentences_of_a_batch_are_told_apart() -> None:
    """The first sentence ends in the first round, so the second one is row 1 and then row 0."""
    rounds = [Round(torch.tensor([0, 1]), torch.tensor([[10, EOS], [11, PAD]]),
                    torch.tensor([[10, EOS, 9], [21, 9, 9]]), torch.tensor([2, 1])),
              Round(torch.tensor([1]), torch.tensor([[12]]), torch.tensor([[12, EOS]]), torch.tensor([2]))]
    assert (output_of(rounds, 0), output_of(rounds, 1)) == ([10, EOS], [21, 12, EOS])
    assert len(mark_rounds(rounds, 0, [False] * 2)) == 1
    first, second = mark_rounds(rounds, 1, [False] * 3)
    assert (fates(first.draft), fates(first.verdict)) == ([B], [B, D])
    assert (fates(second.draft), fates(second.verdict)) == ([A], [A, A])


TRACE = Trace("The red otter", "w10 w21", [
    MarkedRound([Marked(10, A), Marked(11, B), Marked(12, D)], [Marked(10, A), Marked(21, B), Marked(8, D)]),
    MarkedRound([Marked(13, R)], [Marked(13, R), Marked(EOS, A)])], drafter_calls=2)


def test_signs_stand_for_colours() -> None:
    assert render(TRACE, PIECES, colour=False) == (
        "  The red otter\n"
        "  1 D  ▁w10 [▁w11] ~▁w12~\n"
        "    V  ▁w10 [▁w21] ~▁w8~\n"
        "  2 D  (▁w13)\n"
        "    V  (▁w13) </s>\n"
        "  = w10 w21\n"
        "    calls: 2 of the verifier, 2 of the drafter; accepted: 4 tokens, 2.00 per call\n")


def test_colours_hold_the_same_text() -> None:
    painted = render(TRACE, PIECES, colour=True)
    for text in ("\x1b[32m▁w10\x1b[0m", "\x1b[1;31m▁w11\x1b[0m", "\x1b[1;31m▁w21\x1b[0m", "\x1b[34m▁w13\x1b[0m",
                 "\x1b[2;9m▁w12\x1b[0m"):
        assert text in painted
    plain = re.sub(r"\x1b\[[0-9;]*m", "", painted)
    assert plain.split() == re.sub(r"[][()~]", "", render(TRACE, PIECES, colour=False)).split()


@pytest.mark.parametrize("acceptance", [Acceptance(), Acceptance(3, 2.0)], ids=["exact", "relaxed"])
def test_marks_add_up_to_the_output(tiny: Callable[..., Any], acceptance: Acceptance) -> None:
    model = tiny()

    @settings(max_examples=15)
    @given(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    def check(lengths: list[int]) -> None:
        source = sources(*lengths)
        found = iad.search(model, source, LengthLimit(2.0, 5, 40), iad.Settings(acceptance=acceptance))
        assert found.verification is not None
        rounds = found.verification.rounds
        for sentence in range(len(source)):
            output = output_of(rounds, sentence)
            row = source[sentence:sentence + 1]
            relaxed = departures(model, row[row != PAD].unsqueeze(0), output)
            marked = mark_rounds(rounds, sentence, relaxed)
            assert len(marked) == int(found.calls[sentence])
            kept = [token.token for part in marked for token in part.verdict if token.fate is not D]
            length = int(found.lengths[sentence, 0])
            assert kept == output
            assert kept[:length] == found.tokens[sentence, 0, :length].tolist()
            assert kept[length:] == [EOS] * int(found.ended[sentence, 0])
            for part in marked:
                assert fates(part.draft).count(B) == fates(part.verdict).count(B) <= 1
                for drafted, predicted in zip(part.draft, part.verdict, strict=False):
                    assert drafted.fate is predicted.fate
                    assert drafted == predicted if drafted.fate in (A, R) else drafted.fate is D or drafted != predicted
            if acceptance.exact:
                assert not any(relaxed)
    check()


def test_some_tokens_are_kept_by_relaxation_only(tiny: Callable[..., Any]) -> None:
    model = tiny()
    found = iad.search(model, source := torch.tensor([[9, 10, 11, 12, 13, 14, EOS]]), LengthLimit(2.0, 5, 40),
                       iad.Settings(acceptance=Acceptance(20, 100.0)))
    assert found.verification is not None
    relaxed = departures(model, source, output_of(found.verification.rounds, 0))
    first, *_ = mark_rounds(found.verification.rounds, 0, relaxed)
    assert [token.token for token in first.draft] == [9, 10, 11, 12, 13, 14]
    assert R in fates(first.draft) and not {B, D} & set(fates(first.draft))


Explain = Callable[..., str]


@pytest.fixture
def run_explain(workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch,
                capsysbinary: pytest.CaptureFixture[bytes]) -> Explain:
    """A function from standard input and options to what is printed."""
    change_params({"decoders": {"iad": {"algorithm": "iad"},
                                "iad++": {"algorithm": "iad", "acceptance": {"beta": 120, "tau": 50.0}}}})

    def run(text: bytes, *options: str) -> str:
        parser = argparse.ArgumentParser()
        explain.add_arguments(parser)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        explain.run(parser.parse_args(["--family", "teacher", "--device", "cpu", *options]))
        return capsysbinary.readouterr().out.decode()
    return run


LINE = "The red otter paints the lantern no 1 ."


def test_lines_are_explained(run_explain: Explain) -> None:
    printed = run_explain(f"{LINE}\n\nThe pale moth\n".encode(), "--decoder", "iad")
    first, second, third = printed.split("\n\n")
    assert first.startswith(f"  {LINE}\n  1 D  [▁The] ~▁r")
    assert second == "  (no words)" and third.startswith("  The pale moth\n")
    assert re.search(r"calls: \d+ of the verifier, 0 of the drafter; accepted: \d+ tokens, \d\.\d\d per call", first)
    assert "\x1b" not in printed


def test_a_source_that_was_cut_is_noted(run_explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = io.StringIO()
    monkeypatch.setattr(sys, "stderr", noted)
    run_explain(f"{LINE}\n{'otter ' * 1000}\n".encode(), "--decoder", "iad")
    assert noted.getvalue().startswith("line 2: source cut to the model's ")


def test_relaxation_shows(run_explain: Explain) -> None:
    first = run_explain(LINE.encode(), "--decoder", "iad++").splitlines()[1]
    pieces = Tokenizer.load(layout.BPE)
    drafted = [pieces.target_pieces[token] for token in pieces.encode_source([LINE])[0]]
    assert [part.strip("()") for part in first.split()[2:]][:5] == drafted[:5]
    assert "(" in first and "[" not in first


@pytest.mark.parametrize(("choice", "terminal", "environment", "coloured"), [
    ("auto", True, {}, True), ("auto", False, {}, False), ("auto", True, {"NO_COLOR": "1"}, False),
    ("auto", True, {"NO_COLOR": ""}, True), ("auto", True, {"TERM": "dumb"}, False),
    ("always", False, {"NO_COLOR": "1"}, True), ("never", True, {}, False)])
def test_when_there_is_colour(monkeypatch: pytest.MonkeyPatch, choice: str, terminal: bool,
                              environment: dict[str, str], coloured: bool) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stdout", screen)
    assert explain._wants_colour(choice) is coloured


def test_colours_can_be_asked_for(run_explain: Explain) -> None:
    assert "\x1b[1;31m▁The\x1b[0m" in run_explain(LINE.encode(), "--decoder", "iad", "--color", "always")


def test_what_drafts_nothing_cannot_be_explained(run_explain: Explain) -> None:
    with pytest.raises(PipelineError, match="--decoder: 'greedy' drafts nothing"):
        run_explain(LINE.encode(), "--decoder", "greedy")
    with pytest.raises(PipelineError,
                       match="iad searches orders of 1 slots per step, and this model's, interleaved, has 2"):
        run_explain(LINE.encode(), "--decoder", "iad", "--family", "interleaved")
