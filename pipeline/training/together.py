"""The processes of one run: they see the same files, none waits for one that has ended, and a scheduler ends them.

Processes on several nodes share one folder. A process that has died closes its connections, which the others notice at
the next exchange; one that hangs, or a node without power, is noticed after `PATIENCE`.
"""

import re
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.exceptions import SIGTERMException

from pipeline.errors import PipelineError, Terminated
from pipeline.files import remove, write_text

PATIENCE = timedelta(minutes=10)
"""How long a process waits for the others: longer than the first one needs to write the final weights, and than the
slowest share of an evaluation takes. Lightning's own is 30 minutes. --trainer.strategy.timeout replaces it."""
_CONNECTIONS = ("gloo", "NCCL", "ProcessGroup", "Connection closed by peer", "connect() timed out")
"""Words of torch's errors when a process of the run has ended or does not answer, where they have no class."""


class Together(lightning.Callback):
    """Checks, before anything is trained or decoded, that all processes see the same folder and the same inputs.

    Processes that a launcher has started (torchrun, srun) meet as soon as `meet` is called, before they look for a
    resume point. Those that Lightning starts by itself meet when they exist.
    """

    def __init__(self, folder: Path, inputs: Callable[[], dict[str, Any]]) -> None:
        """Args:
            folder: that the first process writes to and the others read.
            inputs: a function that returns the digests of all that must be the same, by what they are of.
        """
        self._folder, self._inputs = folder, inputs
        self._met = False

    def meet(self, trainer: lightning.Trainer) -> None:
        """Let the processes of a launcher meet, and check.

        Raises:
            PipelineError: a process sees another folder, or has other inputs or none; all processes raise the same.
        """
        environment = trainer._accelerator_connector.cluster_environment
        if trainer.world_size > 1 and not isinstance(environment, LightningEnvironment):
            trainer.strategy.setup_environment()  # which Lightning calls again, to no effect
            self.setup(trainer)

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule | None = None,
              stage: str | None = None) -> None:
        if trainer.world_size == 1 or trainer.fast_dev_run or self._met:  # type: ignore[attr-defined]
            return
        self._met = True
        file = self._folder / f".together.{_from_first(secrets.token_hex(8))}"
        try:
            error = None
            if trainer.is_global_zero:
                write_text(file, "")
        except PipelineError as failed:
            error = str(failed)
        trainer.strategy.barrier()
        sees = error is not None or file.exists()
        try:
            inputs = self._inputs()
        except PipelineError as failed:
            error, inputs = error or str(failed), {}
        reports: list[Any] = [None] * trainer.world_size
        torch.distributed.all_gather_object(reports, (socket.gethostname(), error, sees, inputs))
        if trainer.is_global_zero:
            remove(file)
        _compare(self._folder, reports)


def _compare(folder: Path, reports: list[tuple[str, str | None, bool, dict[str, Any]]]) -> None:
    """Raise the first difference between the processes, of which each one has told host, error, sight and inputs."""
    first, expected = reports[0][0], reports[0][3]
    for rank, (host, error, sees, inputs) in enumerate(reports):
        if error is not None:
            raise PipelineError(f"process {rank} on {host}: {error}")
        if not sees:
            raise PipelineError(f"{folder}: process {rank} on {host} does not see what process 0 on {first} writes "
                                "there; run from one folder, on a file system that all nodes share")
        other = [part for part, value in inputs.items() if expected[part] != value]
        if other:
            raise PipelineError(f"{folder}: process {rank} on {host} has other {' and '.join(other)} than process 0 on "
                                f"{first}; start all processes by the same command, with the same code and files")


def _from_first(mine: str) -> str:
    """The text of the first process."""
    texts = [mine]
    torch.distributed.broadcast_object_list(texts, src=0)
    return texts[0]


class EndWhenTold(lightning.Callback):
    """Ends the run at once on SIGTERM, as schedulers send it; the last resume point is kept.

    Lightning's own handler lets the processes exchange a message, in the midst of whatever else they are exchanging,
    and goes on to the end of the batch.
    """

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminate)  # Lightning puts back what it was when the run ends

    on_validation_start = on_test_start = on_predict_start = on_train_start


def _terminate(*_: Any) -> None:
    raise Terminated


def limit_patience(trainer: lightning.Trainer) -> None:
    """Let the processes of a trainer wait for each other for `PATIENCE`."""
    if hasattr(trainer.strategy, "_timeout"):
        trainer.strategy._timeout = PATIENCE


@contextmanager
def ended_in_one_line() -> Iterator[None]:
    """Report the end of another process in one line, and a signal as `KeyboardInterrupt` or `Terminated`."""
    try:
        yield
    except SIGTERMException:  # before `EndWhenTold` was in charge
        raise Terminated from None
    except SystemExit as leaving:  # Lightning's, on control-C
        if not isinstance(leaving.__context__, KeyboardInterrupt):
            raise
        raise leaving.__context__ from None
    except RuntimeError as error:
        if not isinstance(error, torch.distributed.DistError) and not any(word in str(error) for word in _CONNECTIONS):
            raise
        reason = re.sub(r"^\[.*?\] ", "", str(error).strip().splitlines()[0]).split(". ")[0]
        raise PipelineError(f"another process of this run has ended or does not answer ({reason}): see its messages, "
                            "or look for lack of memory or a lost node; the same command continues where the run "
                            "stopped") from error
