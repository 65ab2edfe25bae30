"""Average the weights of several checkpoints of one family into one."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.files import locked

if TYPE_CHECKING:
    from pipeline.model.transformer import Transformer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", nargs="+", type=Path, help="folders with weights.safetensors and config.json")
    parser.add_argument("--output", type=Path, required=True, help="folder of the average")


def run(arguments: argparse.Namespace) -> None:
    with locked(arguments.output):
        _average(arguments)


def _average(arguments: argparse.Namespace) -> None:
    from pipeline.errors import PipelineError
    from pipeline.model.checkpoint import average_weights, load_checkpoint, save_checkpoint, unique_weights
    from pipeline.model.settings import VocabularySettings

    if os.path.lexists(arguments.output):
        raise PipelineError(f"{arguments.output}: exists; remove it or choose another --output")
    loaded = [load_checkpoint(folder) for folder in arguments.checkpoints]
    network, config = loaded[0]
    described = [_described(folder, *one) for folder, one in zip(arguments.checkpoints, loaded, strict=True)]
    for folder, other in zip(arguments.checkpoints, described, strict=True):
        for key in (*described[0], *other):
            if other.get(key) != described[0].get(key):
                raise PipelineError(f"{folder}: its {key} differs from {arguments.checkpoints[0]}'s; "
                                    "average checkpoints of one family only")
    weights = average_weights([unique_weights(one) for one, _ in loaded], [str(path) for path in arguments.checkpoints])
    save_checkpoint(arguments.output, network, VocabularySettings(**config["vocabulary"]), weights,
                    {**config["training"], "averaged": [str(path) for path in arguments.checkpoints]})
    print(f"{arguments.output}: the average of {len(loaded)} checkpoints")


def _described(folder: Path, network: "Transformer", config: dict[str, Any]) -> dict[str, Any]:
    """What training leaves as it is: the network's description, and digests of its tables and of frozen weights."""
    import hashlib

    from pipeline.checksums import file_digest
    from pipeline.model.checkpoint import WEIGHTS

    verifier = hashlib.sha256()
    for weight in network.parameters():
        if not weight.requires_grad:
            verifier.update(weight.detach().numpy().tobytes())
    tables = {path.name: file_digest(path) for path in sorted(folder.glob("*.safetensors")) if path.name != WEIGHTS}
    return {**{key: value for key, value in config.items() if key != "training"}, **tables,
            "copy of the verifier": verifier.hexdigest()}
