"""The operations of a family's training, by formula, over the batches that it was trained on."""

import numpy as np
from numpy.typing import NDArray

from pipeline import layout
from pipeline.corpus.batches import TrainingBatches
from pipeline.corpus.datamodule import PairBatches, PairsDataModule
from pipeline.corpus.pairs import Pairs
from pipeline.evaluation.flops import BACKWARD, Costs
from pipeline.model.orders import make_order
from pipeline.params import FamilySettings

COUNTED_KINDS = ("ordered", "masked", "lattice")
"""Kinds of families all of whose weights are trained. Drafters and heads learn beside a model that is only read."""


def training_operations(family: FamilySettings, vocabulary: int, seed: int) -> int | None:
    """All steps that the family's block asks for; None where its kind is not counted.

    Validation, the search of the teacher that distils the data, and what the optimiser does are left out.

    Args:
        family: how it is trained.
        vocabulary: target pieces.
        seed: of the order of batches.

    Raises:
        PipelineError: training data is missing or damaged.
    """
    if family.kind not in COUNTED_KINDS:
        return None
    paths = PairsDataModule(str(layout.BPE), str(layout.DISTILLED), family.data.side).training_paths()
    data = PairBatches([Pairs.open(path) for path in paths], family.network.max_length)
    batches = TrainingBatches(data.target_lengths, data.source_lengths, budget=family.data.batch_tokens, seed=seed,
                              steps=family.training.steps, slices=family.training.accumulate)
    return round(sum(step_operations(family, vocabulary, int(data.source_lengths[batch.rows].max()),
                                     data.target_lengths[batch.rows] - 1) for batch in batches))


def step_operations(family: FamilySettings, vocabulary: int, pieces: int, words: NDArray[np.int64]) -> float:
    """Of one batch: three passes forward. Where a masked family hides words by chance, what is to be expected.

    Args:
        family: of one of the counted kinds.
        vocabulary: target pieces.
        pieces: S, of the longest source, its end symbol included.
        words: (B,), of every target.
    """
    costs, B, N = Costs(family.network, vocabulary), len(words), int(words.max())
    if family.order is not None:
        return costs.training(B, pieces, make_order(family.order).slots(N))
    D = family.network.width
    if family.kind == "lattice":
        predicted = float((words + 1).sum())
        encoder, slots, further = costs.encoder(B, pieces), N + 1, 2 * D * predicted  # the normaliser
    else:
        hidden = words if family.masking == "all" else np.where(words > 0, (words + 1) / 2, 0)
        predicted = float(hidden.sum())
        encoder, slots = costs.encoder(B, pieces + 1), N  # the LENGTH token is encoded
        further = 2.0 * D * family.network.max_length * B  # the lengths' classes
    forward = encoder + costs.source(B, pieces) + costs.decoder(B, slots, 0, pieces) + further
    return (1 + BACKWARD) * (forward + costs.projection(1) * predicted)
