"""Loggers of Lightning from the command line, beside the pipeline's own curve; those whose package is installed."""

import json
import sqlite3
from pathlib import Path

import pytest
import yaml

from pipeline.cli import main

LOGGER = "--trainer.logger"


def train(*options: str) -> Path:
    """Train four steps with a logger and return the folder of the run, in which the pipeline's curve is."""
    assert main(["fit", "--family", "teacher", "--trainer.accelerator", "cpu", "--trainer.devices", "1",
                 "--trainer.max_steps", "4", "--trainer.log_every_n_steps", "2", "--trainer.default_root_dir", "run",
                 *options]) == 0
    assert "validation_bleu" in json.loads(Path("run/curve/metrics.json").read_text())
    return Path("run")


def test_tensorboard(workspace: Path) -> None:
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(LOGGER, "TensorBoardLogger", f"{LOGGER}.save_dir", "logs", f"{LOGGER}.name", "", f"{LOGGER}.version", "one")
    events = EventAccumulator("logs/one").Reload()
    assert {"training_loss", "validation_loss", "validation_bleu"} <= set(events.Tags()["scalars"])
    assert yaml.safe_load(Path("logs/one/hparams.yaml").read_text())["network"]["width"] == 16


def test_wandb(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="pip install wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(LOGGER, "WandbLogger", f"{LOGGER}.save_dir", "logs", f"{LOGGER}.offline", "true")
    wandb.finish()
    recorded, = Path("logs/wandb").glob("offline-run-*/*.wandb")
    content = recorded.read_bytes()
    assert b"validation_bleu" in content and b"warmup_steps" in content  # figures and hyper-parameters


def test_mlflow(workspace: Path) -> None:
    pytest.importorskip("mlflow", reason="pip install mlflow")
    train(LOGGER, "MLFlowLogger", f"{LOGGER}.tracking_uri", "sqlite:///mlflow.db")
    with sqlite3.connect("mlflow.db") as store:
        names = {name for name, in store.execute("select distinct key from metrics")}
        width = store.execute("select value from params where key like '%width'").fetchall()
    store.close()
    assert {"training_loss", "validation_loss", "validation_bleu"} <= names and width == [("16",)]
