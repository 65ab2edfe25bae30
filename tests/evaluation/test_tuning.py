"""`tune`: the choice, on numbers made up; the change of params.yaml; and both on a random model."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from drafters import with_heads
from hypothesis import given
from hypothesis import strategies as st

from pipeline import layout
from pipeline.commands import tune as command
from pipeline.errors import PipelineError
from pipeline.evaluation import tuning
from pipeline.evaluation.choosing import Candidate, choose
from pipeline.evaluation.length_penalties import score_exponents
from pipeline.evaluation.speed import Contestant
from pipeline.evaluation.tuning import (
    SearchSpace,
    Trial,
    TuningBench,
    TuningRound,
    combinations,
    fastest,
    relaxations,
    tune,
)
from pipeline.evaluation.validation import ValidationSample
from pipeline.params import load_params


def trial(milliseconds: float, bleu: float | None = None, **setting: Any) -> Trial:
    return Trial(setting, milliseconds, 5.0, 2.0, bleu)


def test_the_fastest_wins_and_of_equals_the_first() -> None:
    assert fastest([trial(3, block=2), trial(2, block=4), trial(2, block=8)]).setting == {"block": 4}


def test_a_loss_of_quality_is_out_of_the_question() -> None:
    trials = [trial(9, 26.6, tau=0.0), trial(7, 26.50, tau=1.0), trial(5, 26.3, tau=2.0), trial(3, 26.2, tau=3.0)]
    assert fastest(trials, 26.6 - 0.1).setting == {"tau": 1.0}
    assert fastest(trials, 26.6 - 0.31).setting == {"tau": 2.0}
    assert fastest(trials).setting == {"tau": 3.0}
    with pytest.raises(PipelineError, match=r"none of 4 settings reaches 27\.00 BLEU"):
        fastest(trials, 27)


@given(st.lists(st.tuples(st.floats(0.1, 99), st.floats(0, 99)), min_size=1), st.floats(0, 99))
def test_no_good_trial_is_faster(figures: list[tuple[float, float]], floor: float) -> None:
    trials = [trial(*one) for one in figures]
    good = [one for one in trials if one.bleu is not None and one.bleu >= floor]
    if good:
        found = fastest(trials, floor)
        assert found in good and all(found.milliseconds <= one.milliseconds for one in good)


def test_the_current_value_competes() -> None:
    space = SearchSpace(block=(4, 2))
    assert combinations(["block"], space, {"block": 7}) == [{"block": 2}, {"block": 4}, {"block": 7}]
    assert combinations(["block"], space, {"block": 2}) == [{"block": 2}, {"block": 4}]


def test_relaxed_acceptance_is_tried_in_longer_blocks_too() -> None:
    found = [(one["block"], *one["acceptance"].values())
             for one in relaxations(SearchSpace(block=(2, 4, 7, 8), beta=(3, 5), tau=(1.0,)), 4)]
    assert found == [(4, 1, 0.0), (4, 3, 1.0), (4, 5, 1.0), (7, 3, 1.0), (7, 5, 1.0)]
    everything = list(relaxations(SearchSpace(block=(2,), beta=(3,), tau=(1.0,)), 0))
    assert [one["block"] for one in everything] == [0, 0]


class MadeUp:
    """A bench with figures by formula: k = 6, shortest = 2, longest = 8 are fastest; tau buys time and costs BLEU."""

    def __init__(self, *settings: str) -> None:
        self.current = {"block": 3, "shortest": 1, "longest": 4}
        self.current = {name: value for name, value in self.current.items() if name in settings}
        self.asked: list[list[dict[str, Any]]] = []

    def compare(self, settings: list[dict[str, Any]], *, scored: bool) -> TuningRound:
        self.asked.append(settings)
        return TuningRound(trial(30, 20.0 if scored else None), [self._trial(one, scored) for one in settings], [])

    def _trial(self, setting: dict[str, Any], scored: bool) -> Trial:
        tau, beta = (setting.get("acceptance", {}).get(name, 0) for name in ("tau", "beta"))
        milliseconds = (20 + abs(setting["block"] - 6) + abs(setting.get("shortest", 2) - 2)
                        + abs(setting.get("longest", 8) - 8) - tau - beta / 10)
        return Trial(setting, milliseconds, 1.0, 1.0, 20.0 - 0.05 * tau - 0.01 * beta if scored else None)


def test_one_group_after_the_other() -> None:
    bench, shown = MadeUp("block", "shortest", "longest"), list[TuningRound]()
    found = tune(bench, SearchSpace(), [], shown.append)  # type: ignore[arg-type]
    assert found == {"": {"block": 6, "shortest": 2, "longest": 8}}
    assert len(shown) == 2 and len(bench.asked[1]) == 9
    assert all(one["block"] == 6 for one in bench.asked[1])


def test_relaxed_variants_keep_within_their_margins() -> None:
    found = tune(MadeUp("block"), SearchSpace(), ["quality", "speed"], lambda stage: None)  # type: ignore[arg-type]
    assert found == {"": {"block": 6},
                     "quality": {"block": 6, "acceptance": {"beta": 5, "tau": 1.0}},
                     "speed": {"block": 6, "acceptance": {"beta": 5, "tau": 5.0}}}


@pytest.mark.parametrize("name", ["block", "shortest", "longest", "beta", "tau"])
def test_a_search_space_needs_values(name: str) -> None:
    with pytest.raises(PipelineError, match=f"no value of {name} to try"):
        SearchSpace(**{name: ()})


# On a random model.

PARAMS = """\
  iad: {algorithm: iad}  # drafts from the source
  iad++_speed:
    algorithm: iad       # sooner
    acceptance: {beta: 3, tau: 9.5}   # too much
  blockwise: {algorithm: blockwise}
"""


@pytest.fixture
def drafting(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> Path:
    """The toy workspace with decoders that draft, and comments in its params.yaml."""
    change_params({"speed": {"sentences": 2, "repetitions": 1, "warmup": 1, "threads": 1, "device": "cpu"}})
    path = workspace / "params.yaml"
    text = path.read_text().replace("decoders:\n  greedy:", f"decoders:\n{PARAMS}  greedy:", 1)
    path.write_text("# On top.\n" + text)
    return path


def run(*options: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args([*options]))


def test_params_are_written_and_nothing_else_in_them(drafting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = drafting.read_text()
    run("--decoder", "iad", "--family", "teacher", "--blocks", "2", "--shortest", "1,9", "--longest", "4",
        "--betas", "3", "--taus", "0.5", "--sentences", "7")
    printed, after = capsys.readouterr().out, drafting.read_text()
    decoders = yaml.safe_load(after)["decoders"]
    exact, relaxed = decoders["iad"], decoders["iad++_speed"]
    assert exact["block"] in (0, 2) and exact["shortest"] == 1 and exact["longest"] in (4, 8)
    assert {**exact, "acceptance": relaxed["acceptance"]} == relaxed
    assert relaxed["acceptance"] in ({"beta": 1, "tau": 0.0}, {"beta": 3, "tau": 0.5})
    touched = re.compile("iad: {|acceptance:|block:|shortest:|longest:")
    untouched = [[line for line in text.splitlines() if not touched.search(line)] for text in (before, after)]
    assert untouched[0] == untouched[1]
    for comment in ("# On top.", "# drafts from the source", "# sooner", "# too much"):
        assert comment in after
    assert load_params().decoders["greedy"] == {"algorithm": "greedy"}
    assert "left out: block " in printed and "shortest: 9 must not exceed longest, 4" in printed
    assert printed.splitlines()[-1] == "params.yaml: written"


def test_a_dry_run_prints_and_leaves_the_file(drafting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = drafting.read_bytes()
    run("--decoder", "iad", "--family", "teacher", "--blocks", "2", "--shortest", "1", "--longest", "8", "--betas", "3",
        "--taus", "1", "--sentences", "5", "--dry-run")
    assert drafting.read_bytes() == before
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.startswith(("greedy", "block"))]
    assert [row[0] for row in rows].count("greedy") == 3 and len(rows) == 3 + 2 + 1 + 2
    block = yaml.safe_load(printed[printed.index("decoders:"):])["decoders"]
    assert block.keys() == {"iad", "iad++_speed"} and block["iad"]["block"] == block["iad++_speed"]["block"] in (0, 2)
    assert "written" not in printed


FOUND = {"iad": {"block": 2}, "iad++": {"acceptance": {"tau": 0.5, "beta": 3}}}


def test_the_exponent_of_a_length_penalty_with_the_best_bleu_is_written(
        drafting: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def words(sample: ValidationSample, contestant: Contestant) -> float:
        return sum(len(one) for batch in sample._batches for one in contestant.translate(batch).best_words())

    monkeypatch.setattr(ValidationSample, "bleu", words)  # BLEU of a random model is 0
    found = score_exponents(load_params(), "teacher", "beam3", [99, 0], None)
    assert list(found) == [0, 99] and found[0] < found[99]

    bleu = {0.5: 3.0, 1.0: 4.0, 1.75: 4.0, 9.0: 1.0}
    monkeypatch.setattr(ValidationSample, "bleu", lambda self, one: bleu[float(one.decoder.split()[-1])])
    run("--decoder", "beam3", "--family", "teacher", "--alphas", "9,1.75,0.5")  # the current value, 1, competes
    assert load_params().decoders["beam3"]["length_penalty"]["alpha"] == 1.0
    assert capsys.readouterr().out.splitlines()[:5] == [
        " alpha   BLEU", "   0.5   3.00", "     1   4.00", "  1.75   4.00", "     9   1.00"]
    bleu[1.75] = 5.0
    run("--decoder", "beam3", "--family", "teacher", "--alphas", "1.75")
    assert load_params().decoders["beam3"]["length_penalty"]["alpha"] == 1.75


def test_comments_quotes_and_line_ends_stay(tmp_path: Path) -> None:
    before = """\
# On top.
corpus: {language: "no"}  # quoted
decoders:
  iad: {algorithm: iad}   # from the source

  iad++:  # sooner
    algorithm: 'iad'
    acceptance: {beta: 5, tau: 1.0e-3}  # too much
  # Others.
  greedy:
    algorithm: greedy
"""
    after = before.replace("{algorithm: iad}", "{block: 2, algorithm: iad}").replace("5, tau: 1.0e-3", "3, tau: 0.5")

    def shape(text: bytes) -> bytes:
        return re.sub(rb" +#", b" #", text)

    path = tmp_path / "params.yaml"
    for end in "\n", "\r\n":
        path.write_bytes(before.replace("\n", end).encode())
        command.write_decoders(path, FOUND)
        assert shape(path.read_bytes()) == shape(after.replace("\n", end).encode())


def test_the_comment_of_the_next_block_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("decoders:\n  iad:\n    algorithm: iad\n  # Others.\n  greedy: {algorithm: greedy}\n")
    command.write_decoders(path, {"iad": {"block": 2}})
    assert path.read_text() == ("decoders:\n  iad:\n    block: 2\n    algorithm: iad\n  # Others.\n"
                                "  greedy: {algorithm: greedy}\n")


def test_the_file_keeps_its_permissions_and_a_link_to_it_remains_one(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("decoders: {iad: {algorithm: iad}}\n")
    (tmp_path / "real.yaml").chmod(0o600)
    path = tmp_path / "params.yaml"
    path.symlink_to("real.yaml")
    command.write_decoders(path, {"iad": {"block": 2}})
    assert path.is_symlink() and path.stat().st_mode & 0o777 == 0o600 and "block: 2" in path.read_text()


@pytest.mark.parametrize("text", [
    "one: &one {algorithm: iad}\ndecoders:\n  iad: *one\n  iad++: {algorithm: iad, acceptance: {beta: 5, tau: 1}}\n",
    "decoders:\n  iad: {algorithm: iad}\n  iad++: {acceptance: &one {beta: 5, tau: 1}}\n  gad: {acceptance: *one}\n",
], ids=["an entry", "its acceptance"])
def test_what_an_alias_shares_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(PipelineError, match=r"params\.yaml: left as it is, .*; write the block above into it yourself"):
        command.write_decoders(path, FOUND)
    assert path.read_text() == text


def test_our_own_parameters_change_in_nothing_else(tmp_path: Path) -> None:
    ours = (Path(__file__).parents[2] / "params.yaml").read_text(encoding="utf-8")
    path = tmp_path / "params.yaml"
    path.write_text(ours, encoding="utf-8")
    command.write_decoders(path, {"speculative": {"block": 3}})
    changed = [pair for pair in zip(ours.split("\n"), path.read_text(encoding="utf-8").split("\n"), strict=True)
               if pair[0] != pair[1]]
    assert changed == [("    block: 1", "    block: 3")]


def test_a_budget_chooses_among_all_trained_systems(drafting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = drafting.read_bytes()
    run("--budget-bleu", "100", "--sentences", "5")
    lines = capsys.readouterr().out.splitlines()
    end = lines.index("")
    rows = [line.split() for line in lines[1:end]]
    params = load_params()
    trained = [family for family in params.systems if (layout.checkpoint(family) / "config.json").exists()]
    assert sorted((family, decoder) for family, decoder, *_ in rows) == sorted(
        (family, decoder) for family in trained for decoder in params.decoders_of(family))
    assert [float(row[2]) for row in rows] == sorted((float(row[2]) for row in rows), reverse=True)
    for column, line in ((3, lines[-2]), (4, lines[-1])):  # everything is within the budget: the fastest wins
        quickest = min(float(row[column]) for row in rows)
        assert [row for row in rows if float(row[column]) == quickest and line.endswith(
            f": python -m pipeline translate --family {row[0]} --decoder {row[1]}")]
    assert drafting.read_bytes() == before


def test_a_budget_of_nothing_takes_only_the_best() -> None:
    best, same, worse = Candidate("ar", "beam5", 30.0, 9, 5), Candidate("ar", "beam4", 30.0, 8, 6), Candidate(
        "ar", "greedy", 29.99, 1, 1)
    assert choose([best, same, worse], 0) == (same, best)
    assert choose([best, same, worse], 0.01) == (worse, worse)


def test_exact_settings_have_greedys_quality(drafting: Path) -> None:
    bench = TuningBench(load_params(), "teacher", "iad", 24)
    stage = bench.compare([{"block": 1}, {"block": 9, "acceptance": {"beta": 120, "tau": 99.0}}], scored=True)
    exact, anything_goes = stage.trials
    assert exact.bleu == stage.greedy.bleu is not None
    assert anything_goes.calls < exact.calls <= stage.greedy.calls
    assert anything_goes.accepted > exact.accepted >= stage.greedy.accepted


def test_heads_are_compared_with_their_model_without_them(drafting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = tuning.load_checkpoint
    monkeypatch.setattr(tuning, "load_checkpoint", lambda *given: (with_heads(load(*given)[0].double(), 3), None))
    stage = TuningBench(load_params(), "teacher", "blockwise", 5).compare([{"block": 1}, {"block": 3}], scored=True)
    assert [one.bleu for one in stage.trials] == [stage.greedy.bleu] * 2
    assert stage.greedy.calls == stage.trials[0].calls


def test_settings_that_the_decoder_refuses_are_left_out(drafting: Path) -> None:
    bench = TuningBench(load_params(), "teacher", "iad", 5)
    stage = bench.compare([{"block": -3}, {"block": 2}], scored=False)
    assert [one.setting for one in stage.trials] == [{"block": 2}]
    (setting, reason), = stage.refused
    assert setting == {"block": -3} and reason.endswith("decoders.iad.block: -3 must be at least 0")
    with pytest.raises(PipelineError, match=r"'iad' accepts none of the settings to try; .*block: -3"):
        bench.compare([{"block": -3}], scored=False)


@pytest.mark.parametrize(("options", "message"), [
    (["--decoder", "nobody"], "--decoder: decoder 'nobody' is unknown"),
    (["--decoder", "iad"], "--family: no system of params.yaml is evaluated under 'iad'"),
    (["--decoder", "greedy"], "--decoder: 'greedy' drafts nothing"),
    (["--decoder", "iad++_speed", "--family", "teacher"], "--decoder: 'iad\\+\\+_speed' is relaxed"),
    (["--decoder", "iad", "--family", "teacher", "--sentences", "0"], "--sentences: 0 must be at least 1"),
    (["--budget-bleu", "nan"], "--budget-bleu: nan must be 0 or more"),
    (["--budget-bleu", "-1"], r"--budget-bleu: -1\.0 must be 0 or more"),
    (["--budget-bleu", "1", "--betas", "3"], "--betas: goes with --decoder"),
    (["--budget-bleu", "1", "--alphas", "1"], "--alphas: goes with --decoder"),
    (["--decoder", "iad", "--family", "teacher", "--alphas", "1"], "--alphas: is not a setting of 'iad'; leave it out"),
    (["--decoder", "beam3", "--family", "teacher", "--blocks", "1"], "--blocks: is not a setting of 'beam3'"),
    (["--decoder", "beam3", "--family", "teacher", "--alphas", "-1"], "--alphas: -1.0 must be finite and at least 0"),
    (["--decoder", "beam3", "--family", "teacher", "--alphas", "1,nan"], "--alphas: nan must be finite"),
    (["--decoder", "beam3", "--family", "nobody"], "nobody"),
])
def test_mistakes(drafting: Path, options: list[str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        run(*options)
