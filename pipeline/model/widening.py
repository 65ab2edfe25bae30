"""The weights of a wide network that computes what a narrow one does (Net2Net: Chen et al. 2016, section 2.2)."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.model.settings import Copies, NetworkSettings


class _Axes(NamedTuple):
    """Which units of the narrow network a matrix of the wide one repeats in its rows and in its columns."""

    rows: Tensor | None
    """Of a matrix that stacks several parts, those of one part; None: the rows are the same."""
    columns: Tensor | None = None
    """None: it is a vector."""
    shares: bool = True
    """Whether its columns read repeated units, of whose weight each gets a share; else they are repeated like rows."""
    scale: float = 1.0


def widened(weights: Mapping[str, Tensor], narrow: NetworkSettings, copies: Copies, seed: int) -> dict[str, Tensor]:
    """The weights of a wide network whose logits are those of a narrow one.

    Every unit of the narrow network is repeated, so the mean and the variance of a normalised vector stay what they
    were. What reads repeated units has a random share of the weight for each, so that they get different gradients and
    do not stay the same. What embeds and what projects may be one matrix: both are divided by the square root of the
    number of copies, by which the scale of the embeddings grows, and so is the last normalisation.

    Args:
        weights: of the narrow network, by name.
        narrow: its shape.
        copies: of each of its units (`NetworkSettings.copies_of`).
        seed: of the shares.

    Returns:
        By name. The weights of maps that not every `Transformer` has are left out, but for the lengths of masked ones.
    """
    model = torch.arange(narrow.width).repeat(copies.width)
    heads = torch.arange(narrow.width).view(narrow.heads, -1).repeat(copies.heads, copies.head_units).flatten()
    inner = torch.arange(narrow.feed_forward).repeat(copies.feed_forward)
    # Products of queries and keys are sums over repeated units, divided by the square root of a larger number of units.
    queries = copies.head_units ** -0.5
    root = copies.width ** -0.5
    axes = {
        "source_embedding": _Axes(None, model, shares=False, scale=root),
        "target_embedding": _Axes(None, model, shares=False, scale=root),
        "projection": _Axes(None, model, shares=False, scale=root),
        "source_positions": _Axes(None, model, shares=False),
        "target_positions": _Axes(None, model, shares=False),
        "self_attention.queries_keys_values": _Axes(heads, model),
        "self_attention.output": _Axes(model, heads),
        "cross_attention.queries": _Axes(heads, model, scale=queries),
        "cross_attention.output": _Axes(model, heads),
        "source_keys_values": _Axes(heads, model),
        "feed_forward.inner": _Axes(inner, model),
        "feed_forward.outer": _Axes(model, inner),
        "norm": _Axes(model),
        "encoder_norm": _Axes(model),
        "decoder_norm": _Axes(model, scale=root),
        "excess": _Axes(None, model),
    }
    generator = torch.Generator().manual_seed(seed)
    wide = dict[str, Tensor]()
    for name, weight in sorted(weights.items()):
        module = f".{name.rpartition('.')[0]}"
        found = next((one for suffix, one in axes.items() if module.endswith(f".{suffix}")), None)
        if found is not None:
            wide[name] = _widened(weight, found, generator)
            if module.endswith("queries_keys_values"):
                wide[name][:len(heads)] *= queries
    return wide


def _widened(weight: Tensor, axes: _Axes, generator: torch.Generator) -> Tensor:
    if axes.rows is not None:
        units = int(axes.rows.max()) + 1
        weight = torch.cat([part[axes.rows] for part in weight.split(units)])
    if axes.columns is None or weight.dim() == 1:
        return weight * axes.scale
    wide = weight[:, axes.columns] * axes.scale
    return wide * _shares(len(wide), axes.columns, generator).to(wide.dtype) if axes.shares else wide


def _shares(rows: int, columns: Tensor, generator: torch.Generator) -> Tensor:
    """Positive numbers (rows, columns) whose sum over the copies of a unit is 1, for every row and every unit."""
    units = int(columns.max()) + 1
    copies = len(columns) // units
    noise = torch.rand(rows, len(columns), generator=generator, dtype=torch.float64) - 0.5
    mean = torch.zeros(rows, units, dtype=torch.float64).index_add_(1, columns, noise) / copies
    return (1 + noise - mean[:, columns]) / copies
