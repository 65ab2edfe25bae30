"""Average the weights of several checkpoints of one family into one."""

import argparse
import os
from pathlib import Path

from pipeline.files import locked


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
    for folder, (_, other) in zip(arguments.checkpoints, loaded, strict=True):
        for key in ("order", "network", "vocabulary"):
            if other[key] != config[key]:
                raise PipelineError(f"{folder}: its {key} differs from {arguments.checkpoints[0]}'s; "
                                    "average checkpoints of one family only")
    weights = average_weights([unique_weights(one) for one, _ in loaded], [str(path) for path in arguments.checkpoints])
    save_checkpoint(arguments.output, network, VocabularySettings(**config["vocabulary"]), weights,
                    {**config["training"], "averaged": [str(path) for path in arguments.checkpoints]})
    print(f"{arguments.output}: the average of {len(loaded)} checkpoints")
