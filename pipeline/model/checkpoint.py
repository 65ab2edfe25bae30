"""A trained model on disk: `weights.safetensors` and `config.json`, neither of which can contain code."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from pipeline.checks import Refused
from pipeline.checksums import check, summed_folder
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, read_json, reading
from pipeline.model.networks import order_identity, rebuild
from pipeline.model.orders import make_order
from pipeline.model.settings import OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer

FORMAT = 2
WEIGHTS, CONFIG = "weights.safetensors", "config.json"


def unique_weights(network: Transformer) -> dict[str, Tensor]:
    """The parameters by name; tied ones have the first of their names."""
    return {name: parameter.detach() for name, parameter in network.named_parameters()}


def not_finite(weights: dict[str, Tensor]) -> str | None:
    """The name of the first weight that holds NaN or an infinite value; None: all values are finite."""
    finite = torch.stack([weight.isfinite().all() for weight in weights.values()])
    return None if finite.all() else list(weights)[int(finite.int().argmin())]


def save_checkpoint(folder: Path, network: Transformer, vocabulary: VocabularySettings, weights: dict[str, Tensor],
                    training: dict[str, Any]) -> None:
    """Write a checkpoint folder atomically.

    Args:
        folder: replaced if it exists.
        network: describes the architecture.
        vocabulary: of the training.
        weights: named as by `unique_weights`.
        training: how the weights were trained, for human readers; plain JSON.

    Raises:
        PipelineError: a weight is not finite.
    """
    damaged = not_finite(weights)
    if damaged is not None:
        raise PipelineError(f"{folder}: not saved, because {damaged} is not finite; train it again, with a lower "
                            "optimisation.learning_rate")
    config = {
        "format": FORMAT,
        **network.architecture(),
        "vocabulary": dataclasses.asdict(vocabulary),
        "training": training,
    }
    with summed_folder(folder) as aside:
        write_weights(aside / WEIGHTS, weights)
        network.save_tables(aside)
        (aside / CONFIG).write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def load_checkpoint(folder: Path, digest: str | None = None,
                    order: OrderSettings | None = None) -> tuple[Transformer, dict[str, Any]]:
    """The network of a checkpoint folder, in evaluation mode on the CPU, and its config.

    Args:
        folder: written by `save_checkpoint`.
        digest: of the caller's vocabulary; None skips the check.
        order: which the caller expects; None skips the check.

    Raises:
        PipelineError: a file is absent or damaged, or belongs to another vocabulary, order, format or shape.
    """
    config = read_config(folder)
    try:
        vocabulary = VocabularySettings(**config["vocabulary"])
        network = cast(Transformer, rebuild(config, vocabulary))
    except (KeyError, TypeError, Refused) as error:
        raise PipelineError(f"{folder / CONFIG}: incomplete ({error}); train the model again") from None
    wanted = [network.order] if network.chooses_order else []
    wanted += [] if order is None else [make_order(order)]
    for one in wanted:
        if config["order"] != order_identity(one):
            raise PipelineError(f"{folder / CONFIG}: trained in the order {config['order']}, but {order_identity(one)} "
                                "is in use; train it again or restore its params.yaml")
    if digest is not None and vocabulary.digest != digest:
        raise PipelineError(f"{folder}: trained with vocabulary {vocabulary.digest[:12]}, but {digest[:12]} is in use; "
                            "train it again or restore its data/bpe (`dvc checkout`)")
    load_weights(network, folder / WEIGHTS)
    network.load_tables(folder, vocabulary.digest)
    return column_major(network.eval()), config


def read_config(folder: Path) -> dict[str, Any]:
    """The description of a checkpoint folder's network, vocabulary and training.

    Raises:
        PipelineError: it is absent, damaged or of another format.
    """
    check(folder / CONFIG)
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise PipelineError(f"{folder / CONFIG}: not a checkpoint of format {FORMAT}; train it again with this version")
    return config


def column_major(network: Transformer) -> Transformer:
    """Store the matrices by columns, in place, with the same values and shapes, for decoding on a CPU.

    A step multiplies few rows by every matrix. The BLAS kernel for a column-major matrix is then up to twice as fast as
    that for a transposed row-major one.
    """
    for parameter in network.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.t().contiguous().t()
    for module in network.modules():
        if isinstance(module, Transformer):
            module.clear_caches()
    return network


def write_weights(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file atomically.

    The library's `save_file` makes files that other users cannot read, and has its own error for a full disk.

    Raises:
        PipelineError: the disk is full, or the folder is not writable.
    """
    content = save({name: weight.contiguous().cpu() for name, weight in weights.items()}, metadata)
    with atomic_path(path) as aside:
        aside.write_bytes(content)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file.

    Raises:
        PipelineError: absent, damaged or not safetensors.
    """
    check(path)
    try:
        with reading(path), path.open("rb"):  # safetensors itself reports a file without permission as not found
            return load_file(path)
    except SafetensorError as error:
        raise PipelineError(f"{path}: truncated or damaged ({error}); remove it and run `dvc repro`") from None


def load_weights(network: Transformer, path: Path) -> None:
    """Copy the weights of a safetensors file into a network of the same shape.

    Raises:
        PipelineError: the file does not fit, or is absent or damaged.
    """
    stored, own = read_weights(path), unique_weights(network)
    names = own.keys() | stored.keys()
    fitting = {name for name in own if name in stored and stored[name].shape == own[name].shape}
    if fitting != names:
        name = min(names - fitting)
        shapes = [tuple(weights[name].shape) if name in weights else "absent" for weights in (stored, own)]
        raise PipelineError(f"{path}: {name} is {shapes[0]} in the file and {shapes[1]} in the model; "
                            "the checkpoint has another shape: train it again or restore its params.yaml")
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(stored[name])


def average_weights(states: list[dict[str, Tensor]], names: list[str]) -> dict[str, Tensor]:
    """The mean of several models' weights, summed in float64 so that their order does not matter.

    Args:
        states: weights by name.
        names: of the models, for the error message.

    Raises:
        PipelineError: they differ in names or shapes.
    """
    shapes = [{name: tuple(weight.shape) for name, weight in state.items()} for state in states]
    for name, other in zip(names[1:], shapes[1:], strict=True):
        if other != shapes[0]:
            raise PipelineError(f"{name}: cannot be averaged with {names[0]}: their shapes differ; "
                                "average checkpoints of one family only")
    return {name: (sum(state[name].double() for state in states) / len(states)).to(states[0][name].dtype)  # type: ignore[union-attr]
            for name in states[0]}
