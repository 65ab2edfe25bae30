"""Which id files a family is trained on."""

from pathlib import Path

import pytest

from pipeline.corpus.datamodule import PairsDataModule
from pipeline.errors import PipelineError


@pytest.mark.parametrize("side, names", [
    ("raw", ["bpe/train"]), ("distilled", ["distilled/train"]), ("both", ["bpe/train", "distilled/train"]),
    ("synthetic", ["bpe/synthetic"])])
def test_each_side_names_its_files(tmp_path: Path, side: str, names: list[str]) -> None:
    (tmp_path / "bpe").mkdir()
    (tmp_path / "bpe/synthetic.pairs").touch()
    data = PairsDataModule(str(tmp_path / "bpe"), str(tmp_path / "distilled"), side)
    assert data.training_paths() == [tmp_path / f"{name}.pairs" for name in names]


def test_synthetic_pairs_that_were_never_made_name_the_key_that_makes_them(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"synthetic\.pairs: not found, but data\.side is .*; set corpus\.noise"):
        PairsDataModule(str(tmp_path), str(tmp_path), "synthetic").training_paths()


def test_an_unknown_side_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="side is 'noisy'; choose one of raw, distilled, both, synthetic"):
        PairsDataModule(str(tmp_path), str(tmp_path), "noisy")
