"""The masked family: what it hides, what its loss adds up, and that it learns what Mask-Predict then returns."""

import math
from typing import Any

import pytest
import torch
from fitting import train
from hypothesis import given
from hypothesis import strategies as st
from sentences import sources
from torch import Tensor

from pipeline.blocks import build
from pipeline.corpus.datamodule import Batch
from pipeline.decoding import mask_predict
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.families.masked import LENGTH_WEIGHT, MaskedModule, choose_hidden
from pipeline.families.settings import FamilySettings, OptimisationSettings
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.model.state import State
from pipeline.vocabulary import MASK, PAD

VOCABULARY = 40
LIMIT = LengthLimit(2.0, 10, 15)


def make_module(seed: int = 1, masking: str = "uniform", glancing: tuple[float, float] = (0.0, 0.0),
                **changes: Any) -> MaskedModule:
    torch.manual_seed(4)
    network = NetworkSettings(**{"width": 32, "heads": 2, "feed_forward": 64, "encoder_layers": 1, "decoder_layers": 1,
                                 "dropout": 0.0, "max_length": 16, **changes})
    optimisation = OptimisationSettings(learning_rate=0.01, warmup_steps=20, label_smoothing=0.0)
    return MaskedModule(network, optimisation, VocabularySettings(VOCABULARY, VOCABULARY, "toy"), masking, glancing,
                        seed)


def make_batch(*lengths: int, first_row: int = 0) -> Batch:
    """Random pairs whose targets have these lengths."""
    generator = torch.Generator().manual_seed(8)
    target = torch.randint(7, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    counts = torch.tensor(lengths)
    target = target.masked_fill(torch.arange(max(lengths)) >= counts.unsqueeze(1), PAD)
    rows = torch.arange(first_row, first_row + len(lengths))
    return Batch(rows, sources(*[1 + length for length in lengths], vocabulary=VOCABULARY), target, counts, 1 / 50)


# What is hidden.

@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 1000))
def test_some_words_are_hidden_and_never_padding(lengths: list[int], seed: int) -> None:
    hidden = choose_hidden(torch.tensor(lengths), 12, torch.Generator().manual_seed(seed))
    for row, length in zip(hidden.tolist(), lengths, strict=True):
        assert not any(row[length:])
        assert min(1, length) <= sum(row) <= length


def test_how_many_and_which_words_are_hidden_is_uniform() -> None:
    """60,000 draws: six standard deviations are allowed."""
    n, draws = 5, 60_000
    hidden = choose_hidden(torch.full((draws,), n), 8, torch.Generator().manual_seed(1))
    counts = torch.bincount(hidden.sum(1), minlength=n + 1).tolist()
    assert counts[0] == 0
    assert counts[1:] == pytest.approx([draws / n] * n, abs=6 * math.sqrt(draws / n))
    assert hidden.sum(0)[:n].tolist() == pytest.approx([draws * (n + 1) / 2 / n] * n, abs=6 * math.sqrt(draws / 4))
    twos = hidden[hidden.sum(1) == 2][:, :n]
    pairs = torch.bincount((twos * 2 ** torch.arange(n)).sum(1))
    pairs = pairs[pairs > 0]
    assert len(pairs) == 10  # every pair of five words, equally often
    assert pairs.tolist() == pytest.approx([len(twos) / 10] * 10, abs=6 * math.sqrt(len(twos) / 10))


def test_the_device_draws_where_no_generator_is_given() -> None:
    lengths = torch.tensor([9, 4])
    torch.manual_seed(3)
    first, second = choose_hidden(lengths, 9), choose_hidden(lengths, 9)
    torch.manual_seed(3)
    assert torch.equal(choose_hidden(lengths, 9), first)
    assert not torch.equal(first, second)


# The loss.

def loss_by_hand(module: MaskedModule, batch: Batch, hidden: Tensor, smoothing: float) -> float:
    """Sentence by sentence, word by word; the length counts for as many words as are hidden on average."""
    total = 0.0
    for row, (length, chosen) in enumerate(zip(batch.target_lengths.tolist(), hidden, strict=True)):
        source, target = batch.source[row][batch.source[row] != PAD].unsqueeze(0), batch.target[row, :length]
        memory = module.network.encoded(source)
        expected = length if module.masking == "all" else (length + 1) / 2
        total -= LENGTH_WEIGHT * expected * module.network.lengths(memory)[0, length].item()
        if length:
            tokens = target.masked_fill(chosen[:length], MASK).unsqueeze(0)
            scores = module.network(source, tokens)[0].log_softmax(1)
            for place in chosen[:length].nonzero().flatten().tolist():
                total -= (1 - smoothing) * scores[place, target[place]].item() + smoothing * scores[place].mean().item()
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_by_hand(monkeypatch: pytest.MonkeyPatch, smoothing: float) -> None:
    module, batch = make_module().double().eval(), make_batch(6, 0, 1, 4)
    hidden = torch.tensor([[1, 0, 1, 1, 0, 0], [0] * 6, [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0]]).bool()
    monkeypatch.setattr("pipeline.families.masked.choose_hidden", lambda lengths, longest, generator: hidden)
    loss, count = module.loss(batch, smoothing)
    assert count.item() == 8
    assert loss.item() == pytest.approx(loss_by_hand(module, batch, hidden, smoothing), abs=1e-9)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_all_words_are_hidden(training: bool, smoothing: float) -> None:
    """Vanilla non-autoregressive translation: nothing is drawn, and no word is told."""
    module, batch = make_module(masking="all").double().train(training), make_batch(6, 0, 1, 4)
    fed: list[Tensor] = []
    module.network.target_embedding.register_forward_hook(lambda layer, inputs, output: fed.append(inputs[0]))
    loss, count = module.loss(batch, smoothing)
    assert count.item() == 11 and torch.equal(module.loss(batch, smoothing)[0], loss)
    assert torch.equal(fed[0], batch.target.masked_fill(batch.target != PAD, MASK))
    assert loss.item() == pytest.approx(loss_by_hand(module, batch, batch.target != PAD, smoothing), abs=1e-9)


def test_glancing_reveals_a_share_of_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model gets nearly every word wrong; what is revealed is fed as it is, and not predicted."""
    module, batch = make_module(masking="all", glancing=(0.5, 0.5)).double().train(), make_batch(8, 0, 1, 4)
    fed: list[Tensor] = []
    module.network.target_embedding.register_forward_hook(lambda layer, inputs, output: fed.append(inputs[0]))
    words, (loss, count) = batch.target != PAD, module.loss(batch, 0.0)
    masked, glanced = fed
    assert torch.equal(masked, batch.target.masked_fill(words, MASK))
    hidden = glanced == MASK
    assert torch.equal(glanced, batch.target.masked_fill(hidden, MASK))
    predicted = module.network(batch.source, masked).argmax(2)
    wrong = ((predicted != batch.target) & words).sum(1)
    assert torch.equal((words & ~hidden).sum(1), (wrong * 0.5).round().long()) and wrong.sum() > 8
    monkeypatch.setattr(module, "masking", "uniform")  # for the expected length by hand
    monkeypatch.setattr("pipeline.families.masked.choose_hidden", lambda *_: hidden)
    by_hand = loss_by_hand(module, batch, hidden, 0.0)
    lengths = module.network.lengths(module.network.encoded(batch.source))
    own = lengths.gather(1, batch.target_lengths.unsqueeze(1)).squeeze(1)
    by_hand -= LENGTH_WEIGHT * ((hidden.sum(1) - (batch.target_lengths + 1) / 2) * own).sum().item()
    assert count.item() == hidden.sum() and loss.item() == pytest.approx(by_hand, abs=1e-9)


def test_a_model_that_masks_some_words_does_not_glance() -> None:
    block = {"kind": "masked", "glancing": [0.5, 0.3], "network": {}, "training": {}, "optimisation": {}}
    with pytest.raises(PipelineError, match=r"glancing: \[0\.5, 0\.3\] reveals words where all are masked"):
        build(FamilySettings, block, "families.one")
    assert build(FamilySettings, {**block, "masking": "all"}, "families.one").arguments()["glancing"] == [0.5, 0.3]


def test_validation_hides_by_the_rows_of_the_batch_alone() -> None:
    module = make_module().eval()
    batch, others = make_batch(6, 3, 8), make_batch(6, 3, 8, first_row=40)
    torch.manual_seed(1)
    first = module.loss(batch, 0.0)
    torch.manual_seed(2)
    assert torch.equal(module.loss(batch, 0.0)[0], first[0])
    assert module.loss(others, 0.0)[0] != first[0]
    module.train()
    assert module.loss(batch, 0.0)[0] != module.loss(batch, 0.0)[0]


@pytest.mark.parametrize("masking", ["uniform", "all"])
@pytest.mark.parametrize("lengths", [(0,), (0, 0), (5, 0, 1)])
def test_empty_targets_have_a_loss_and_finite_gradients(lengths: tuple[int, ...], masking: str) -> None:
    module = make_module(masking=masking)
    loss, count = module.loss(make_batch(*lengths), 0.1)
    loss.backward()
    assert loss.isfinite() and count >= 1
    gradients = [parameter.grad for parameter in module.network.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)
    length = module.network.excess.weight.grad
    assert length is not None and (length.abs().sum() > 0) == (masking == "uniform" or any(lengths))


def test_every_weight_learns() -> None:
    module = make_module(tied_embeddings="none", positions="learned")
    module.loss(make_batch(5, 8, 3), 0.1)[0].backward()
    for name, parameter in module.network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


# Training.

TOYS = make_batch(1, 2, 3, 5, 5, 6, 8, 8)


def test_what_was_learnt_by_heart_is_translated() -> None:
    module = train(make_module(), 260, TOYS)
    for settings in (mask_predict.Settings(1, 1), mask_predict.Settings(4, 1), mask_predict.Settings(10, 1)):
        found = mask_predict.search(module.network, TOYS.source, LIMIT, settings)
        assert torch.equal(found.lengths[:, 0], TOYS.target_lengths)
        assert torch.equal(found.tokens[:, 0], TOYS.target)
    quick = module.search(TOYS.source, LIMIT)
    assert torch.equal(quick.tokens[:, 0], TOYS.target)


def test_one_iteration_returns_what_was_learnt_with_all_words_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    module, fed = train(make_module(masking="all"), 200, TOYS), []
    step = module.network.step

    def watched(tokens: Tensor, state: State) -> Tensor:
        fed.append(tokens)
        return step(tokens, state)

    monkeypatch.setattr(module.network, "step", watched)
    found = module.search(TOYS.source, LIMIT)
    assert torch.equal(found.tokens[:, 0], TOYS.target) and found.calls.tolist() == [1] * len(TOYS.target)
    assert len(fed) == 1 and torch.equal(fed[0], TOYS.target.masked_fill(TOYS.target != PAD, MASK))
    quick = mask_predict.search(module.network, TOYS.source, LIMIT, mask_predict.Settings(1, 5))
    assert torch.equal(quick.lengths[:, 0], TOYS.target_lengths)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_same_seed_gives_the_same_bits(dropout: float) -> None:
    """The random numbers of a step are those of dropout and of what is hidden."""
    first, again, other = (train(make_module(seed, dropout=dropout), 8, TOYS) for seed in (1, 1, 2))
    weights = [module.network.state_dict() for module in (first, again, other)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    assert any(not torch.equal(weight, weights[2][name]) for name, weight in weights[0].items())
