"""Makes padded tensors from encoded pairs, for training and evaluation on any number of devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytorch_lightning as lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipeline.corpus.batches import EvaluationBatches, Slice, TrainingBatches
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids, Pairs
from pipeline.corpus.settings import DataSettings, Side
from pipeline.errors import PipelineError
from pipeline.layout import SYNTHETIC
from pipeline.vocabulary import PAD

Split = Literal["train", "validation", "test"]


class Batch(NamedTuple):
    """B sentence pairs; B may be 0 in an evaluation on several devices."""

    rows: Tensor
    """(B,) index of each pair in its split."""
    source: Tensor
    """(B, S) ids with EOS after each source, then PAD."""
    target: Tensor
    """(B, N) ids without start or end symbols, padded with PAD on the right."""
    target_lengths: Tensor
    """(B,) tokens of each target."""
    weight: float
    """Factor of the summed token losses; see `batches.Slice`."""


@dataclass(frozen=True)
class Resample:
    """BPE-dropout of training pairs; a pair's pieces depend only on the seed, the epoch and its row."""

    tokenizer: Tokenizer
    dropout: float
    seed: int

    def __call__(self, pairs: Sequence[tuple[Ids, Ids]], batch: Slice) -> list[tuple[Ids, Ids]]:
        seeds = [int(np.random.SeedSequence([self.seed, batch.epoch, row]).generate_state(1)[0])
                 for row in batch.rows.tolist()]
        return self.tokenizer.resampled(pairs, self.dropout, seeds)


class PairBatches(Dataset[Batch]):
    """Collates slices of one or several files of pairs, whose rows are numbered consecutively.

    Sources and targets are cut to `longest` tokens, end symbol included. Targets of training are never longer
    (`PairsDataModule.train_dataloader`).
    """

    def __init__(self, files: Sequence[Pairs], longest: int, resample: "Resample | None" = None) -> None:
        """Args:
            files: of pairs.
            longest: the limit of tokens per source and target, end symbol included.
            resample: encodes training pairs anew, unless they become longer than the limit.
        """
        self.files, self.longest, self.resample = files, longest, resample
        self._starts = np.cumsum([0, *map(len, files)])
        self.source_lengths = np.concatenate([np.minimum(pairs.source_lengths + 1, longest) for pairs in files])
        self.target_lengths = np.concatenate([pairs.target_lengths + 1 for pairs in files]).astype(np.int64)

    def __getitem__(self, batch: Slice) -> Batch:
        which = np.searchsorted(self._starts, batch.rows, side="right") - 1
        places = [(self.files[f], int(row - self._starts[f])) for f, row in zip(which, batch.rows, strict=True)]
        pairs: list[tuple[Ids, Ids]] = [(file.source(row), file.target(row)) for file, row in places]
        if self.resample is not None:
            anew = self.resample(pairs, batch)
            pairs = [pair if max(map(len, pair)) < self.longest else pairs[place] for place, pair in enumerate(anew)]
        sources, targets = [source for source, _ in pairs], [target[:self.longest - 1] for _, target in pairs]
        lengths = torch.tensor([len(target) for target in targets], dtype=torch.long)
        target = torch.full((len(targets), max(map(len, targets), default=0)), PAD)
        for row, ids in zip(target, targets, strict=True):
            row[:len(ids)] = torch.from_numpy(np.asarray(ids, dtype=np.int64))
        return Batch(torch.from_numpy(batch.rows), pad_sources(sources, self.longest), target, lengths, batch.weight)


class PairsDataModule(lightning.LightningDataModule):
    """Batches of one family's training side, and of the validation and test splits.

    Lightning's own distributed sampler repeats rows so that all devices have equally many, which biases a test;
    `EvaluationBatches` uses every row once. `--trainer.use_distributed_sampler` is therefore off.
    """

    def __init__(self, folder: str, distilled: str, side: Side = "raw", batch_tokens: int = 600,
                 evaluation_tokens: int = 1024, validation_sentences: int | None = None, longest: int = 256,
                 seed: int = 1, workers: int = 0, bpe_dropout: float = 0.0, predicted: Split = "test") -> None:
        """Args:
            folder: of the `bpe` stage.
            distilled: folder of the `distill` stage, which is read if `side` requires it.
            side: the pairs to train on: raw, distilled, both or synthetic.
            batch_tokens: target tokens of one optimiser step over all devices, padding included.
            evaluation_tokens: source tokens per validation or test batch, padding included.
            validation_sentences: sentences of the split, from the first, to validate on; None: all.
            longest: the limit of tokens per source and target. Longer sources are cut, and so are longer targets of
                validation, with a notice; longer targets of training are an error.
            seed: of the order of batches.
            workers: processes that collate; 0: the training process collates.
            bpe_dropout: probability with which a merge is left out in training.
            predicted: the split whose sources `predict` translates.
        """
        super().__init__()
        self.save_hyperparameters(logger=False)
        self.settings = DataSettings(side, batch_tokens, workers, bpe_dropout)
        self.folder, self.distilled = Path(folder), Path(distilled)
        self.evaluation_tokens, self.longest, self.seed = evaluation_tokens, longest, seed
        self.validation_sentences, self.predicted = validation_sentences, predicted

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of the data."""
        return Tokenizer.load(self.folder)

    def training_paths(self) -> list[Path]:
        """The files of pairs of the chosen side.

        Raises:
            PipelineError: the side is synthetic, and the corpus was built without noise.
        """
        raw, distilled = self.folder / "train.pairs", self.distilled / "train.pairs"
        synthetic = self.folder / f"{SYNTHETIC}.pairs"
        if self.settings.side == SYNTHETIC and not synthetic.exists():
            raise PipelineError(f"{synthetic}: not found, but data.side is '{SYNTHETIC}'; set corpus.noise in "
                                "params.yaml and run `dvc repro`")
        paths = {"raw": [raw], "distilled": [distilled], "both": [raw, distilled], SYNTHETIC: [synthetic]}
        return paths[self.settings.side]

    def train_dataloader(self) -> DataLoader[Batch]:
        trainer = self._trainer()
        if trainer.overfit_batches:
            raise PipelineError("--trainer.overfit_batches: Lightning would choose rows by its own sampler; use "
                                "--trainer.limit_train_batches and --trainer.max_epochs")
        dropout = self.settings.bpe_dropout
        data = PairBatches([Pairs.open(path) for path in self.training_paths()], self.longest,
                           Resample(self.tokenizer, dropout, self.seed) if dropout else None)
        longest = int(data.target_lengths.max())
        if longest > self.longest:
            raise PipelineError(f"{' and '.join(map(str, self.training_paths()))}: a target has {longest} tokens, the "
                                f"model takes {self.longest}; raise network.max_length or lower bpe.max_length, of "
                                "distilled targets limit.ratio")
        sampler = TrainingBatches(
            data.target_lengths, data.source_lengths, budget=self.settings.batch_tokens, seed=self.seed,
            steps=trainer.max_steps, slices=trainer.accumulate_grad_batches, rank=trainer.global_rank,
            world=trainer.world_size, start=trainer.global_step)
        return self._loader(data, sampler)

    def val_dataloader(self) -> DataLoader[Batch]:
        loader = self._evaluation("validation", self.validation_sentences)
        assert isinstance(loader.dataset, PairBatches)
        lengths = loader.dataset.target_lengths[:self.validation_sentences]
        cut = int((lengths > self.longest).sum())
        if cut and self._trainer().is_global_zero:
            print(f"{cut} of {len(lengths)} validation targets are cut to the {self.longest} tokens that the model "
                  "takes; the validation loss is over the remaining tokens, BLEU is against the uncut references")
        return loader

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._evaluation("test")

    def predict_dataloader(self) -> DataLoader[Batch]:
        return self._evaluation(self.predicted)

    def _evaluation(self, split: str, first: int | None = None) -> DataLoader[Batch]:
        trainer = self._trainer()
        data = PairBatches([Pairs.open(self.folder / f"{split}.pairs")], self.longest)
        return self._loader(data, EvaluationBatches(
            data.source_lengths[:first], budget=self.evaluation_tokens, rank=trainer.global_rank,
            world=trainer.world_size))

    def _loader(self, data: PairBatches, sampler: TrainingBatches | EvaluationBatches) -> DataLoader[Batch]:
        return DataLoader(data, sampler=sampler, batch_size=None, num_workers=self.settings.workers,
                          pin_memory=torch.cuda.is_available())

    def _trainer(self) -> Any:  # Lightning declares few of its attributes
        if self.trainer is None:
            raise RuntimeError("the data module makes batches for a trainer; pass it to one")
        return self.trainer
