"""What holds of the training of every kind of family: weights of tokens, smoothing, shares, and the path it takes."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as lightning
import torch
from draws import ALIKE
from kinds import MAKE, make, write_inputs
from torch import Tensor

from pipeline.corpus.batches import Slice, TrainingBatches
from pipeline.corpus.datamodule import Batch, PairBatches, PairsDataModule
from pipeline.corpus.pairs import Pairs
from pipeline.families.base import TranslationModule
from pipeline.families.settings import KINDS

every_kind = pytest.mark.parametrize("kind", MAKE)
LONGEST = 12
Gradients = dict[str, Tensor]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


def test_every_kind_is_here() -> None:
    assert set(MAKE) == set(KINDS)


def in_training(kind: str, folder: Path, smoothing: float = 0.1) -> tuple[TranslationModule, dict[str, float]]:
    """A module as its trainer has it at the first step, and what it will log."""
    module, logged = make(kind, folder, smoothing).train(), dict[str, float]()
    module.trainer = SimpleNamespace(global_step=0, max_steps=9)  # type: ignore[assignment]
    module.log = lambda name, value, **options: logged.update({name: float(value)})  # type: ignore[method-assign]
    return module, logged


def batch_of(folder: Path, part: Slice) -> Batch:
    return PairBatches([Pairs.open(folder / "train.pairs")], LONGEST)[part]


def deal(folder: Path, world: int = 1, slices: int = 1) -> list[Batch]:
    """The shares of the first step's batch."""
    data = PairBatches([Pairs.open(folder / "train.pairs")], LONGEST)
    devices = [TrainingBatches(data.target_lengths, data.source_lengths, budget=90, seed=1, steps=1, slices=slices,
                               rank=rank, world=world) for rank in range(world)]
    return [data[part] for device in devices for part in device]


@every_kind
def test_a_step_weighs_its_loss_and_smooths_labels_but_validation_does_neither(inputs: Path, kind: str) -> None:
    batch, = deal(inputs)
    nothing_left = batch_of(inputs, Slice(batch.rows[:0].numpy(), 1.0))
    batch, losses = batch._replace(weight=0.37), dict[float, float]()
    for smoothing in (0.0, 0.1, 1.0):
        module, logged = in_training(kind, inputs, min(smoothing, 0.1))
        torch.manual_seed(3)
        loss, count = module.loss(batch, smoothing)
        losses[smoothing] = loss.item()
        if smoothing < 1:
            torch.manual_seed(3)
            step = module.training_step(batch, 0)
            assert step.item() == pytest.approx(loss.item() * batch.weight, rel=1e-12)
            assert logged["training_loss"] == pytest.approx(loss.item() / int(count), rel=1e-12)  # whatever the weight
            module.eval().validation_step(batch, 0)
            plain, count = module.loss(batch, 0.0)
            assert module.validation_loss.compute().item() == pytest.approx(plain.item() / int(count), rel=1e-6)
            module.validation_step(nothing_left, 1)  # which some devices have of the last batches
            assert module.validation_loss.compute().item() == pytest.approx(plain.item() / int(count), rel=1e-6)
    assert losses[1.0] != pytest.approx(losses[0.0], rel=0.01)
    assert losses[0.1] == pytest.approx(0.9 * losses[0.0] + 0.1 * losses[1.0], rel=1e-12)


def gradients(kind: str, folder: Path, parts: list[Batch]) -> Gradients:
    """Of a step, as Lightning averages them over devices and accumulated slices."""
    module, _ = in_training(kind, folder)
    for batch in parts:
        (module.training_step(batch, 0) / len(parts)).backward()
    return {name: weight.grad for name, weight in module.network.named_parameters() if weight.grad is not None}


@every_kind
def test_shares_add_up_to_the_gradient_of_one_device(inputs: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Which is that of the mean over all tokens of the batch."""
    for name, drawn in ALIKE.items():
        monkeypatch.setattr(torch, name, drawn)
    whole, = deal(inputs)
    expected = gradients(kind, inputs, [whole])
    assert sum(bool(gradient.abs().max() > 1e-6) for gradient in expected.values()) >= 4
    mean, _ = in_training(kind, inputs)
    (mean.loss(whole, 0.1)[0] / int((whole.target_lengths + 1).sum())).backward()
    found = [gradients(kind, inputs, deal(inputs, world, slices)) for world, slices in ((2, 1), (1, 3), (2, 2))]
    found.append({name: weight.grad for name, weight in mean.network.named_parameters() if weight.grad is not None})
    for shared in found:
        assert shared.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(shared[name], gradient, rtol=0, atol=1e-12, msg=f"{name} of {kind}")


ROWS = 1890449392471243844
FACTS = {
    "ordered": (2.961352715612132, 3.509378253820004, 1149.5872310820105),
    "masked": (3.4722832388877514, 2.7284798248624726, 1174.2113351054556),
    "lattice": (3.2178165207892895, 4.296001099592761, 1161.2992658864275),
    "drafter": (1.5936900173919644, 3.4265020550339504, 2086.8455654255686),
    "heads": (2.1914915625341447, 3.3475384138429676, 1664.4482947584438),
}


class Watch(lightning.Callback):
    """Which rows each step is over, as one number."""

    def __init__(self) -> None:
        self.rows = 0

    def on_train_batch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch,
                             batch_idx: int) -> None:
        for row in batch.rows.tolist():
            self.rows = (self.rows * 61 + row + 1) % (2**61 - 1)


@every_kind
def test_twenty_steps_end_where_they_always_ended(inputs: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The last loss, how far the weights have moved and the sum of their sizes, to six digits, and the batches exactly.

    The tests of equality compare the code with itself: two processes with one, a resumed run with an uninterrupted
    one. A change that changes both alike - another normalisation, an optimiser that decays what it should not, a
    schedule that is a step late, gradients clipped elsewhere, a loss with a weight too many - passes them all. Here
    it shows. Whoever changes training on purpose writes new numbers, which the failing test prints.

    The numbers hold on every machine: in double precision, processors and libraries differ after the tenth digit; the
    pairs, the weights at the start and what a loss draws come from a generator whose numbers NumPy guarantees; and
    there is no dropout, whose draws depend on how PyTorch was built.
    """
    draw = np.random.RandomState(2)
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.from_numpy(draw.uniform(size=shape)))
    monkeypatch.setattr(torch, "randint", lambda high, shape: torch.tensor(draw.randint(high, size=shape)))
    module, watch = make(kind, inputs), Watch()
    before = {name: weight.clone() for name, weight in module.network.named_parameters()}
    trainer = lightning.Trainer(
        max_steps=20, accelerator="cpu", devices=1, precision="64-true", gradient_clip_val=1.0, limit_val_batches=0,
        use_distributed_sampler=False, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[watch])
    trainer.fit(module, datamodule=PairsDataModule(str(inputs), "", batch_tokens=90, longest=LONGEST, seed=5))
    after = dict(module.network.named_parameters())
    moved = sum(float((after[name].detach() - weight).square().sum()) for name, weight in before.items()) ** 0.5
    size = sum(float(weight.detach().abs().sum()) for weight in after.values())
    facts = float(trainer.callback_metrics["training_loss"]), moved, size
    assert (watch.rows, facts) == (ROWS, pytest.approx(FACTS[kind], rel=1e-6)), f"{kind}: {watch.rows}, {facts}"
