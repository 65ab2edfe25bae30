"""SARI, ROUGE-L and BLEU of Moses tokens against plain definitions, ERRANT with an invented annotator."""

import importlib.metadata
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from invented_run import Run, measured

from pipeline.errors import PipelineError
from pipeline.evaluation.metrics.edits import edits_between, score_edits
from pipeline.evaluation.metrics.errant import load_annotator, score_errant
from pipeline.evaluation.metrics.moses import score_moses
from pipeline.evaluation.metrics.rouge import longest_common_subsequence, score_rouge
from pipeline.evaluation.metrics.sari import score_sari
from pipeline.evaluation.quality import score
from pipeline.evaluation.rows import Row
from pipeline.strict_yaml import read_yaml
from pipeline.workspace import write_facts

ROOT = Path(__file__).parents[2]
WORDS = st.lists(st.sampled_from("abc"), max_size=7)
SENTENCES = st.lists(st.sampled_from(("a", "b", "c", "d")), max_size=6).map(" ".join)


def plain_sari(source: str, hypothesis: str, references: list[str]) -> float:
    """The table of the module, gram by gram, for a corpus of one sentence."""
    total = 0.0
    for n in (1, 2, 3, 4):
        S, C, *each = (Counter(tuple(words[i:i + n]) for i in range(len(words) - n + 1))
                       for words in map(str.split, (source, hypothesis, *references)))
        r, grams = len(references), {*S, *C, *(gram for one in each for gram in one)}
        R = {gram: sum(one[gram] for one in each) for gram in grams}
        add = [sum(bool(C[g]) and not S[g] and R[g] > 0 for g in grams), sum(bool(C[g]) and not S[g] for g in grams),
               sum(R[g] > 0 and not S[g] for g in grams)]
        keep = [sum(min(r * S[g], r * C[g], R[g]) for g in grams), sum(min(r * S[g], r * C[g]) for g in grams),
                sum(min(r * S[g], R[g]) for g in grams)]
        delete = [sum(min(max(0, r * S[g] - r * C[g]), max(0, r * S[g] - R[g])) for g in grams),
                  sum(max(0, r * S[g] - r * C[g]) for g in grams), sum(max(0, r * S[g] - R[g]) for g in grams)]
        for right, made, wanted in (add, keep, delete):
            precision, recall = right / made if made else 0, right / wanted if wanted else 0
            total += 2 * precision * recall / (precision + recall) if right else 0
    return 100 * total / 12


@given(SENTENCES, SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3))
def test_sari_is_its_definition(source: str, hypothesis: str, references: list[str]) -> None:
    found = score_sari([hypothesis], [source], [[one] for one in references])
    assert found.sari == pytest.approx(plain_sari(source, hypothesis, references))


def test_sari_sums_over_the_corpus_and_ignores_case() -> None:
    # Each operation: orders 1, 2 and 3 are perfect (a trigram is not kept), and there are no 4-grams.
    once = score_sari(["The cat rests"], ["the CAT perches"], [["the cat Rests"]])
    assert once.sari == pytest.approx(100 * (3 + 2 + 3) / 12)
    twice = score_sari(["the cat rests"] * 2, ["the cat perches"] * 2, [["the cat rests"] * 2])
    assert twice.sari == once.sari
    assert twice.sari_signature == "sari|refs:1|case:lc|tok:13a|order:4|average:corpus|delete:f1|version:1"


@given(WORDS, WORDS)
def test_the_longest_common_subsequence_is_the_longest(first: list[str], second: list[str]) -> None:
    def subsequences(words: list[str]) -> set[tuple[str, ...]]:
        return {chosen for size in range(len(words) + 1) for chosen in combinations(words, size)}

    longest = max(map(len, subsequences(first) & subsequences(second)))
    assert longest_common_subsequence(first, second) == longest


def test_rouge_l_by_hand() -> None:
    # 3 of 4 and 3 of 5 words in common; the second reference is worse.
    found = score_rouge(["storm hits the coast", ""],
                        [["Storm Hits Northern Coast today", "x"], ["calm", "y"]])
    assert found.rouge_l == pytest.approx(100 * (2 * 3 / 9) / 2)
    assert found.rouge_signature == "rougeL|refs:2|case:lc|tok:words|stem:no|average:sentences|version:1"
    assert score_rouge(["A summary."], [["a SUMMARY"]]).rouge_l == 100


def test_they_are_scores_of_a_decoder_if_they_are_asked_for() -> None:
    plain = score(["a b"], [["a c"]])
    assert (plain.sari, plain.sari_signature, plain.rouge_l, plain.rouge_signature) == (None,) * 4
    both = score(["a b"], [["a c"]], sources=["a d"], metrics=["sari", "rouge"])
    assert both.sari == score_sari(["a b"], ["a d"], [["a c"]]).sari and both.rouge_l == 50


@pytest.mark.parametrize(("metric", "name"), [("sari", "SARI"), ("rouge", "ROUGE-L")])
def test_decoders_of_a_task_are_compared_by_its_metric(tmp_path: Path, metric: str, name: str) -> None:
    run: Run = measured(tmp_path, metrics=[metric])
    run.build()
    table = (tmp_path / "reports/decoders.md").read_text("utf-8")
    assert f"| data | {name} | BLEU |" in table and f"{name} signature: " in table
    assert f'alt="{name} of the decoders' in (tmp_path / "data/page/index.html").read_text("utf-8")
    assert {"sari", "rouge_l"} <= {*Row.__dataclass_fields__}


def test_bleu_of_moses_tokens_is_that_of_multi_bleu() -> None:
    """Which does not smooth. In German an ordinal keeps its full stop: nine tokens, counted by hand."""
    assert score_moses(["Das ist ein Test."], [["Das war kein Test."]], "de").moses_bleu == 0
    longer = score(["Er kommt am 3. Mai um 5 Uhr."], [["Er kommt am 3. Mai um 6 Uhr."]], moses="de")
    assert longer.moses_bleu == pytest.approx(100 * (8 / 9 * 6 / 8 * 4 / 7 * 3 / 6) ** 0.25)
    assert longer.moses_signature is not None and "moses:de|sacremoses:" in longer.moses_signature
    assert score(["a"], [["a"]]).moses_bleu is None


class Annotator:
    """An annotator like ERRANT's whose edits are those of `edits_between` on the tokens."""

    nlp = SimpleNamespace(meta={"lang": "en", "name": "invented", "version": "1.0"})

    def parse(self, text: str) -> list[str]:
        return text.split()

    def annotate(self, source: list[str], target: list[str]) -> list[Any]:
        return [SimpleNamespace(o_start=edit.start, o_end=edit.end, c_str=" ".join(edit.words),
                                type="UNK" if edit.words == ("unsure",) else "R:OTHER")
                for edit in edits_between(source, target)]


@pytest.fixture
def errant(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("errant")
    module.load = lambda language: Annotator()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "errant", module)
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3" if name == "errant" else version(name))
    load_annotator.cache_clear()
    yield module
    load_annotator.cache_clear()


def test_errant_s_edits_are_counted_as_ours_are(errant: ModuleType) -> None:
    sources = ["he go home now", "so it was", "it is fine"]
    hypotheses = ["he goes home now", "so is was", "it is unsure"]
    references = [["he goes home now", "so it was", "it is fine"], ["he went home now", "so it is", "it is fine"]]
    found = score_errant(hypotheses, sources, references)
    # The edit of the third sentence is of a type that does not count.
    assert found[:3] == score_edits([*hypotheses[:2], sources[2]], sources, references)[:3]
    assert found.edits_signature == ("errant|refs:2|case:mixed|tok:spaces|merge:rules|beta:0.5|version:3|"
                                     "model:en_invented-1.0")
    assert score(hypotheses, references, sources=sources, metrics=["errant"]).f05 == found.f05


@pytest.mark.parametrize(("error", "missing"), [(ImportError("errant"), "ERRANT"),
                                                (OSError("[E050] Can't find model"), "spaCy's model en_core_web_sm")])
def test_an_absent_scorer_is_told_before_anything_is_trained(tmp_path: Path, errant: ModuleType, error: Exception,
                                                             missing: str) -> None:
    def load(language: str) -> Annotator:
        raise error

    errant.load = load  # type: ignore[attr-defined]
    content = read_yaml(ROOT / "params.yaml")
    content["corpus"] |= {"target_language": "en", "source_language": "de"}
    content["evaluation"]["metrics"] = ["errant"]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(PipelineError, match=f"'errant' needs {missing}, which is not installed; run pip") as told:
        write_facts(tmp_path)  # the first stage of every run
    assert "\n" not in str(told.value) and list(tmp_path.iterdir()) == [tmp_path / "params.yaml"]
