"""Target tokens per second in training: ours against Hugging Face's Trainer, the same network on the same batches.

    pip install -c constraints.txt accelerate   # which the other trainer needs
    python -m benchmarks.trainers
    python -m benchmarks.trainers --device cuda --batch-tokens 4000 --steps 60 --output gpu.json

Each runs in a process of its own, by turns. Both get batches of sentences of similar length, ready as tensors: ours by
Lightning's trainer, with the module and the optimiser of the pipeline, the other as its documentation describes, with
a Marian model of the same shape, its default attention and the fused AdamW. Networks are pre-norm and post-norm, which
computes the same products.
"""

import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.clock import RESULTS, about, argument_parser, median_ratio, table
from benchmarks.shapes import BASE
from pipeline.corpus.batches import Slice, TrainingBatches
from pipeline.corpus.datamodule import Batch, PairBatches
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.evaluation.speed import synchronise
from pipeline.families.ordered import OrderedModule
from pipeline.families.settings import OptimisationSettings
from pipeline.files import write_json
from pipeline.model.settings import OrderSettings, VocabularySettings
from pipeline.training.quiet import quiet_lightning
from pipeline.vocabulary import BOS, EOS, PAD, SPECIALS

WARMUP = 3
"""Steps before the clock starts."""
MEAN_LENGTH, LONGEST = 16, 100
"""Words per target."""
CLIP = 1.0
PRECISIONS = {"float32": "32-true", "bfloat16": "bf16-mixed"}


def synthetic_pairs(folder: Path, pairs: int, vocabulary: int, *, seed: int = 1) -> Pairs:
    """Pairs of random words, of the lengths of interface strings: many short ones and a long tail.

    Targets are 2 words and an exponential, `MEAN_LENGTH` words in the mean; sources are up to a quarter
    shorter or longer than their targets.
    """
    random = np.random.default_rng(seed)
    targets = np.minimum(LONGEST, 2 + random.exponential(MEAN_LENGTH - 2, pairs).round().astype(int))
    sources = np.maximum(2, (targets * random.uniform(0.75, 1.25, pairs)).round().astype(int))
    path = folder / "synthetic.pairs"
    write_pairs(path, ((random.integers(len(SPECIALS), vocabulary, source),
                        random.integers(len(SPECIALS), vocabulary, target))
                       for source, target in zip(sources, targets, strict=True)), vocabulary, "0" * 64)
    return Pairs.open(path)


def train_ours(data: PairBatches, slices: list[Slice], options: Namespace, tick: Callable[[], None]) -> None:
    """Train on some slices by Lightning, with `tick` before the first step and after each."""
    class Clock(lightning.Callback):
        def on_train_start(self, *_: Any) -> None:
            tick()

        def on_train_batch_end(self, *_: Any) -> None:
            tick()

    quiet_lightning()
    V = options.vocabulary
    module = OrderedModule(BASE, OrderSettings("left_to_right"), OptimisationSettings(label_smoothing=0.1),
                           VocabularySettings(V, V, "0" * 64))
    trainer = lightning.Trainer(
        max_steps=len(slices), accelerator=options.device, devices=1, precision=PRECISIONS[options.precision],  # type: ignore[arg-type]
        gradient_clip_val=CLIP, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[Clock()])
    ready = [data[one] for one in slices]
    trainer.fit(module, DataLoader(ready, batch_size=None))  # type: ignore[arg-type]  # a list is a data set


class ReadyBatches(Dataset[dict[str, Any]]):
    """The batches of some slices, as Hugging Face's encoder-decoders take them."""

    def __init__(self, data: PairBatches, slices: list[Slice]) -> None:
        self._batches = [self._named(data[one]) for one in slices]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._batches[index]

    @staticmethod
    def _named(batch: Batch) -> dict[str, Any]:
        width = int(batch.target_lengths.max()) + 1
        inputs = torch.cat([torch.full((len(batch.rows), 1), BOS), batch.target], 1)[:, :width]
        labels = torch.cat([batch.target, torch.full((len(batch.rows), 1), PAD)], 1)[:, :width]
        labels = labels.scatter(1, batch.target_lengths.unsqueeze(1), EOS)
        return {"input_ids": batch.source, "attention_mask": (batch.source != PAD).long(),
                "decoder_input_ids": inputs, "labels": labels.masked_fill(labels == PAD, -100)}


def train_hugging_face(data: PairBatches, slices: list[Slice], options: Namespace, tick: Callable[[], None]) -> None:
    """Train on some slices by Hugging Face's Trainer, with `tick` before the first step and after each."""
    from transformers import MarianConfig, MarianMTModel, Trainer, TrainerCallback, TrainingArguments

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            tick()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            tick()

    model = MarianMTModel(MarianConfig(
        vocab_size=options.vocabulary, d_model=BASE.width, max_position_embeddings=BASE.max_length,
        encoder_layers=BASE.encoder_layers, decoder_layers=BASE.decoder_layers, encoder_attention_heads=BASE.heads,
        decoder_attention_heads=BASE.heads, encoder_ffn_dim=BASE.feed_forward, decoder_ffn_dim=BASE.feed_forward,
        activation_function="relu", scale_embedding=True, dropout=BASE.dropout, pad_token_id=PAD, eos_token_id=EOS,
        decoder_start_token_id=BOS, forced_eos_token_id=None))
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model=model, train_dataset=ReadyBatches(data, slices), data_collator=lambda batches: batches[0],
            callbacks=[Clock()], args=TrainingArguments(
                output_dir=folder, use_cpu=options.device == "cpu", bf16=options.precision == "bfloat16",
                max_steps=len(slices), per_device_train_batch_size=1, max_grad_norm=CLIP,
                label_smoothing_factor=0.1, optim="adamw_torch_fused", adam_beta2=0.98, learning_rate=3e-4,
                report_to=[], save_strategy="no",
                logging_strategy="no", disable_tqdm=True)).train()


TRAINERS = {"ours": train_ours, "hugging face": train_hugging_face}


def work(options: Namespace) -> None:
    """Train by one of the trainers and print the target tokens per second after the warm-up."""
    torch.set_num_threads(options.threads)
    [options.precision] = options.precisions
    with tempfile.TemporaryDirectory() as folder:
        data = PairBatches([synthetic_pairs(Path(folder), 20_000, options.vocabulary)], longest=256)
        slices = list(TrainingBatches(data.target_lengths, data.source_lengths, budget=options.batch_tokens, seed=1,
                                      steps=WARMUP + options.steps))
        ticks: list[float] = []

        def tick() -> None:
            synchronise(torch.device(options.device))
            ticks.append(time.perf_counter())

        TRAINERS[options.worker](data, slices, options, tick)
        # The other trainer shuffles: the mean batch stands for those after the warm-up.
        tokens = np.mean([data.target_lengths[one.rows].sum() for one in slices])
    print(json.dumps(float(tokens * options.steps / (ticks[-1] - ticks[WARMUP]))))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch-tokens", type=int, default=600, help="target tokens per step")
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precisions", choices=PRECISIONS, nargs="+", default=list(PRECISIONS))
    parser.add_argument("--worker", choices=TRAINERS, help="only this trainer, once, with one precision")
    parser.add_argument("--output", type=Path, default=RESULTS / "trainers.json")
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    results = []
    for threads in (1, options.threads) if options.threads > 1 else (1,):
        for precision in options.precisions:
            rates = {name: np.zeros(options.rounds) for name in TRAINERS}
            for turn in range(options.rounds):
                for name in sorted(TRAINERS, reverse=bool(turn % 2)):
                    found = subprocess.run(
                        [sys.executable, "-m", "benchmarks.trainers", "--worker", name, "--precisions", precision,
                         "--threads", str(threads), *(text for key in ("device", "steps", "batch_tokens", "vocabulary")
                                                      for text in (f"--{key.replace('_', '-')}",
                                                                   str(getattr(options, key))))],
                        capture_output=True, text=True, check=True)
                    rates[name][turn] = json.loads(found.stdout.splitlines()[-1])
            results.append({"threads": threads, "precision": precision,
                            "tokens_per_second": {name: float(np.median(rate)) for name, rate in rates.items()},
                            "ours_times_faster": median_ratio(rates["ours"], rates["hugging face"])})
    write_json(options.output, {**about(["pytorch-lightning", "transformers", "accelerate"]), "steps": options.steps,
                                "batch_tokens": options.batch_tokens, "vocabulary": options.vocabulary,
                                "results": results})
    print(table(["threads, precision", *TRAINERS, "times faster"], [
        [f"{row['threads']}, {row['precision']}", *(f"{row['tokens_per_second'][name]:.0f}" for name in TRAINERS),
         "{:.2f} ({:.2f} to {:.2f})".format(*row["ours_times_faster"])] for row in results]))


if __name__ == "__main__":
    main()
