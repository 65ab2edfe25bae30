"""Lightning changes settings of the whole process; tests put them back."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fitting import fit
from sacrebleu.metrics.bleu import BLEU

from pipeline.bleu import make_bleu
from pipeline.training import metrics


@pytest.fixture(autouse=True)
def settings_of_torch() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled, threads = torch.utils.deterministic.fill_uninitialized_memory, torch.get_num_threads()
    with warnings.catch_warnings():
        yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    torch.utils.deterministic.fill_uninitialized_memory = filled
    torch.set_num_threads(threads)


@pytest.fixture
def bleu_tokenizers(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the tokenizers with which validations score."""
    used = set[str]()

    def recorded(tokenizer: str) -> BLEU:
        used.add(tokenizer)
        return make_bleu(tokenizer)

    monkeypatch.setattr(metrics, "make_bleu", recorded)
    return used


@pytest.fixture(scope="session")
def uninterrupted(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the teacher was trained in one go."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "workspace"
    shutil.copytree(toy_folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fit(folder)
    return folder
