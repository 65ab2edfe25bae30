"""The report of decoders that correct, and of those that draft and verify: several references, further columns."""

import re
from pathlib import Path

import pytest
from invented_run import MILLISECONDS, Run, measured, references, translations

from pipeline.errors import PipelineError
from pipeline.evaluation.page import Texts, render_page
from pipeline.evaluation.quality import score
from pipeline.evaluation.resampled_bleu import Resampled, p_value
from pipeline.evaluation.rows import Row, assemble_rows, pareto, read_lines, read_speed, texts_of, timed_decoders
from pipeline.evaluation.table import columns_of

SECOND = [line.replace("bleibt", "steht") for line in references()]
METRICS = ("edits", "gleu")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with two references, scored by all metrics."""
    return measured(tmp_path, further=[SECOND], metrics=METRICS)


def rows_of(run: Run) -> list[Row]:
    speed = read_speed(run.root / "reports/speed.json")
    texts = texts_of(read_lines(run.root / "data/hypotheses", timed_decoders(speed), len(SECOND)))
    resampled = Resampled([references(), SECOND], "13a", samples=10)
    return assemble_rows(run.root / "reports/quality", speed, texts,
                         {name: resampled(found) for name, found in texts.items()})


def test_rows_are_scored_over_all_references(run: Run) -> None:
    run.build()
    row = run.rows()["swift", "beam5"]
    sources = (run.root / "data/corpus/test.source").read_text("utf-8").splitlines()
    hypotheses = translations("swift", "beam5")
    expected = score(hypotheses, [references(), SECOND], sources=sources, metrics=METRICS)
    assert (row["bleu"], row["precision"], row["recall"], row["f05"], row["gleu"]) == (
        expected.bleu, expected.precision, expected.recall, expected.f05, expected.gleu)
    assert "nrefs:2|" in row["bleu_signature"] and "refs:2|" in row["edits_signature"]
    resampled = Resampled([references(), SECOND], "13a", samples=100)
    assert row["p_value_vs_ar"] == p_value(resampled(hypotheses), resampled(translations("ar", "beam5")))


def test_correctors_are_compared_by_f05(run: Run) -> None:
    # The faster are best by F0.5, and the slower by BLEU: what counts decides whether all are worth choosing.
    for file, scores in (("ar", {"greedy": 50.0, "beam5": 40.0}), ("swift", {"greedy": 60.0, "beam5": 55.0})):
        run.change(f"reports/quality/{file}.json", lambda quality, scores=scores: [
            quality["decoders"][decoder].update(f05=f05) for decoder, f05 in scores.items()])
    rows = rows_of(run)
    assert {row.quality_name for row in rows} == {"F0.5"}
    assert [row.quality for row in rows] == [50, 40, 60, 55]
    assert pareto(rows) == {("swift", "greedy")}
    run.build()
    page = (run.root / "data/page/index.html").read_text("utf-8")
    assert 'alt="F0.5 of the decoders' in page and "60.0 F0.5" in page and "+20.0" in page
    table = (run.root / "reports" / "decoders.md").read_text("utf-8")
    assert "| data | F0.5 | precision | recall | GLEU | BLEU |" in table
    assert "F0.5 signature: edits|refs:2|" in table and "GLEU signature: gleu|refs:2|" in table


def test_columns_without_a_value_are_left_out(tmp_path: Path) -> None:
    run = measured(tmp_path)
    run.build()
    titles = {"F0.5", "precision", "recall", "GLEU", "accepted", "drafter calls", "ties"}
    table = (run.root / "reports" / "decoders.md").read_text("utf-8")
    assert not titles & set(re.split(r" ?\| ?", table.splitlines()[2]))
    assert "GLEU" not in table
    page = (run.root / "data/page/index.html").read_text("utf-8")
    assert 'alt="BLEU of the decoders' in page and "GLEU" not in page
    assert page.count("<button") == table.splitlines()[2].count("|") - 1


def test_what_verifiers_accept_is_shown_where_it_was_counted(run: Run) -> None:
    run.change("reports/quality/swift.json", lambda quality: quality["decoders"]["greedy"].update(
        accepted_per_call=4.25, drafter_calls=2.5, ties=0))
    rows = {row.name: row for row in rows_of(run)}
    drafted, other = rows["swift", "greedy"], rows["ar", "greedy"]
    assert (drafted.accepted_per_call, drafted.drafter_calls, drafted.ties) == (4.25, 2.5, 0)
    assert (other.accepted_per_call, other.drafter_calls, other.ties) == (None, None, None)
    columns = {column.title: column for column in columns_of([*rows.values()])}
    assert [columns[title].text(drafted) for title in ("accepted", "drafter calls", "ties")] == ["4.25", "2.5", "0"]
    assert {columns[title].text(other) for title in ("accepted", "drafter calls", "ties")} == {"–"}
    titles = list(columns)
    assert titles[titles.index("calls"):] == ["calls", "accepted", "drafter calls", "= greedy", "ties"]


def test_a_drafter_is_held_to_the_greedy_search_of_its_verifier(run: Run) -> None:
    def identical() -> dict[tuple[str, str], float | None]:
        return {row.name: row.identical_to_greedy for row in rows_of(run)}

    mine, theirs = translations("swift", "beam5"), translations("ar", "greedy")
    same = sum(one == other for one, other in zip(mine, theirs, strict=True)) / len(theirs)
    own = identical()
    run.change("reports/quality/swift.json", lambda quality: quality.update(verifier=None))
    assert identical() == own
    run.change("reports/quality/swift.json", lambda quality: quality.update(verifier="ar"))
    assert identical()["swift", "beam5"] == same != own["swift", "beam5"]
    assert identical()["ar", "greedy"] == 1
    run.change("reports/quality/swift.json", lambda quality: quality.update(verifier="gone"))
    assert identical()["swift", "beam5"] is None


@pytest.mark.parametrize(("key", "name"), [("edits_signature", r"F0\.5"), ("gleu_signature", "GLEU")])
def test_families_that_were_scored_otherwise_are_refused(run: Run, key: str, name: str) -> None:
    run.change("reports/quality/ar.json", lambda quality: quality["decoders"]["beam5"].update({key: None}))
    with pytest.raises(PipelineError, match=rf"ar\.json .*\(none\).*: {name} with different signatures"):
        run.build()


def test_every_reference_file_must_have_all_sentences(run: Run) -> None:
    lines = (run.root / "data/corpus/test.target2").read_text("utf-8").splitlines(keepends=True)
    (run.root / "data/corpus/test.target2").write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(PipelineError, match=r"test\.source: 16 lines, but .*test\.target2 has 15"):
        run.build()
    assert not (run.root / "reports/decoders.json").exists()


def test_samples_show_every_reference_once_and_mark_against_the_nearest(run: Run) -> None:
    one, other = ["the lamp is on", "it rains"], ["a light burns", "it rains"]
    hypotheses = {row.name: ["a light shines", "it rained"] for row in rows_of(run)}
    page = render_page(rows_of(run), Texts(["s", "t"], [one, other], hypotheses, "en", "en"),
                       read_speed(run.root / "reports/speed.json"), b"", b"")
    assert page.count("<dt>reference</dt>") == 3
    assert "a light <mark>shines</mark>" in page and "it <mark>rained</mark>" in page
    assert page.count("<article>") == 2 and len(hypotheses) == len(MILLISECONDS)
