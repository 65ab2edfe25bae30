"""Target tokens a second in training, every order of the default run against `left_to_right`, on the same batches.

    python -m benchmarks.training

Synthetic pairs go through the real id files, batches, module, loss and optimiser; only Lightning's own loop around
them (logging, callbacks) is left out. A target of n words counts n + 1 tokens in every order, although an order of
width z trains up to z end symbols: rates are of text, not of slots.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as lightning
import torch

from benchmarks.clock import RESULTS, about, argument_parser, interleave, table
from pipeline.corpus.batches import Slice, TrainingBatches
from pipeline.corpus.datamodule import PairBatches
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.evaluation.speed import speed_ratio
from pipeline.families.ordered import OrderedModule
from pipeline.families.settings import OptimisationSettings
from pipeline.files import write_json
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.training.quiet import quiet_lightning
from pipeline.vocabulary import SPECIALS

ORDERS = {
    "left_to_right": OrderSettings("left_to_right"),
    "right_to_left": OrderSettings("right_to_left"),
    "semi-autoregressive": OrderSettings("left_to_right", words=2),
    "interleaved": OrderSettings("interleaved"),
    "interleaved + SA": OrderSettings("interleaved", words=2),
    "multi-directional": OrderSettings("multi_directional", directions=4),
    "double-token": OrderSettings("double_token"),
    "double-token L2R": OrderSettings("double_token_l2r"),
    "double-token R2L": OrderSettings("double_token_r2l"),
}
BASELINE = "left_to_right"
MEAN_LENGTH = 16
LONGEST = 100
CLIP = 1.0


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


def stepper(order: OrderSettings, data: PairBatches, slices: list[Slice], vocabulary: int) -> Callable[[int], float]:
    """A function that trains on one slice, collation included, and returns the seconds that it took."""
    lightning.seed_everything(1, verbose=False)
    network = NetworkSettings(width=128, heads=4, feed_forward=512, encoder_layers=2, decoder_layers=2,
                              positions="learned" if order.name.startswith("double_token") else "sinusoidal")
    module = OrderedModule(network, order, OptimisationSettings(), VocabularySettings(vocabulary, vocabulary, "0" * 64))
    module.trainer = lightning.Trainer(max_steps=len(slices), accelerator="cpu", logger=False,
                                       enable_checkpointing=False, enable_progress_bar=False,
                                       enable_model_summary=False)
    configured = module.configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    module.train()

    def step(item: int) -> float:
        start = time.perf_counter()
        batch = data[slices[item]]
        module.on_train_batch_start(batch, 0)
        loss, _ = module.loss(batch, module.optimisation.label_smoothing)
        optimizer.zero_grad()
        (loss * batch.weight).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        return time.perf_counter() - start

    return step


def measure(budget: int, steps: int, vocabulary: int) -> dict[str, Any]:
    """All orders on the same batches of one budget."""
    with tempfile.TemporaryDirectory() as folder:
        data = PairBatches([synthetic_pairs(Path(folder), 20_000, vocabulary)], longest=256)
        slices = list(TrainingBatches(data.target_lengths, data.source_lengths, budget=budget, seed=1, steps=steps))
        seconds = interleave({name: stepper(order, data, slices, vocabulary) for name, order in ORDERS.items()}, steps,
                             warmup=10)
        tokens = np.array([data.target_lengths[one.rows].sum() for one in slices])
    return {
        "batch_tokens": budget, "steps": steps, "mean_target_tokens": float(tokens.mean()),
        "tokens_per_second": {name: float(tokens.sum() / seconds[name].sum()) for name in ORDERS},
        "over_left_to_right": {name: list(speed_ratio(seconds[BASELINE], seconds[name]))
                               for name in ORDERS if name != BASELINE},
    }


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--budgets", type=int, nargs="+", default=[600, 1200], help="target tokens a batch")
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "training.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    quiet_lightning()
    description = about(["pytorch-lightning", "numpy"])
    results = [measure(budget, options.steps, options.vocabulary) for budget in options.budgets]
    write_json(options.output, {**description, "vocabulary": options.vocabulary, "results": results})
    print(table(["batch tokens, order", "tokens/s", "over left_to_right"], [
        [f"{row['batch_tokens']}, {name}", f"{rate:.0f}",
         "" if name == BASELINE else "{:.3f} ({:.3f} to {:.3f})".format(*row["over_left_to_right"][name])]
        for row in results for name, rate in row["tokens_per_second"].items()]))


if __name__ == "__main__":
    main()
