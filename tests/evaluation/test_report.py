"""The report of a small invented run: its files, its numbers and what it refuses."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from invented_run import MILLISECONDS, SCRIPT, SENTENCES, Run, measured, references, speeds, translations

from pipeline.checksums import record
from pipeline.errors import PipelineError
from pipeline.evaluation.page import Texts, choose_samples, mark_differences
from pipeline.evaluation.quality import score
from pipeline.evaluation.report import drawn
from pipeline.evaluation.resampled_bleu import Resampled, Scores
from pipeline.evaluation.rows import Name, Row, assemble_rows, pareto, read_lines, read_speed, texts_of, timed_decoders
from pipeline.files import read_json, write_json

KEYS = ["family", "decoder", "data",
        "bleu", "bleu_signature", "chrf", "chrf_signature", "ter", "ter_signature",
        "precision", "recall", "f05", "edits_signature", "gleu", "gleu_signature", "sari",
        "sari_signature", "rouge_l", "rouge_signature", "moses_bleu", "moses_signature", "p_value_vs_ar",
        "ms_per_sentence", "ms_per_sentence_long", "ms_per_sentence_batch32",
        "speedup_vs_beam5", "speedup_vs_beam5_interval", "speedup_vs_greedy", "speedup_vs_greedy_interval",
        "speedup_vs_beam5_all", "speedup_vs_beam5_all_interval",
        "speedup_vs_greedy_all", "speedup_vs_greedy_all_interval",
        "speedup_vs_beam5_batch32", "speedup_vs_beam5_batch32_interval",
        "speedup_vs_greedy_batch32", "speedup_vs_greedy_batch32_interval",
        "ratio_vs_ar_same_decoder", "ratio_vs_ar_same_decoder_interval",
        "tokens_per_second", "tokens_per_second_batch32", "calls", "calls_long",
        "accepted_per_call", "drafter_calls", "identical_to_greedy", "ties"]
WRITTEN = {"claims.json", "decoders.json", "decoders.md", "index.html", "quality_speed.png"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Everything that the report needs."""
    return measured(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same with its report; not to be changed."""
    run = measured(tmp_path_factory.mktemp("run"))
    run.build()
    return run


class Collector(HTMLParser):
    """Counts tags and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"meta", "img", "source", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_rows_have_exactly_the_documented_keys_and_the_numbers_of_their_sources(built: Run) -> None:
    rows = built.rows()
    assert list(rows) == list(MILLISECONDS)
    assert all(list(row) == KEYS for row in rows.values())
    swift = rows["swift", "beam5"]
    assert swift["data"] == "distilled"
    assert swift["bleu"] == pytest.approx(score(translations("swift", "beam5"), [references()]).bleu)
    assert swift["ms_per_sentence"] == pytest.approx(16 * 1.5)
    assert swift["ms_per_sentence_long"] == pytest.approx(16 * 2)
    assert swift["speedup_vs_beam5"] == pytest.approx(40 / 16)
    assert swift["speedup_vs_beam5_interval"] == pytest.approx([40 / 16] * 2)
    assert swift["speedup_vs_greedy"] == pytest.approx(20 / 16)
    assert swift["speedup_vs_beam5_batch32"] == pytest.approx(40 / 16)
    assert swift["ratio_vs_ar_same_decoder"] == pytest.approx(40 / 16)
    assert swift["tokens_per_second"] == pytest.approx(10 / 0.016)
    assert swift["tokens_per_second_batch32"] == pytest.approx(50 / 0.016)
    assert (swift["calls"], swift["calls_long"]) == (5, 20)
    assert swift["identical_to_greedy"] == 15 / 16
    assert swift["p_value_vs_ar"] < 0.05
    assert rows["ar", "beam5"]["p_value_vs_ar"] is None
    assert rows["ar", "beam5"]["ratio_vs_ar_same_decoder"] is None
    assert rows["ar", "greedy"]["identical_to_greedy"] == 1


def test_the_same_run_makes_the_same_bytes(run: Run) -> None:
    def files() -> dict[str, bytes]:
        run.build()
        return {path.name: path.read_bytes() for path in run.root.rglob("*") if path.name in WRITTEN}

    first = files()
    assert first.keys() == WRITTEN
    assert first["quality_speed.png"].startswith(b"\x89PNG")
    assert files() == first


def test_markdown_has_a_row_per_decoder_and_the_signature_below(built: Run) -> None:
    table, _, rest = (built.root / "reports" / "decoders.md").read_text("utf-8").partition("\n\n- **family**")
    cells = [line.count("|") for line in table.splitlines() if line.startswith("|")]
    assert len(cells) == 2 + len(MILLISECONDS) and len(set(cells)) == 1
    assert "| swift | beam5 | distilled |" in table and " 2.50 [2.50, 2.50] " in table
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in rest and "R&D" in rest


def test_a_reference_that_has_changed_is_not_used(run: Run) -> None:
    corpus = run.root / "data/corpus"
    record(corpus, ["test.source", "test.target"])
    text = (corpus / "test.target").read_text("utf-8")
    (corpus / "test.target").write_text(text.swapcase(), "utf-8")
    with pytest.raises(PipelineError, match=r"test\.target: damaged: its SHA-256 is not the one"):
        run.build()


def test_the_page_needs_no_other_file(built: Run) -> None:
    page = (built.root / "data/page/index.html").read_text("utf-8")
    assert "http://" not in page and "https://" not in page
    assert re.findall(r"(?:src|href|srcset)=.{6}", page) == ['srcset="data:', 'src="data:']
    assert not re.search(r"@import|url\(|\$\w", page)
    collector = Collector()
    collector.feed(page)
    assert collector.open == []
    assert collector.tags.count("article") == 10
    assert collector.tags.count("tr") == 1 + len(MILLISECONDS)
    assert 'lang="en"' in page and 'lang="de"' in page


def test_the_page_escapes_what_systems_wrote(built: Run) -> None:
    page = (built.root / "data/page/index.html").read_text("utf-8")
    assert page.count("<script>") == 1  # its own
    assert "&lt;script&gt;" in page and "R&amp;D &lt;1&gt;" in page
    marked = mark_differences(SCRIPT, "die Lampe")
    assert "<script" not in marked and "&lt;script&gt;" in re.sub("</?mark>", "", marked)


def test_differences_are_marked_by_word() -> None:
    assert mark_differences("the old lamp is off", "the lamp is on") == \
        "the <mark>old</mark> lamp is <mark>off</mark>"
    assert mark_differences("lamp", "lamp") == "lamp"
    assert mark_differences("", "lamp") == ""
    assert mark_differences("a  b", "a b") == "a  b"


def test_samples_are_spread_over_lengths_of_disputed_sentences() -> None:
    sources = ["word " * length for length in range(1, 41)]
    one = ["same"] * 40
    other = ["same" if index % 2 else "different" for index in range(40)]
    texts = Texts(sources, [one], {("a", "x"): one, ("b", "x"): other}, "en", "de")
    assert choose_samples(texts, 4) == [4, 14, 24, 34]
    agreed = Texts(sources, [one], {("a", "x"): one, ("b", "x"): one}, "en", "de")
    assert choose_samples(agreed, 4) == [5, 15, 25, 35]
    assert choose_samples(agreed, 99) == list(range(40))


def rows_of(run: Run) -> list[Row]:
    speed = read_speed(run.root / "reports/speed.json")
    texts = texts_of(read_lines(run.root / "data/hypotheses", timed_decoders(speed), SENTENCES))
    return assemble_rows(run.root / "reports/quality", speed, texts, bleu_of(texts))


def bleu_of(texts: Mapping[Name, Sequence[str]]) -> dict[Name, Scores]:
    resampled = Resampled([references()], "13a", samples=10)
    return {name: resampled(found) for name, found in texts.items()}


def test_a_quantised_decoder_is_compared_with_greedy_search_of_its_own_bits(run: Run) -> None:
    """Its promise is the text of the quantised model; whether that is as good is another column."""
    speed = read_speed(run.root / "reports/speed.json")
    texts = texts_of(read_lines(run.root / "data/hypotheses", timed_decoders(speed), SENTENCES))
    rows = assemble_rows(run.root / "reports/quality", speed, texts, bleu_of(texts),
                         greedy_of={"greedy": None, "beam5": "beam5"}.__getitem__)
    identical = {row.name: row.identical_to_greedy for row in rows}
    assert identical["swift", "beam5"] == 1 and identical["ar", "greedy"] is None


def test_the_worthwhile_are_those_that_nothing_beats(run: Run) -> None:
    # In the order of their speed each is better than the one before: beam5 mends a sentence of greedy's.
    assert pareto(rows_of(run)) == set(MILLISECONDS)
    run.change("reports/speed.json", lambda speed: speed["contestants"][0].update(speedup_vs_beam5=[0.5, 0.4, 0.7]))
    slowed = rows_of(run)
    assert pareto(slowed) == set(MILLISECONDS) - {("ar", "greedy")}
    assert (slowed[0].speedup_vs_beam5, slowed[0].speedup_vs_beam5_interval) == (0.5, [0.4, 0.7])


def test_what_has_less_than_half_of_the_best_score_is_not_drawn(run: Run) -> None:
    rows = rows_of(run)
    best = max(row.bleu for row in rows)
    poor, just = (replace(rows[0], bleu=score) for score in (0.49 * best, 0.51 * best))
    assert drawn([*rows, just, poor]) == [*rows, just]


def test_a_run_without_long_sentences_is_compared_over_all(run: Run) -> None:
    write_json(run.root / "reports/speed.json", speeds(np.zeros(SENTENCES, dtype=bool)))
    run.build()
    row = run.rows()["swift", "beam5"]
    assert row["speedup_vs_beam5"] is None and row["speedup_vs_beam5_interval"] is None
    assert row["speedup_vs_beam5_all"] == pytest.approx(2.5)


def test_a_family_that_is_no_longer_a_system_is_no_row(run: Run) -> None:
    run.build()
    rows = run.rows()
    former = {**read_json(run.root / "reports/quality/swift.json"), "family": "former"}
    write_json(run.root / "reports/quality/former.json", former)
    run.build()
    assert run.rows() == rows


@pytest.mark.parametrize(("file", "edit", "message"), [
    ("reports/speed.json", lambda speed: speed["contestants"].pop(1),
     r"ar\.json: decoder 'beam5' of family 'ar' was scored but not timed"),
    ("reports/speed.json", lambda speed: speed["contestants"][1].pop("tokens_per_second_batch32"),
     r"speed\.json: no 'tokens_per_second_batch32' for decoder 'beam5' of family 'ar'"),
    ("reports/speed.json", lambda speed: speed.pop("baseline"), r"speed\.json: no 'baseline' for the header"),
    ("reports/quality/swift.json", lambda quality: quality["decoders"].pop("beam5"),
     r"swift\.json: decoder 'beam5' of family 'swift' was timed but not scored"),
    ("reports/quality/ar.json", lambda quality: quality["decoders"]["greedy"].pop("chrf"),
     r"ar\.json: no 'chrf' for decoder 'greedy'"),
    ("reports/quality/ar.json", lambda quality: quality["decoders"]["greedy"].update(bleu_signature="tok:zh"),
     r"ar\.json .* and .*swift\.json .*: BLEU with different signatures"),
])
def test_files_that_do_not_belong_together_are_refused(run: Run, file: str, edit: Callable[[Any], None],
                                                       message: str) -> None:
    run.change(file, edit)
    refuse(run, message)


@pytest.mark.parametrize(("file", "message"), [
    ("reports/speed.json", r"speed\.json: not found"),
    ("data/hypotheses/swift/beam5.jsonl", r"beam5\.jsonl: not found"),
    ("reports/quality/ar.json", r"ar\.json: not found"),
    ("data/corpus/test.target", r"test\.target: not found"),
])
def test_absent_files_are_named(run: Run, file: str, message: str) -> None:
    (run.root / file).unlink()
    refuse(run, message)


@pytest.mark.parametrize(("file", "message"), [
    ("data/corpus/test.source", r"test\.source: 15 lines, but .*test\.target has 16"),
    ("data/hypotheses/ar/greedy.jsonl", r"greedy\.jsonl: 15 hypotheses for 16 references"),
])
def test_lost_lines_are_noticed(run: Run, file: str, message: str) -> None:
    lines = (run.root / file).read_text("utf-8").splitlines(keepends=True)
    (run.root / file).write_text("".join(lines[:-1]), encoding="utf-8")
    refuse(run, message)


def refuse(run: Run, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as refused:
        run.build()
    assert "\n" not in str(refused.value)
    assert not WRITTEN & {path.name for path in run.root.rglob("*")}
