"""The training curve of a run, as DVC plots it."""

from pathlib import Path
from typing import Any

from dvclive.lightning import DVCLiveLogger


class Curve(DVCLiveLogger):
    """Lightning's logger for a folder of curves, which it continues (`resume.begin` restores or empties the folder)."""

    def __init__(self, folder: Path) -> None:
        # dvc.yaml declares the curves; dvclive must write neither a dvc.yaml of its own nor an experiment.
        super().__init__(dir=str(folder), resume=True, dvcyaml=None, save_dvc_exp=False, report=None)

    def log_hyperparams(self, params: Any) -> None:
        """Nothing: they are in params.yaml or in the configuration that the run saves."""

    name = version = ""  # of a folder of Lightning's checkpoints, which need none within that of the run
