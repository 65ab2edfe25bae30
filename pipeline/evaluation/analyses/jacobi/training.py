"""Operations of a family's training over its own batches: by formula, or as torch counts them."""

import numpy as np
import pytorch_lightning as lightning
import torch
from numpy.typing import NDArray

from pipeline import layout
from pipeline.corpus.batches import TrainingBatches
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch, PairBatches, PairsDataModule
from pipeline.corpus.pairs import Pairs
from pipeline.evaluation.analyses.jacobi.flops import BACKWARD, Costs, seen_by_torch
from pipeline.families.base import TranslationModule, family_module
from pipeline.families.kinds import lattice, masked, ordered
from pipeline.families.settings import FamilySettings
from pipeline.model.orders import make_order
from pipeline.model.settings import VocabularySettings
from pipeline.params import Params
from pipeline.training.command_line import family_config
from pipeline.training.quiet import quiet_lightning

_BY_FORMULA = (ordered.Settings, masked.Settings, lattice.Settings)
"""Kinds of families all of whose weights are trained. Drafters and heads learn next to a frozen model."""
_SAMPLE = 24
"""Batches, evenly spread over a training, that torch counts."""


def training_operations(params: Params, name: str, tokenizer: Tokenizer, steps: int) -> int:
    """The operations of the steps of a family's training.

    Validation, the search of the teacher that distils the data, and the optimiser are not counted. For drafters and
    heads a sample of batches is counted, their verifier's operations included.

    Args:
        params: of a finished run.
        name: of the family.
        tokenizer: of that run.
        steps: that the training took, fewer than its settings allow where it ended early.

    Raises:
        PipelineError: training data or a verifier's checkpoint is missing or damaged.
    """
    family = params.family(name)
    paths = PairsDataModule(str(layout.BPE), str(layout.DISTILLED), family.data.side).training_paths()
    data = PairBatches([Pairs.open(path) for path in paths], family.network.max_length)
    batches = list(TrainingBatches(data.target_lengths, data.source_lengths, budget=family.data.batch_tokens,
                                   seed=params.seed, steps=steps, slices=family.training.accumulate))
    if isinstance(family, _BY_FORMULA):
        return round(sum(step_operations(family, tokenizer.target_size, int(data.source_lengths[batch.rows].max()),
                                         data.target_lengths[batch.rows] - 1) for batch in batches))
    sample = np.unique(np.linspace(0, len(batches) - 1, _SAMPLE).round().astype(int))
    module = make_module(params, name, tokenizer)
    return round(np.mean([counted_step(module, data[batches[at]]) for at in sample]) * len(batches))


def counted_step(module: TranslationModule, batch: Batch) -> int:
    """The operations of the loss of a batch and its gradients, counted by torch."""
    torch.manual_seed(module.seed)  # the blocks that a drafter learns of a batch are drawn

    def learn() -> None:
        loss, _ = module.loss(batch, module.optimisation.label_smoothing)
        loss.backward()

    return seen_by_torch(learn)


def make_module(params: Params, name: str, tokenizer: Tokenizer) -> TranslationModule:
    """A family's module at the start of its training, except that its weights are random."""
    quiet_lightning()
    config = family_config(params, name)["model"]
    family = params.family(name)
    own = {"network": family.network, "order": family.order, "optimisation": family.optimisation,
           "vocabulary": VocabularySettings(tokenizer.source_size, tokenizer.target_size, tokenizer.digest)}
    arguments = {key: own.get(key, value) for key, value in {**config, "vocabulary": None}.items()}
    module = family_module(family.kind)(**arguments)
    module.trainer = lightning.Trainer(max_steps=family.training.steps, accelerator="cpu", logger=False,
                                       enable_checkpointing=False, enable_progress_bar=False)
    return module


def step_operations(family: FamilySettings, vocabulary: int, pieces: int, words: NDArray[np.int64]) -> float:
    """The operations of one batch, the expected ones where a masked family draws the words to mask.

    Args:
        family: an ordered, masked or lattice family.
        vocabulary: target pieces.
        pieces: S, the length of the longest source, its end symbol included.
        words: (B,), the length of every target.
    """
    costs, B, N = Costs(family.network, vocabulary), len(words), int(words.max())
    if family.order is not None:
        return costs.training(B, pieces, make_order(family.order).slots(N))
    D = family.network.width
    if isinstance(family, lattice.Settings):
        predicted = float((words + 1).sum())
        encoder, slots, further = costs.encoder(B, pieces), N + 1, 2 * D * predicted  # the normaliser
    else:
        assert isinstance(family, masked.Settings)
        hidden = words if family.masking == "all" else np.where(words > 0, (words + 1) / 2, 0)
        predicted = float(hidden.sum())
        encoder, slots = costs.encoder(B, pieces + 1), N  # the LENGTH token is encoded
        further = 2.0 * D * family.network.max_length * B  # the lengths' classes
    forward = encoder + costs.source(B, pieces) + costs.decoder(B, slots, 0, pieces) + further
    return (1 + BACKWARD) * (forward + costs.projection(1) * predicted)
