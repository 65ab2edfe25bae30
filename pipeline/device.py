"""The device that a user names."""

import torch

from pipeline.errors import PipelineError


def pick_device(name: str) -> str:
    """cpu or cuda for a user's cpu, cuda or auto.

    Raises:
        PipelineError: the name is unknown, or cuda is not available.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise PipelineError(f"device: {name!r} is unknown; choose cpu, cuda or auto")
    if name == "cuda" and not torch.cuda.is_available():
        raise PipelineError("device: cuda is not available on this machine; choose cpu or auto")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
