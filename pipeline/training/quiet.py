"""Silences Lightning's irrelevant messages."""

import logging
import warnings


def quiet_lightning() -> None:
    """Silence Lightning's hints that do not apply to these data modules and trainers."""
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
    warnings.filterwarnings("ignore", message=".*in eval mode at the start of training.*")  # verifiers are
    warnings.filterwarnings("ignore", message=".*smaller than the logging interval.*")
    warnings.filterwarnings("ignore", message=".*predict returned None.*")
