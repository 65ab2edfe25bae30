"""The tables of docs/training.md: levers differ in what is named and in nothing else, and cells are the runs'."""

import json
from pathlib import Path

import pytest
from test_params import ROOT, shipped

from docs import distilled, levers, reports
from docs.reports import parameters
from pipeline.systems import lay_over

PAIRS = [(preset, system, one.counterpart) for preset, table in levers.TABLES.items() for one in table
         for system in one.systems]


@pytest.mark.parametrize(("preset", "system", "counterpart"), PAIRS, ids=[system for _, system, _ in PAIRS])
def test_a_pair_differs_in_one_setting(preset: str, system: str, counterpart: str) -> None:
    params = parameters(f"reports/{preset}")
    changed = set(levers.changes(params, system, counterpart))
    together = [{"network.width", "network.heads", "network.feed_forward"}, {f"network.{one}_layers" for one in (
        "encoder", "decoder")}, {"optimisation.schedule", *(f"training.{one}" for one in (
            "patience", "patience_gain", "cooldown"))}]  # what makes no sense alone
    assert len(changed) == 1 or changed in together
    assert {system, counterpart} <= {*params.systems}
    assert len(params.decoders_of(system)) == 1  # whose row the table shows


def test_the_table_has_the_scores_of_both_and_the_steps_that_were_trained(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "reports/tried"
    families = sorted({name for one in levers.LEVERS for name in (*one.systems, one.counterpart)})
    rows = [{"family": name, "bleu": 20.0 + at, "accepted_per_call": 1.0 + at} for at, name in enumerate(families)]
    for name in families:
        (run / "training" / name).mkdir(parents=True)
        (run / "training" / name / "metrics.json").write_text('{"step": 1999}')
    (run / "decoders.json").write_text(json.dumps(rows))
    (run / "speed.json").write_text((ROOT / "reports/speed.json").read_text())
    params = parameters("reports/levers")
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    monkeypatch.setattr(levers, "parameters", lambda run: params)
    monkeypatch.setitem(levers.TABLES, run.name, levers.LEVERS)
    table = levers.levers(run.name)
    assert "\n| `data.bpe_dropout: 0.1` instead of 0.0 | two words per step, from both ends | BLEU |" in table
    plain, dropped = (20.0 + families.index(name) for name in ("plain", "bpe_dropout"))
    assert f"| BLEU | 2,000 | {plain:.2f} | {dropped:.2f} |" in table
    whole, alone = (1.0 + families.index(name) for name in ("drafter", "drafter_independent"))
    assert f"| tokens per call | 2,000 | {whole:.2f} | {alone:.2f} |" in table


@pytest.mark.parametrize("preset", list(levers.DATA)[1:])
def test_a_run_with_a_lever_of_the_data_differs_in_what_the_table_names_and_in_nothing_else(preset: str) -> None:
    lever, plain = (dict(levers.leaves(lay_over(shipped(), ROOT / f"presets/{name}.yaml")))
                    for name in (preset, "levers_data"))
    changed = {path for path in lever.keys() | plain.keys() if lever.get(path) != plain.get(path)}
    named = levers.DATA[preset].split("`")[1].split(":")[0]
    entries = ("decoders.sampled.", "corpus.wheels.")  # what the value of the setting names
    assert {path for path in changed if not path.startswith(entries)} == {named}


def test_the_table_of_the_data_has_a_line_for_each_run_that_was_made(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    assert levers.levers_data() == "Not measured yet."
    for at, run in enumerate(("reports/levers_data", "reports/levers_data_wheels")):
        (tmp_path / run).mkdir(parents=True)
        rows = [{"family": "teacher", "decoder": "beam5", "bleu": 20.5 + at}, {"family": "ar", "decoder": "beam4",
                "bleu": 21.5 + at}, {"family": "interleaved", "decoder": "beam4", "bleu": 22.5 + at}]
        (tmp_path / run / "decoders.json").write_text(json.dumps(rows))
        (tmp_path / run / "speed.json").write_text((ROOT / "reports/speed.json").read_text())
    table = levers.levers_data()
    assert "| none | 20.50 | 21.50 | 22.50 |\n| `corpus.source: wheels` | 21.50 | 22.50 | 23.50 |" in table


def test_the_exponent_that_a_run_has_chosen_is_marked_and_a_run_without_a_choice_has_its_lengths(
        monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = {"mean_length": 15.5, "raw_mean_length": 16.25}
    scores = {"1.0": {"bleu": 30.25, "length_ratio": 0.9}, "1.5": {"bleu": 31.5, "length_ratio": 0.94}}
    runs = {"plain": lengths, "chosen": {**lengths, "length_penalty": {"alpha": 1.5, "validation": scores}}}
    monkeypatch.setattr(distilled, "RUNS", {title: f"reports/{title}" for title in runs})
    monkeypatch.setattr(distilled, "read", lambda report: runs[Path(report).parent.name])
    tables = distilled.distilled()
    assert "| `chosen` | 1.0 | 30.25 | 0.900 |\n| `chosen` | 1.5 (chosen) | 31.50 | 0.940 |" in tables
    assert "| `plain` | of the decoder | 15.50 | 16.25 |\n| `chosen` | 1.5 | 15.50 | 16.25 |" in tables
