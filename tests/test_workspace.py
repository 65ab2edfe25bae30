"""A profile's folder: made where its name says, of a whole checkout, and nothing is written or removed elsewhere."""

import re
import shutil
from pathlib import Path

import pytest

import pipeline
from pipeline.cli import main
from pipeline.errors import PipelineError
from pipeline.strict_yaml import read_yaml
from pipeline.workspace import differs_from_commit, prepare, publish, write_facts

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
    with pytest.raises(PipelineError, match=r"^presets/mine.yaml: families: '../../outside' must be a name: "):
        prepare("mine")
    assert everything(checkout.parent) == before


@pytest.mark.parametrize(("preset", "message"), [
    ("families: {ar: {decoders: [greedy]}}", "families.ar.decoders: the baseline lacks beam5, with which"),
    ("evaluation: {bleu_tokenizer: words}", "evaluation: BLEU tokenizer 'words' is unknown"),
    ("decoders: {beam5: {beasm: 5}}", r"decoders.beam5.beasm is unknown; did you mean decoders.beam5.beams\?"),
])
def test_what_a_preset_asks_of_others_is_its_own_mistake(checkout: Path, capsys: pytest.CaptureFixture[str],
                                                         preset: str, message: str) -> None:
    (checkout / "presets/mine.yaml").write_text(preset)
    assert main(["repro", "--profile", "mine", "--force"]) == 2
    assert re.match(f"error: presets/mine.yaml: {message}", capsys.readouterr().err)


def test_a_folder_without_presets(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a profile."""
    monkeypatch.setattr("pipeline.workspace.PRESETS", Path("elsewhere"))
    with pytest.raises(PipelineError, match=r"^--profile: there is no folder elsewhere here; run the command in the "):
        prepare("mine")


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


@pytest.mark.parametrize(("presets", "params_above", "profile"), [
    (True, False, False), (True, True, False), (False, False, False), (False, True, True),
])
def test_a_checkout_may_be_in_a_folder_named_profiles(checkout: Path, presets: bool, params_above: bool,
                                                      profile: bool) -> None:
    """Also in that of another checkout."""
    folder = shutil.copytree(checkout, checkout.parent / "profiles/clone", symlinks=True)
    (folder / "pipeline").unlink()
    (folder / "pipeline").mkdir()  # the code itself and no link
    if not presets:
        shutil.rmtree(folder / "presets")
    if params_above:
        shutil.copy(checkout / "params.yaml", checkout.parent)
    if profile:
        with pytest.raises(PipelineError, match=r"^profiles/clone/pipeline: a copy of the code"):
            write_facts(folder)
    else:
        write_facts(folder)
        assert (folder / "data/machine.json").exists()


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
    for unreadable in (b"<<<<<<< ours\nseed: 2\n", b"seed: \xff\n"):  # as a merge, or another editor, leaves it
        path.write_bytes(unreadable)
        prepare("mine")
        assert capsys.readouterr().out.startswith(f"{path}: written anew") and read_yaml(path)["seed"] == 2


def test_figures_are_copied_once_there_is_a_lock(checkout: Path) -> None:
    """Those that differ, and nothing that a killed run has left."""
    folder, out = prepare("mine"), Path("reports/mine")
    for name in ("claims.json", "analyses/a.png", "quality/ar.json", ".claims.json.1-0@0.aside", ".analyses.lock"):
        (folder / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "reports" / name).write_text("new")
    publish(folder, out)
    assert not out.exists()
    (folder / "dvc.lock").write_text("lock")
    publish(folder, out)
    copied = everything(out)
    assert {path.relative_to(out).as_posix() for path, content in copied.items() if content is not None} == {
        "claims.json", "analyses/a.png", "lock.yaml"}
    before = {path: path.stat().st_ino for path in copied}
    (out / "claims.json").write_text("old")
    publish(folder, out)
    assert (out / "claims.json").read_text() == "new"
    assert {path for path in copied if path.is_file() and path.stat().st_ino != before[path]} == {out / "claims.json"}


def test_without_git_nothing_differs_from_a_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not differs_from_commit(prepare("mine"))


def test_a_run_that_is_refused_makes_no_folder(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in ((["--profile", "nosuch"], "--profile: 'nosuch' is unknown; presets has mine"),
                               (["--profile", "mine", "--jobs", "2", "--force"], "--jobs: with --force, which is")):
        assert main(["repro", *arguments]) == 2 and message in capsys.readouterr().err
    assert not Path("profiles").exists()


def test_no_name_is_a_command_of_the_shell() -> None:
    """dvc.yaml quotes every name, for whoever runs DVC without our checks: `${item}` of a matrix is quoted by DVC."""
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    commands = [block.get("do", block)["cmd"] for block in stages.values()]
    named = [command for command in commands if "$" in command]
    assert len(named) == 3
    for command in named:
        assert "$" not in command.replace("'${key}'", "").replace("test ${item}", "test")
