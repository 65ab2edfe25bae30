"""Hypotheses on disk, scores with signatures, the paired test."""

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.evaluation.metrics.gleu import score_gleu
from pipeline.evaluation.quality import (
    HypothesisLine,
    read_hypotheses,
    score,
    write_hypotheses,
)
from pipeline.params import EvaluationSettings

ANIMALS = product(("red", "grey", "old", "shy"), ("fox", "hare", "owl", "toad", "crow"))
REFERENCES = [f"the {colour} {animal} crosses river number {number} before noon"
              for number, (colour, animal) in enumerate(ANIMALS)]


def line(index: int, text: str = "word") -> HypothesisLine:
    return HypothesisLine(index, text, 1, 2, True)


def test_hypotheses_come_back_in_order_and_unchanged(tmp_path: Path) -> None:
    texts = ["", "one\u2028line", "carriage\rreturn", "line\nfeed", "\x0b\x0c\x85", "שלום 🙂 \"quoted\" \\"]
    lines = [line(index, text) for index, text in enumerate(texts)]
    path = tmp_path / "family" / "greedy.jsonl"
    write_hypotheses(path, lines[::-1], range(len(lines)))
    assert read_hypotheses(path, len(lines)) == lines
    assert path.read_bytes().count(b"\n") == len(lines)
    first = json.loads(path.read_text("utf-8").split("\n")[0])
    assert list(first) == ["index", "hypothesis", "tokens", "calls", "ended"]


@given(st.lists(st.integers(-1, 6), max_size=7), st.integers(0, 6))
def test_only_complete_sets_are_written(tmp_path_factory: pytest.TempPathFactory, indices: list[int],
                                        sentences: int) -> None:
    path = tmp_path_factory.mktemp("hypotheses") / "beam.jsonl"
    lines = [line(index) for index in indices]
    if sorted(indices) == list(range(sentences)):
        write_hypotheses(path, lines, range(sentences))
        assert len(read_hypotheses(path, sentences)) == sentences
    else:
        with pytest.raises(PipelineError):
            write_hypotheses(path, lines, range(sentences))
        assert not path.exists()


@pytest.mark.parametrize(("indices", "sentences", "message"), [
    ([0, 2, 3], 4, "sentence 1 is missing"),
    ([0, 1], 3, "sentence 2 is missing"),
    ([0, 1, 1, 2], 3, "sentence 1 occurs 2 times"),
    ([0, 1, 7], 2, "sentence 7 is outside the test set of 2 sentences"),
])
def test_the_first_wrong_index_is_named(tmp_path: Path, indices: list[int], sentences: int,
                                        message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        write_hypotheses(tmp_path / "beam.jsonl", [line(index) for index in indices], range(sentences))


GOOD = '{"index": 0, "hypothesis": "a", "tokens": 1, "calls": 2, "ended": true}\n'


@pytest.mark.parametrize(("content", "message"), [
    (GOOD + "{half", ":2: not a hypothesis"),
    (GOOD + "[]\n", ":2: not a hypothesis"),
    (GOOD.replace(', "ended": true', ""), ":1: not a hypothesis"),
    (GOOD.replace('"a"', "null"), ":1: not a hypothesis .hypothesis is None"),
    (GOOD.replace('"calls": 2', '"calls": true'), ":1: not a hypothesis .calls is True"),
    (GOOD + GOOD, ":2: sentence 0 where 1 should be"),
    (GOOD, ": 1 hypotheses for 2 references"),
    (GOOD + GOOD.replace("0", "1") + GOOD.replace("0", "2"), ": 3 hypotheses for 2 references"),
])
def test_damaged_hypotheses_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "beam.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(PipelineError, match=message) as refused:
        read_hypotheses(path, 2)
    assert "\n" not in str(refused.value)


def test_absent_hypotheses_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"absent\.jsonl: not found"):
        read_hypotheses(tmp_path / "absent.jsonl", 1)


def test_scores_are_those_of_the_definitions() -> None:
    quality = score(["a b c d e"], [["a b c d f"]])
    assert quality.bleu == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert quality.ter == pytest.approx(100 * 1 / 5)
    perfect = score(REFERENCES, [REFERENCES])
    assert (perfect.bleu, perfect.chrf, perfect.ter) == pytest.approx((100, 100, 0))


def test_several_references_count_together() -> None:
    # Every n-gram is in one of the two; the mean length of the references is what TER divides by.
    two = [["a b c d e x y"], ["v a b c d e"]]
    quality = score(["a b c d e x y"], two)
    assert (quality.bleu, quality.chrf, quality.ter) == pytest.approx((100, 100, 0))
    assert "nrefs:2|" in quality.bleu_signature
    mixed = score(["a b c q d e"], [["a b c x d e"], ["a y c q d e"]])
    assert mixed.bleu > max(score(["a b c q d e"], [[one]]).bleu for one in ("a b c x d e", "a y c q d e"))


def test_further_metrics_are_those_that_were_asked_for() -> None:
    sources, hypotheses = ["he go home now", "so it was"], ["he goes home now", "so is was"]
    references = [["he goes home now", "so it was"], ["he went home now", "so it is"]]
    plain = score(hypotheses, references)
    assert (plain.precision, plain.recall, plain.f05, plain.edits_signature, plain.gleu, plain.gleu_signature) \
        == (None,) * 6
    edits = score(hypotheses, references, sources=sources, metrics=["edits"])
    assert (edits.precision, edits.recall, edits.f05) == pytest.approx((50, 100, 100 * 0.625 / 1.125))
    assert edits.edits_signature and edits.edits_signature.startswith("edits|refs:2|") and edits.gleu is None
    both = score(hypotheses, references, sources=sources, metrics=["edits", "gleu"])
    assert both.gleu == score_gleu(hypotheses, sources, references).gleu > 0
    assert (both.bleu, both.f05) == (plain.bleu, edits.f05)
    with pytest.raises(PipelineError, match="1 sources for 2 references"):
        score(hypotheses, references, sources=sources[:1], metrics=["gleu"])


def test_unknown_metrics_are_refused() -> None:
    assert build(EvaluationSettings, {"metrics": ["gleu", "edits"]}, "evaluation").metrics == ("gleu", "edits")
    with pytest.raises(PipelineError, match=r"evaluation\.metrics\[1\] is 'm2'; choose one of edits, errant, gleu"):
        build(EvaluationSettings, {"metrics": ["gleu", "m2"]}, "evaluation")


def test_signatures_say_how_the_text_was_cut() -> None:
    assert "|tok:13a|" in score(REFERENCES, [REFERENCES]).bleu_signature
    chinese = score(["打开厨房的灯"], [["关上厨房的灯"]], tokenizer="zh")
    assert "|tok:zh|" in chinese.bleu_signature
    assert "|asian:yes|" in chinese.ter_signature
    assert chinese.ter == pytest.approx(100 * 2 / 6)
    japanese = score(["台所の明かりを消す"], [["台所の電気を消す"]], tokenizer="char")
    assert japanese.ter == pytest.approx(100 * 3 / 8)  # of characters: a sentence is not one word
    assert japanese.ter_signature.endswith("|words:char")
    korean = score(["불을 꺼"], [["불을 켜"]], tokenizer="char")
    assert korean.ter == pytest.approx(100 * 1 / 3)  # spaces are no characters


@pytest.mark.parametrize(("hypotheses", "references", "tokenizer", "message"), [
    (["a"], [["a", "b"]], "13a", "1 hypotheses for 2 references"),
    (["a", "b"], [["a"]], "13a", "2 hypotheses for 1 references"),
    (["a", "b"], [["a", "b"], ["a"]], "13a", "2 hypotheses for 1 references"),
    ([], [], "13a", "empty"),
    ([], [[]], "13a", "empty"),
    (["a"], [["a"]], "14b", "'14b' is unknown; use one of .*13a"),
])
def test_bad_input_to_score_is_refused(hypotheses: list[str], references: list[list[str]], tokenizer: str,
                                       message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        score(hypotheses, references, tokenizer)
