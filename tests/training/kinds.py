"""A small module of every kind of family, and pairs to train it on, none of whose numbers a library decides."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from lattices import counted
from torch import nn

from pipeline.corpus.pairs import write_pairs
from pipeline.families.base import TranslationModule
from pipeline.families.drafter import DrafterModule
from pipeline.families.heads import HeadsModule
from pipeline.families.lattice import LatticeModule
from pipeline.families.masked import MaskedModule
from pipeline.families.ordered import OrderedModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer

DIGEST = "c0ffee" * 10 + "1234"
VOCABULARY = VocabularySettings(30, 30, DIGEST)
NETWORK: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 24, "encoder_layers": 1, "decoder_layers": 1,
                           "dropout": 0.0, "max_length": 12}
PAIRS = 60

Make = Callable[[NetworkSettings, OptimisationSettings, Path], TranslationModule]

MAKE: dict[str, Make] = {
    "ordered": lambda network, optimisation, folder: OrderedModule(
        network, OrderSettings("interleaved"), optimisation, VOCABULARY),
    "masked": lambda network, optimisation, folder: MaskedModule(network, optimisation, VOCABULARY),
    "lattice": lambda network, optimisation, folder: LatticeModule(
        network, optimisation, VOCABULARY, str(folder / "counts.safetensors")),
    "drafter": lambda network, optimisation, folder: DrafterModule(
        network, optimisation, VOCABULARY, str(folder / "verifier"), block=4),
    "heads": lambda network, optimisation, folder: HeadsModule(
        network, optimisation, VOCABULARY, str(folder / "verifier"), block=3),
}
"""From a network's shape, its optimisation and the folder of `write_inputs` to a module of each kind."""


def write_inputs(folder: Path) -> Path:
    """Write random pairs, their counts, and a random model to draft for; returns the folder."""
    draw = np.random.RandomState(8)  # the one generator of NumPy whose numbers will never change
    pairs = [tuple(draw.randint(7, 30, draw.randint(1, 11)).tolist() for _ in range(2)) for _ in range(PAIRS)]
    for split in ("train", "validation"):
        write_pairs(folder / f"{split}.pairs", pairs, 30, DIGEST)
    counted([(source, target, [min(t, len(source) - 1) for t in range(len(target))]) for source, target in pairs],
            vocabulary=30, digest=DIGEST).save(folder / "counts.safetensors")
    verifier = Transformer(NetworkSettings(**NETWORK), 30, 30, make_order(OrderSettings("left_to_right")))
    set_weights(verifier)
    save_checkpoint(folder / "verifier", verifier, VOCABULARY, unique_weights(verifier), {})
    return folder


def make(kind: str, folder: Path, smoothing: float = 0.1) -> TranslationModule:
    """A module in double precision whose weights depend on nothing but their names and shapes."""
    network = NetworkSettings(**NETWORK | ({"encoder_layers": 0} if kind == "drafter" else {}))
    optimisation = OptimisationSettings(learning_rate=0.01, warmup_steps=5, label_smoothing=smoothing)
    module = MAKE[kind](network, optimisation, folder).double()
    set_weights(module.network)
    return module


def set_weights(network: nn.Module) -> None:
    """Give every matrix random numbers; norms and biases stay ones and zeros."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() > 1:
                draw = np.random.RandomState(crc32(name.encode()))
                weight.copy_(torch.from_numpy(draw.uniform(-0.4, 0.4, tuple(weight.shape))))
