"""`fit`, `validate`, `test` and `predict` behave as LightningCLI's own, and leave the pipeline's artifacts alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fitting import CONFIG, SHARDED, WEIGHTS, Broken, break_at, fit
from lightning_utilities.core.imports import RequirementCache

from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.families.ordered import OrderedModule
from pipeline.model.checkpoint import read_weights
from pipeline.model.settings import OrderSettings

ChangeParams = Callable[[dict[str, Any]], None]
ON_CPU = ("--trainer.accelerator", "cpu", "--trainer.devices", "1")
CALLBACKS = "--trainer.callbacks"


def artifacts() -> dict[str, bytes]:
    """What the pipeline has written, by path."""
    return {str(path): path.read_bytes() for folder in ("checkpoints", "reports", "data/hypotheses")
            for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def own_run(family: str = "teacher") -> Path:
    """The only folder of a run with options."""
    folder, = Path("runs", family).iterdir()
    return folder


@pytest.fixture(scope="session")
def checkpointed(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which ModelCheckpoint and another logger, from the command line, took part in a training: `run`."""
    folder = tmp_path_factory.mktemp("checkpointed") / "workspace"
    shutil.copytree(toy_folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        before = artifacts()
        assert main(["fit", "--family", "teacher", *ON_CPU, "--trainer.default_root_dir", "run",
                     f"{CALLBACKS}+=ModelCheckpoint", f"{CALLBACKS}.monitor", "validation_bleu",
                     f"{CALLBACKS}.save_top_k", "-1", f"{CALLBACKS}.filename", "{step}",
                     "--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", "run", "--trainer.logger.name", "",
                     "--trainer.logger.version", "csv"]) == 0
        assert artifacts() == before
    return folder


@pytest.fixture
def trained(checkpointed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which becomes the working directory; the checkpoint of its eighth step."""
    shutil.copytree(checkpointed, tmp_path / "trained")
    monkeypatch.chdir(tmp_path / "trained")
    return Path("run/csv/checkpoints/step=8.ckpt")


@pytest.mark.parametrize("verb", ["fit", "validate", "predict", "test"])
def test_the_configuration_and_the_options_are_printed_before_any_data_exist(
        workspace: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    shutil.rmtree("data")
    for option, expected in (("--print_config", "accelerator: auto"), ("--help-lightning", "--trainer.max_steps")):
        with pytest.raises(SystemExit) as leaving:
            main([verb, *(["--family", "teacher"] if verb == "test" else []), option])
        printed = capsys.readouterr()
        assert not leaving.value.code and expected in printed.out and "ckpt_path" in printed.out
    assert not Path("runs").exists()


def test_a_printed_configuration_configures(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names its family, and options take precedence over it."""
    with pytest.raises(SystemExit):
        main(["fit", "--family", "interleaved", "--trainer.max_steps", "7", "--print_config"])
    Path("x.yaml").write_text(capsys.readouterr().out)
    before = artifacts()
    assert main(["fit", "--config", "x.yaml", "--trainer.fast_dev_run", "true"]) == 0
    assert artifacts() == before and not list(Path(".").rglob("*.ckpt"))
    assert main(["fit", "--config=x.yaml", *ON_CPU, "--trainer.max_steps", "2"]) == 0
    resolved = yaml.safe_load((own_run("interleaved") / "config.yaml").read_text())
    assert (resolved["family"], resolved["trainer"]["max_steps"]) == ("interleaved", 2)
    assert json.loads((own_run("interleaved") / "model/config.json").read_text())["training"]["steps"] == 2
    capsys.readouterr()
    assert main(["fit", "--family", "teacher", "--config", "x.yaml"]) == 2
    assert "--config: configures the family 'interleaved', but --family names 'teacher'" in capsys.readouterr().err


def test_a_run_with_options_writes_to_its_own_folder_unless_asked(workspace: Path, uninterrupted: Path) -> None:
    before = artifacts()
    options = ["fit", "--family", "teacher", *ON_CPU, "--trainer.log_every_n_steps", "3"]
    assert main(options) == 0
    assert artifacts() == before
    run = own_run()
    assert {path.name for path in run.iterdir()} == {"config.yaml", "curve", "model"}
    assert (run / "model" / WEIGHTS.name).read_bytes() == (uninterrupted / WEIGHTS).read_bytes()
    assert main(["fit", "--config", str(run / "config.yaml"), "--in-place"]) == 0
    assert WEIGHTS.read_bytes() == (uninterrupted / WEIGHTS).read_bytes()
    assert CONFIG.read_bytes() == (uninterrupted / CONFIG).read_bytes()
    assert (CONFIG.parent / "config.yaml").exists()  # params.yaml does not say it all


def test_without_options_nothing_but_the_artifacts_is_written(workspace: Path, uninterrupted: Path) -> None:
    before = set(artifacts())
    assert main(["fit", "--family", "teacher"]) == 0
    assert WEIGHTS.read_bytes() == (uninterrupted / WEIGHTS).read_bytes()
    assert not Path("runs").exists()
    assert {path for path in set(artifacts()) - before if not path.startswith("reports/training/teacher/")} == {
        "checkpoints/teacher/SHA256SUMS"}  # which the workspace lacks


def test_one_batch_of_validation(workspace: Path, capsys: pytest.CaptureFixture[str],
                                 caplog: pytest.LogCaptureFixture) -> None:
    """And Lightning reports what it does: its messages are not silenced wholesale."""
    assert main(["fit", "--family", "teacher", *ON_CPU, "--trainer.max_steps", "4", "--trainer.limit_val_batches",
                 "1"]) == 0
    assert "BLEU" in capsys.readouterr().out
    assert "limit_val_batches=1" in caplog.text and "GPU available" not in caplog.text


def test_callbacks_and_loggers_of_the_command_line(trained: Path) -> None:
    assert sorted(path.name for path in trained.parent.iterdir()) == ["step=12.ckpt", "step=4.ckpt", "step=8.ckpt"]
    assert "validation_bleu" in Path("run/csv/metrics.csv").read_text().splitlines()[0]
    assert yaml.safe_load(Path("run/csv/hparams.yaml").read_text())["network"]["width"] == 16
    assert Path("run/curve/plots/metrics/validation_bleu.tsv").exists()  # beside it


def test_a_checkpoint_of_lightnings_makes_its_module_again(trained: Path) -> None:
    """Without code in it, and whatever params.yaml has by now."""
    Path("params.yaml").unlink()
    state = torch.load(trained, weights_only=True)
    module = OrderedModule.load_from_checkpoint(trained, weights_only=True)
    assert module.network.settings.width == 16 and module.optimisation.warmup_steps == 4
    assert module.vocabulary.digest == Tokenizer.load(Path("data/bpe")).digest
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, state["state_dict"][name])
    made = OrderedModule(module.network.settings, OrderSettings("left_to_right"), module.optimisation,
                         module.vocabulary)
    assert made.hparams["network"] == module.hparams["network"]  # also of one that no command line has made


def test_a_training_goes_on_from_a_checkpoint(trained: Path) -> None:
    """With the weights of the uninterrupted run."""
    assert main(["fit", "--family", "teacher", *ON_CPU, "--ckpt_path", str(trained)]) == 0
    last = read_weights(own_run() / "model/weights.safetensors")
    state = torch.load(trained.with_name("step=12.ckpt"), weights_only=True)["state_dict"]
    for name, weight in last.items():
        torch.testing.assert_close(weight, state[f"network.{name}"], rtol=0, atol=0)


def test_a_training_goes_on_from_the_last_state(trained: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    """From the newest checkpoint; once it has a resume point of its own, from that, also if the checkpoint is gone."""
    expected = Path("run/model/weights.safetensors").read_bytes()
    for step in (8, 12):
        trained.with_name(f"step={step}.ckpt").unlink()
    again = ["fit", "--family", "teacher", *ON_CPU, "--trainer.default_root_dir", "run", "--ckpt_path", "last"]
    with monkeypatch.context() as patch, pytest.raises(Broken):
        break_at(patch, 9)
        main(again)
    assert "--ckpt_path last: run/csv/checkpoints/step=4.ckpt\n" in capsys.readouterr().out
    trained.with_name("step=4.ckpt").unlink()
    assert main(again) == 0
    printed, resumed = capsys.readouterr().out, Path("run", "work", "resume.ckpt")
    assert f"last: no checkpoint of ModelCheckpoint yet\ncontinuing from {resumed}\n" in printed
    assert Path("run/model/weights.safetensors").read_bytes() == expected


def test_last_and_best(trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the folder that is named, or of all runs of the family."""
    monkeypatch.setenv("COLUMNS", "120")
    newest = trained.with_name("step=12.ckpt")
    states = torch.load(newest, weights_only=True)["callbacks"]
    best, = (Path(state["best_model_path"]) for name, state in states.items() if name.startswith("ModelCheckpoint"))
    assert best.name != newest.name
    validate, there = ["validate", "--family", "teacher", *ON_CPU, "--ckpt_path"], ["--trainer.default_root_dir", "run"]
    tables = []
    for word in ("last", str(newest)):
        assert main([*validate, word, *there]) == 0
        printed = capsys.readouterr().out
        tables.append(table_of(printed))
        assert (f"--ckpt_path last: {newest}\n" in printed) == (word == "last")
    assert tables[0] == tables[1]
    for word in ("last", "best"):  # nothing there yet
        assert main([*validate, word]) == 2
        error = f"error: --ckpt_path {word}: no checkpoint of ModelCheckpoint in runs/teacher or"
        assert error in capsys.readouterr().err
    shutil.copytree("run", "runs/teacher/moved")
    shutil.rmtree("run")
    for verb in (["predict"], ["test", "--decoder", "greedy"]):
        assert main([*verb, "--family", "teacher", *ON_CPU, "--ckpt_path", "best"]) == 0
        assert f"--ckpt_path best: runs/teacher/moved/csv/checkpoints/{best.name}\n" in capsys.readouterr().out
    for path in Path("runs").rglob("*.ckpt"):
        state = torch.load(path, weights_only=True)
        for callback in state["callbacks"].values():
            callback["monitor"] = None
        torch.save(state, path)
    assert main([*validate, "best"]) == 2
    assert "its ModelCheckpoint had no metric to choose by" in capsys.readouterr().err


def table_of(printed: str) -> dict[str, float]:
    """The figures of Lightning's table."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "│" in line]
    return {name: float(value) for name, value in cells}


def test_validate(trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the same step in training; by default, of the final weights."""
    monkeypatch.setenv("COLUMNS", "120")
    before, rows = artifacts(), dict[str, dict[str, float]]()
    for name, options in {"step": ["--ckpt_path", str(trained)], "folder": ["--ckpt_path", "checkpoints/teacher"],
                          "default": []}.items():
        capsys.readouterr()
        assert main(["validate", "--family", "teacher", *ON_CPU, *options]) == 0
        rows[name] = table_of(capsys.readouterr().out)
    curve = [line.split("\t") for line in
             Path("run/curve/plots/metrics/validation_loss.tsv").read_text().splitlines()]
    in_training = {int(row[-2]): float(row[-1]) for row in curve[1:]}
    assert rows["step"]["validation_loss"] == pytest.approx(in_training[7], rel=1e-6)
    assert rows["folder"] == rows["default"] != rows["step"] and "validation_bleu" in rows["default"]
    assert artifacts() == before and not Path("runs").exists()


def test_predict(trained: Path) -> None:
    """What `translate` gives by the same search, and the sentences of a checkpoint."""
    assert main(["predict", "--family", "teacher", *ON_CPU]) == 0
    run = own_run()
    lines = (run / "predictions.txt").read_text().splitlines()
    assert main(["translate", "--family", "teacher", "--decoder", "greedy", "--input", "data/corpus/test.source",
                 "--output", "translated.txt"]) == 0
    assert lines == Path("translated.txt").read_text().splitlines()
    shutil.rmtree(run)
    assert main(["predict", "--family", "teacher", *ON_CPU, "--ckpt_path", str(trained), "--data.predicted",
                 "validation", "--trainer.limit_predict_batches", "1"]) == 0
    assert len((own_run() / "predictions.txt").read_text().splitlines()) == 5


def test_test_of_a_checkpoint_and_of_some_batches(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = artifacts()
    assert main(["test", "--family", "teacher", *ON_CPU, "--decoder", "greedy", "--ckpt_path", str(trained),
                 "--trainer.limit_test_batches", "2"]) == 0
    report = json.loads((own_run() / "quality.json").read_text())
    lines = (own_run() / "hypotheses/greedy.jsonl").read_text().splitlines()
    assert set(report["decoders"]) == {"greedy"} and len(lines) == 11
    assert main(["test", "--family", "teacher", "--trainer.fast_dev_run", "true"]) == 0
    assert artifacts() == before and len(list(Path("runs/teacher").iterdir())) == 1


def test_averaged_weights_are_what_is_validated_and_kept(workspace: Path, change_params: ChangeParams) -> None:
    change_params({"training": {"steps": 4, "average": 1}})
    assert main(["fit", "--family", "teacher", *ON_CPU, f"{CALLBACKS}+=EMAWeightAveraging", f"{CALLBACKS}.decay", "0.5",
                 f"{CALLBACKS}+=ModelCheckpoint", f"{CALLBACKS}.filename", "last"]) == 0
    state = torch.load(own_run() / "checkpoints/last.ckpt", weights_only=True)
    kept = read_weights(own_run() / "model/weights.safetensors")
    moved = False
    for name, weight in kept.items():
        assert torch.equal(weight, state["state_dict"][f"network.{name}"])  # Lightning's name of the averaged ones
        moved |= not torch.equal(weight, state["current_model_state"][f"network.{name}"])
    assert moved


def test_a_given_stop_is_obeyed(workspace: Path) -> None:
    fit(workspace, f"{CALLBACKS}+=EarlyStopping", f"{CALLBACKS}.monitor", "validation_bleu", f"{CALLBACKS}.mode", "max",
        f"{CALLBACKS}.patience", "1", "--model.optimisation.learning_rate", "1e-12", "--trainer.max_steps", "40")
    assert json.loads(CONFIG.read_text())["training"]["steps"] == 8


@pytest.mark.parametrize(("verb", "options", "message"), [
    ("fit", ["--trainer.max_steps", "-1"], "--trainer.max_steps: -1: the learning rate follows the number of steps"),
    ("fit", ["--trainer.barebones", "true"], "--trainer.barebones: keeps no weights"),
    ("fit", ["--trainer.use_distributed_sampler", "true"], "--trainer.use_distributed_sampler: Lightning's sampler"),
    ("fit", [f"{CALLBACKS}+=StochasticWeightAveraging", f"{CALLBACKS}.swa_lrs", "0.1"], "use WeightAveraging or"),
    ("fit", [f"{CALLBACKS}+=EarlyStopping", f"{CALLBACKS}.monitor", "nothing"], "`nothing` which is not available"),
    ("fit", [f"{CALLBACKS}+=ModelCheckpoint", f"{CALLBACKS}.monitor", "nothing"], "monitor='nothing'"),
    ("fit", ["--trainer.devices", "0"], "devices='0'"),
    ("fit", ["--trainer.strategy", "nothing"], "strategy='nothing'"),
    ("fit", ["--trainer.strategy", "fsdp"], "--trainer.strategy: fsdp: divides the weights among devices"),
    ("fit", ["--trainer.strategy", "sharded", f"{CALLBACKS}+=EMAWeightAveraging"], "needs whole weights; use ddp"),
    ("fit", [*SHARDED, f"{CALLBACKS}+=EMAWeightAveraging"], "needs whole weights; use ddp"),
    ("fit", ["--trainer.strategy", "FSDPStrategy"], "FSDPStrategy: divides the weights among devices"),
    ("fit", ["--trainer.logger", "WandbLogger"], "pip install -U 'wandb>=999'"),
    ("fit", ["--trainer.max_steps", "many"], "trainer.max_steps"),
    ("fit", ["--ckpt_path", "checkpoints/teacher"], "without the state of a training"),
    ("fit", ["--ckpt_path", "best"], "name the file, or take `last`"),
    ("fit", ["--config", "nothing.yaml"], "nothing.yaml"),
    ("validate", ["--ckpt_path", "nothing.ckpt"], "--ckpt_path: nothing.ckpt: not found; name a file"),
    ("validate", ["--ckpt_path", "params.yaml"], "--ckpt_path: params.yaml is damaged"),
    ("predict", ["--data.predicted", "nothing"], "data.predicted"),
    ("test", ["--ckpt_path", "params.yaml"], "--ckpt_path: params.yaml is damaged"),
    ("test", ["--ckpt_path", "nothing.ckpt"], "--ckpt_path: nothing.ckpt: not found"),
    ("test", ["--trainer.limit_test_batches", "0"], "leaves nothing to score"),
    ("test", ["--trainer.limit_test_batches", "1", "--in-place"], "leave --in-place out"),
], ids=lambda value: " ".join(value).replace("--trainer.", "") if isinstance(value, list) else None)
def test_what_cannot_be_honoured_is_refused_in_one_line(workspace: Path, capsys: pytest.CaptureFixture[str], verb: str,
                                                        options: list[str], message: str,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytorch_lightning.loggers.wandb._WANDB_AVAILABLE", RequirementCache("wandb>=999"))
    before = artifacts()
    assert main([verb, "--family", "teacher", "--trainer.accelerator", "cpu", *options]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ") and message in last
    assert artifacts() == before


def test_a_checkpoint_of_another_vocabulary_is_refused(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = torch.load(trained, weights_only=True)
    state["hyper_parameters"]["vocabulary"]["digest"] = "0" * 64
    torch.save(state, "other.ckpt")
    for verb in ("validate", "test"):
        assert main([verb, "--family", "teacher", *ON_CPU, "--ckpt_path", "other.ckpt"]) == 2
        assert "other.ckpt: trained with vocabulary 000000000000, but" in capsys.readouterr().err
