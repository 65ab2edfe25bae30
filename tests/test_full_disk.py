"""A disk that fills up is one line and leaves nothing, whichever library writes."""

import importlib.util
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.cli import main
from pipeline.distillation_shards import Shard
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.training.callbacks import ResumePoint
from pipeline.training.candidates import Candidate, Candidates

WORK = Path("checkpoints/.work")


@contextmanager
def full_disk() -> Iterator[None]:
    """Let the system refuse every file of more than half a kilobyte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def while_full(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with full_disk():
            return function(*arguments)

    return call


def test_of_a_checkpoint(tmp_path: Path, tiny: Callable[..., Transformer]) -> None:
    network = tiny()
    with pytest.raises(PipelineError, match=r"weights\.safetensors: cannot be written: File too large"), full_disk():
        save_checkpoint(tmp_path / "model", network, VocabularySettings(20, 20, "c0ffee"), unique_weights(network), {})
    assert not list(tmp_path.iterdir())


def test_of_a_candidate(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"step-00000004\.safetensors: cannot be written: File too large"), \
            full_disk():
        Candidates(tmp_path, 2, "last").add(Candidate(4, None), {"matrix": torch.zeros(20, 20)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["hf", "ctranslate2"])
def test_of_an_export(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                      form: str) -> None:
    if form == "ctranslate2" and not importlib.util.find_spec("ctranslate2"):
        pytest.skip("ctranslate2 is not installed")
    from pipeline.interop import export_ctranslate2, export_huggingface

    module = export_huggingface if form == "hf" else export_ctranslate2
    monkeypatch.setattr(module, "save_model", while_full(module.save_model))
    assert main(["export", form, "--family", "teacher", "--output", "out/model"]) == 2
    told = capsys.readouterr().err
    assert "cannot be written: File too large" in told and told.count("\n") == 1
    assert not list(Path("out").iterdir())


def test_of_a_shard(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Shard, "write", while_full(Shard.write))
    assert main(["distill", "--devices", "1", "--accelerator", "cpu"]) == 2
    told = capsys.readouterr().err
    assert "shard-000000: cannot be written: File too large" in told and told.count("\n") == 1
    assert not [path for path in WORK.rglob("*") if path.is_file()]


def test_of_a_resume_file(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ResumePoint, "on_train_batch_start", while_full(ResumePoint.on_train_batch_start))
    assert main(["fit", "--family", "teacher", "--trainer.accelerator", "cpu", "--in-place"]) == 2
    told = capsys.readouterr().err
    assert "resume.ckpt: cannot be written: File too large" in told and told.count("\n") == 1
    assert not list((WORK / "teacher").glob("*resume*")) and not list((WORK / "teacher").glob(".*"))
