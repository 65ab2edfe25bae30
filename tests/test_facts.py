"""What DVC cannot see by itself is a file that stages depend on."""

from pathlib import Path

import pipeline
from pipeline import layout
from pipeline.cli import main
from pipeline.files import read_json
from pipeline.strict_yaml import read_yaml

ROOT = Path(pipeline.__file__).parents[1]


def test_a_file_of_the_user_that_is_edited_in_place_is_noticed(workspace: Path) -> None:
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


def test_what_is_timed_depends_on_the_machine_and_the_corpus_on_the_users_files() -> None:
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    assert stages["facts"]["always_changed"]
    assert {path for out in stages["facts"]["outs"] for path in out} == {str(layout.MACHINE), str(layout.INPUTS)}
    assert str(layout.INPUTS) in stages["corpus"]["deps"]
    timed = {name for name, block in stages.items() if str(layout.MACHINE) in block.get("do", block).get("deps", ())}
    assert timed == {"peers", "speed", "analyses"}  # and no training
