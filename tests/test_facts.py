"""What DVC cannot see by itself is a file that stages depend on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from baselines import BEAM5

import pipeline
from pipeline import layout
from pipeline import workspace as workspace_file
from pipeline.cli import main
from pipeline.files import read_json
from pipeline.strict_yaml import read_yaml

ROOT = Path(pipeline.__file__).parents[1]
Change = Callable[[dict[str, Any]], None]


def test_a_file_of_the_user_that_is_edited_in_place_is_noticed(workspace: Path, change_params: Change) -> None:
    change_params(BEAM5)
    found = []
    for text in ("one\n", "two\n"):  # of the same size
        (workspace / "mine.txt").write_text(text)
        params = (workspace / "params.yaml").read_text().replace("train.en", "mine.txt")
        (workspace / "params.yaml").write_text(params)
        assert main(["facts"]) == 0
        found.append(read_json(layout.INPUTS))
    assert found[0] != found[1] and [one["path"] for one in found[0]["files"]].count("mine.txt") == 1
    assert main(["facts"]) == 0 and read_json(layout.INPUTS) == found[1]
    assert read_json(layout.MACHINE)["identity"]


def test_a_baseline_that_nothing_can_be_compared_with_is_refused_first(
        workspace: Path, change_params: Change, capsys: pytest.CaptureFixture[str]) -> None:
    for change, message in (({}, "families.teacher.decoders: the baseline lacks beam5"),
                            (BEAM5 | {"baseline": "interleaved", "peers": {"hf_greedy": {"library": "hf"}}},
                             "'interleaved' does not generate left to right")):
        change_params(change)
        assert main(["facts"]) == 2 and message in capsys.readouterr().err


def test_what_is_timed_depends_on_the_machine_and_the_corpus_on_the_users_files() -> None:
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    assert stages["facts"]["always_changed"]
    assert {path for out in stages["facts"]["outs"] for path in out} == {
        str(layout.MACHINE), str(layout.INPUTS), str(layout.TRAININGS), str(layout.DECODERS), str(layout.DISTILLATION)}
    assert str(layout.INPUTS) in stages["corpus"]["deps"]
    timed = {name for name, block in stages.items() if str(layout.MACHINE) in block.get("do", block).get("deps", ())}
    assert timed == {"peers", "speed", "analyses"}  # and no training


@pytest.fixture
def any_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compared here, so the families may have any decoders."""
    monkeypatch.setattr(workspace_file, "check_baseline", lambda params: None)


def described(family: str) -> bytes:
    assert main(["facts"]) == 0
    return (layout.DECODERS / f"{family}.json").read_bytes()


def test_an_evaluation_depends_on_its_own_decoders_only(any_baseline: None, change_params: Change) -> None:
    """Their entries, whether the family names them or takes the default ones, and no others."""
    families = {"teacher": {"decoders": ["greedy"]}}
    change_params({"families": families})
    teacher, interleaved = described("teacher"), described("interleaved")
    assert list(read_json(layout.DECODERS / "interleaved.json")["decoders"]) == ["greedy", "beam3"]
    change_params({"families": families, "decoders": {"beam3": {"beams": 4}}})
    assert described("teacher") == teacher and described("interleaved") != interleaved
    change_params({"families": families, "decoders": {"pj": {"algorithm": "jacobi"}}})
    assert described("teacher") == teacher and described("interleaved") == interleaved
    change_params({"families": families, "default_decoders": ["greedy"]})
    assert described("teacher") == teacher and described("interleaved") != interleaved
    assert "data/decoders/${item.family}.json" in read_yaml(ROOT / "dvc.yaml")["stages"]["evaluate"]["deps"]


def test_an_evaluation_depends_on_the_code_of_its_own_decoders_only(
        any_baseline: None, change_params: Change) -> None:
    change_params({"families": {"teacher": {"decoders": ["greedy"]}}})
    described("teacher")
    greedy, beam = (set(read_json(layout.DECODERS / f"{family}.json")["code"]) for family in ("teacher", "interleaved"))
    assert beam - greedy == {f"pipeline.decoding.{name}" for name in ("beam", "beams", "terms")} and greedy < beam
    assert {"pipeline.decoding.greedy", "pipeline.decoding.settings", "pipeline.engine.sentence"} <= greedy


def test_a_training_depends_on_the_settings_in_force_and_on_no_decoders(
        any_baseline: None, change_params: Change) -> None:
    """Neither on a default that its family overrides."""
    def settings() -> tuple[bytes, ...]:
        assert main(["facts"]) == 0
        return tuple((layout.TRAININGS / f"{family}.json").read_bytes() for family in ("teacher", "interleaved"))

    change_params({"families": {"teacher": {"training": {"clip": 0.5}}}})
    before = settings()
    change_params({"families": {"teacher": {"training": {"clip": 0.5}, "decoders": ["beam3"]}}})
    assert settings() == before
    change_params({"training": {"clip": 0.25}, "families": {"teacher": {"training": {"clip": 0.5}}}})
    after = settings()
    assert after[0] == before[0] and after[1] != before[1]
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    assert "data/trainings/teacher.json" in stages["teacher"]["deps"]
    assert all("data/trainings/${key}.json" in stages[name]["do"]["deps"] for name in ("fit", "fit_lattice"))


def test_distillation_depends_on_its_own_decoder_and_its_code_only(any_baseline: None, change_params: Change) -> None:
    def facts() -> bytes:
        assert main(["facts"]) == 0
        return layout.DISTILLATION.read_bytes()

    change_params({"distillation": {"decoder": "beam3"}})
    before = facts()
    code = read_json(layout.DISTILLATION)["code"]
    assert {"pipeline.decoding.beam", "pipeline.engine.beam"} <= code.keys()
    assert not {"pipeline.decoding.lattice", "pipeline.decoding.mask_predict"} & code.keys()
    change_params({"distillation": {"decoder": "beam3"}, "decoders": {"greedy": {"deduplicate": 2}}})
    assert facts() == before
    change_params({"distillation": {"decoder": "beam3"}, "decoders": {"beam3": {"alpha": 2.0}}})
    assert facts() != before
    assert str(layout.DISTILLATION) in read_yaml(ROOT / "dvc.yaml")["stages"]["distill"]["deps"]


def test_a_system_that_is_no_longer_chosen_leaves_no_facts(any_baseline: None, change_params: Change) -> None:
    described("interleaved")
    change_params({"students": {"interleaved": None}, "systems": ["teacher"]})
    described("teacher")
    assert [path.name for path in layout.DECODERS.iterdir()] == ["teacher.json"]
