"""A profile's folder: made where its name says, of a whole checkout, and nothing is written or removed elsewhere."""

import shutil
from pathlib import Path

import pytest

import pipeline
from pipeline.errors import PipelineError
from pipeline.strict_yaml import read_yaml
from pipeline.workspace import prepare, write_facts

ROOT = Path(pipeline.__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a profile is made of, the code by a link; one preset, and two outside."""
    folder = tmp_path / "around/checkout"
    for name in ("params.yaml", "dvc.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for preset in ("presets/mine.yaml", "outside.yaml", "../outside.yaml"):
        (folder / preset).parent.mkdir(exist_ok=True)
        (folder / preset).write_text("seed: 2\n")
    (folder / "pipeline").symlink_to(ROOT / "pipeline")
    for kept in (folder / "outside", folder.parent / "outside"):
        (kept / "pipeline").mkdir(parents=True)
        (kept / "pipeline/kept.txt").write_text("kept")
    monkeypatch.chdir(folder)
    return folder


def everything(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("profile", ["../outside", "../../outside", "mine/../../outside", "./mine", ".", "-f"])
def test_a_profile_stays_in_its_folder(checkout: Path, profile: str) -> None:
    (checkout / "profiles").mkdir()  # or the paths lead nowhere
    before = everything(checkout.parent)
    with pytest.raises(PipelineError, match=rf"^--profile: '{profile}' must be a name: "):
        prepare(profile)
    assert everything(checkout.parent) == before


def test_a_preset_names_no_family_elsewhere(checkout: Path) -> None:
    (checkout / "presets/mine.yaml").write_text("families: {../../outside: {order: {name: left_to_right}}}\n")
    before = everything(checkout.parent)
    with pytest.raises(PipelineError, match=r"^params.yaml: params.families: '../../outside' must be a name: "):
        prepare("mine")
    assert everything(checkout.parent) == before


@pytest.mark.parametrize("missing", ["pipeline", "dvc.yaml"])
def test_what_is_missing_is_named(checkout: Path, missing: str) -> None:
    (checkout / missing).unlink()
    with pytest.raises(PipelineError, match=rf"^{missing}: not found; .* \(git checkout {missing}\)$"):
        prepare("mine")


def test_a_profile_is_made(checkout: Path) -> None:
    folder = prepare("mine")
    assert folder == Path("profiles/mine") and {path.name for path in folder.iterdir()} == {
        "dvc.yaml", "params.yaml", "pipeline"}
    assert (folder / "pipeline").readlink() == Path("../../pipeline")  # which also holds in a clone
    assert (folder / "pipeline/workspace.py").exists()
    assert (folder / "dvc.yaml").read_bytes() == Path("dvc.yaml").read_bytes()
    before = everything(folder)
    assert prepare("mine") == folder and everything(folder) == before


def test_a_copy_of_the_code_never_runs(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Experiments that earlier versions recorded have one, and `dvc exp apply` puts it in place of the link."""
    code = prepare("mine") / "pipeline"
    code.unlink()
    code.mkdir()
    with pytest.raises(PipelineError, match=r"^profiles/mine/pipeline: a copy of the code, .* --profile mine` "):
        write_facts(code.parent)
    capsys.readouterr()
    prepare("mine")
    assert capsys.readouterr().out == "profiles/mine/pipeline: was a copy of the code and is the link to it again\n"
    assert code.readlink() == Path("../../pipeline")


def test_a_profile_of_an_earlier_version_joins_the_project(checkout: Path) -> None:
    """It was a DVC project of its own, with a copy of the code; its lock and its models stay."""
    folder = prepare("mine")
    (folder / "pipeline").unlink()
    for name in (".dvc/config", "pipeline/old.py", "dvc.lock", "checkpoints/ar/weights"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("kept")
    prepare("mine")
    assert (folder / "pipeline").is_symlink() and not (folder / ".dvc").exists()
    assert (folder / "dvc.lock").exists() and (folder / "checkpoints/ar/weights").exists()
    assert (ROOT / "pipeline/workspace.py").exists()


def test_what_an_experiment_has_changed_does_not_vanish_silently(checkout: Path,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    path = prepare("mine") / "params.yaml"
    prepare("mine")
    assert capsys.readouterr().out == ""
    path.write_text(path.read_text().replace("seed: 2", "seed: 3"))
    prepare("mine")
    assert capsys.readouterr().out.startswith(f"{path}: written anew from params.yaml and presets/mine.yaml; ")
    assert read_yaml(path)["seed"] == 2


def test_no_name_is_a_command_of_the_shell() -> None:
    """dvc.yaml quotes every name, for whoever runs DVC without our checks: `${item}` of a matrix is quoted by DVC."""
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    commands = [block.get("do", block)["cmd"] for block in stages.values()]
    named = [command for command in commands if "$" in command]
    assert len(named) == 3
    for command in named:
        assert "$" not in command.replace("'${key}'", "").replace("test ${item}", "test")
