"""`validate` and `predict`: Lightning's command line on the trained weights of a family."""

from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch, PairsDataModule
from pipeline.families.base import TranslationModule
from pipeline.files import write_text
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import load_params
from pipeline.training.callbacks import Threads
from pipeline.training.command_line import FamilyCLI

PREDICTIONS = "predictions.txt"


def validate(family: str, options: list[str]) -> None:
    """Print the validation loss and BLEU of a family's weights, or of those that --ckpt_path names.

    Args:
        family: a block of `families`.
        options: of Lightning's command line.

    Raises:
        PipelineError: an option cannot be honoured, or files are missing or damaged.
    """
    ValidateCLI(load_params(), family, options)


def predict(family: str, options: list[str]) -> None:
    """Translate a split by the family's quick search, line by line to a file; arguments and errors as `validate`."""
    PredictCLI(load_params(), family, options)


class _TrainedCLI(FamilyCLI):
    """A verb that reads weights: those of --ckpt_path, by default the family's."""

    def weights(self, model: TranslationModule, path: str | None) -> str | None:
        """Load a folder of weights into the module, or leave a file of Lightning's to the trainer.

        Returns:
            Lightning's file; None if the weights came from a folder.
        """
        if path is not None and not Path(path).is_dir():
            return path
        folder = Path(path or layout.checkpoint(self.family))
        model.network, _ = load_checkpoint(folder, model.vocabulary.digest, self.params.family(self.family).order)
        return None


class ValidateCLI(_TrainedCLI):
    """`validate` of Lightning's command line, which prints Lightning's table."""

    verb = "validate"

    def own_callbacks(self, given: list[Callback]) -> list[Callback]:
        return [Threads(self.params.family(self.family).training.threads), self.validation_bleu()]

    def validate(self, model: TranslationModule, datamodule: PairsDataModule, ckpt_path: str | None, verbose: bool,
                 **_: Any) -> None:
        """Lightning calls this with the options that are not of the trainer's class."""
        self.run(self.trainer.validate, model, datamodule, ckpt_path=self.weights(model, ckpt_path), verbose=verbose)


class PredictCLI(_TrainedCLI):
    """`predict` of Lightning's command line, which writes one line per source."""

    verb = "predict"

    def own_callbacks(self, given: list[Callback]) -> list[Callback]:
        return [Threads(self.params.family(self.family).training.threads),
                WritePredictions(self.datamodule.tokenizer, self.root / PREDICTIONS)]

    def predict(self, model: TranslationModule, datamodule: PairsDataModule, ckpt_path: str | None,
                return_predictions: bool | None, **_: Any) -> None:
        """Lightning calls this with the options that are not of the trainer's class."""
        path = self.weights(model, ckpt_path)
        model.limit = self.params.length_limit(model.network.settings.max_length)
        with self.locked(self.root):
            self.run(self.trainer.predict, model, datamodule, ckpt_path=path, return_predictions=return_predictions)


class WritePredictions(Callback):
    """Writes the best translation of every source, in the order of the split, from all devices."""

    def __init__(self, tokenizer: Tokenizer, path: Path) -> None:
        self._tokenizer, self._path = tokenizer, path
        self._texts: dict[int, str] = {}

    def on_predict_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: list[list[int]],
                             batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._texts.update(zip(batch.rows.tolist(), self._tokenizer.decode_targets(outputs), strict=True))

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        parts = [self._texts] * trainer.world_size
        if len(parts) > 1:
            torch.distributed.all_gather_object(parts, self._texts)
        texts = {row: text for part in parts for row, text in part.items()}
        if trainer.is_global_zero and not trainer.fast_dev_run:  # type: ignore[attr-defined]  # which keeps nothing
            write_text(self._path, "".join(f"{texts[row]}\n" for row in sorted(texts)))
            print(f"{self._path}: {len(texts)} translations")
        trainer.strategy.barrier()  # no process returns while the first one still writes
