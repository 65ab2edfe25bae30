"""Silences those of Lightning's messages that are noise here, each for its reason."""

import logging
import warnings

_NOISE = (
    "GPU available",  # data/machine.json and every report name the device
    "TPU available",
    "HPU available",
    "💡 Tip",  # advertisements
    "Seed set to",  # params.yaml says so
    "`Trainer.fit` stopped: `max_steps",  # the last line of progress says so
    "Restoring states from the checkpoint",  # "continuing from" says so
    "Restored all states from the checkpoint",
    "`weights_only` was not set",  # it is
)
"""How messages begin that are logged for every run, and say nothing about it that is not said elsewhere."""
_WARNINGS = (
    ".*does not have many workers.*",  # batches are collated in microseconds, from memory-mapped ids
    ".*isinstance.treespec, LeafSpec.*",  # between two other libraries
    ".*in eval mode at the start of training.*",  # verifiers are, on purpose
    ".*smaller than the logging interval.*",  # of short runs, whose curves have their validations
    ".*predict returned None.*",  # distillation writes its shards itself
    ".*your dataloader is not resumable.*",  # its batches follow from the step, wherever a run begins
    ".*`tensorboardX` has been removed.*",  # no logger of ours
)
"""Patterns of warnings about what is as it should be."""


class _WithoutNoise(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_NOISE)


_FILTER = _WithoutNoise()


def quiet_lightning() -> None:
    """Silence the messages above; all others remain."""
    for name in ("pytorch_lightning.utilities.rank_zero", "pytorch_lightning.trainer.connectors.checkpoint_connector",
                 "lightning_fabric.utilities.rank_zero", "lightning_fabric.utilities.seed",
                 "lightning_fabric.utilities.distributed"):
        logging.getLogger(name).addFilter(_FILTER)  # a filter applies to the logger itself, not to those below it
    for pattern in _WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
