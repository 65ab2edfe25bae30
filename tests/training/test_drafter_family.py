"""The loss of the drafter family: which word is predicted where, and what is shown."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from drafters import make_batch, make_module, save_verifier
from fitting import train
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.families.drafter import DrafterModule
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, MASK, PAD

PREFIXES = pytest.mark.parametrize("prefix", ["causal", "bidirectional"])


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[..., Transformer]) -> str:
    return save_verifier(tmp_path_factory.mktemp("verifier") / "ar", tiny)


def sharpen(module: DrafterModule) -> DrafterModule:
    """So that chains say something, which at first they do not."""
    if module.network.chain is not None:
        torch.nn.init.normal_(module.network.chain.outer.weight, std=0.3)
    return module.double()


# The loss.

Shown = Callable[[int, int], list[bool]]
"""From a sentence and the words of its prefix to which tokens of the block are shown."""


def block_by_hand(network: DrafterTransformer, source: Tensor, prefix: list[int], block: list[int]) -> Tensor:
    """States of k tokens after a prefix, of which those given in `block` (MASK: none) are known."""
    if network.prefix == "causal":
        state = network.start(network.draft_memory(source, network.verifier.encode(source)))
        return network.advance(torch.tensor([[BOS, *prefix, *block[:-1]]]), state)[0, len(prefix):]
    inputs = torch.tensor([[*prefix, *block]])
    return network._decoder_states(inputs, None, network._encoder_states(source))[0, len(prefix):]


def loss_by_hand(module: DrafterModule, batch: Batch, prefixes: list[list[int]], shown: Shown,
                 smoothing: float) -> tuple[float, int]:
    """Sentence by sentence, prefix by prefix, word by word: the loss, and how many words were predicted."""
    network, total, count = module.network, 0.0, 0
    causal = network.prefix == "causal"
    for row, length in enumerate(batch.target_lengths.tolist()):
        source = batch.source[row][batch.source[row] != PAD].unsqueeze(0)
        line = [*batch.target[row, :length].tolist(), EOS, *[PAD] * network.block]
        told = answers(network, source, line[:length])
        wanted = [(p, j) for p in prefixes[row] for j in range(int(causal), network.block)]
        wanted += [(p, 0) for p in range(length + 1) if causal]  # each word after all before it, once
        for p, j in wanted:
            show = [False] * network.block if causal and j == 0 else shown(row, p)[:network.block]
            if p + j > length or (show[j] and not causal) or told[p + j] == PAD:  # which a random verifier may predict
                continue
            block = [line[p + place] if known else MASK for place, known in enumerate(show)]
            state = block_by_hand(network, source, line[:p], block)[j]
            previous = ([BOS, *line])[p + j]
            scores = network.draft_logits(state.unsqueeze(0), torch.tensor([previous]))[0].log_softmax(0)
            total -= (1 - smoothing) * scores[told[p + j]].item() + smoothing * scores.mean().item()
            count += 1
    return total, count


def answers(network: DrafterTransformer, source: Tensor, words: list[int]) -> list[int]:
    """What the verifier predicts in the place of every word and of the end symbol."""
    state = network.verifier.start(network.verifier.encode(source))
    return network.verifier.step(torch.tensor([[BOS, *words]]), state)[0].argmax(1).tolist()


def nothing(row: int, prefix: int) -> list[bool]:
    return [False] * 9


@pytest.mark.parametrize(("block", "stride", "chained", "encoder_layers"), [
    (4, 3, True, 0), (1, 1, True, 0), (6, 1, False, 1), (3, 20, False, 0)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@torch.no_grad()
def test_the_loss_by_hand(verifier: str, block: int, stride: int, chained: bool, encoder_layers: int,
                          smoothing: float) -> None:
    module = sharpen(make_module(verifier, block=block, drafting={"stride": stride, "chained": chained},
                                 encoder_layers=encoder_layers, decoder_layers=2)).eval()
    batch = make_batch(6, 0, 1, 4)
    loss, count = module.loss(batch, smoothing)
    prefixes = [list(range(0, 7, stride))] * 4
    expected, words = loss_by_hand(module, batch, prefixes, nothing, smoothing)
    assert count.item() == words and loss.item() == pytest.approx(expected, abs=1e-8)


@PREFIXES
@torch.no_grad()
def test_the_labels_may_be_the_targets_own_words(verifier: str, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """The paper's objective: the verifier is not asked."""
    module = sharpen(make_module(verifier, drafting={"prefix": prefix, "labels": "data"})).eval()
    batch = make_batch(6, 0, 1, 4)
    monkeypatch.setattr(f"{__name__}.answers", lambda network, source, words: [*words, EOS])
    if prefix == "causal":
        prefixes = [list(range(0, 7, 3))] * 4
    else:
        seed = np.random.SeedSequence(batch.rows.tolist()).generate_state(4).astype(np.int64)
        prefixes = [[int(one)] for one in seed % (batch.target_lengths.numpy() + 1)]
    expected, words = loss_by_hand(module, batch, prefixes, nothing, 0.1)
    loss, count = module.loss(batch, 0.1)
    assert count.item() == words >= 10 and loss.item() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("block", "chained", "encoder_layers"), [(4, True, 0), (1, False, 0), (6, True, 1)])
@torch.no_grad()
def test_the_bidirectional_loss_by_hand(verifier: str, monkeypatch: pytest.MonkeyPatch, block: int, chained: bool,
                                        encoder_layers: int) -> None:
    module = sharpen(make_module(verifier, block=block, drafting={"prefix": "bidirectional", "chained": chained},
                                 encoder_layers=encoder_layers, decoder_layers=2)).eval()
    batch = make_batch(6, 0, 1, 4)
    asked = watch(module, monkeypatch)
    loss, count = module.loss(batch, 0.1)
    (prefixes, revealed), = asked
    assert revealed is None and all(0 <= p <= n for p, n in zip(prefixes, [6, 0, 1, 4], strict=True))
    expected, words = loss_by_hand(module, batch, [[p] for p in prefixes], nothing, 0.1)
    assert count.item() == words and loss.item() == pytest.approx(expected, abs=1e-8)


def watch(module: DrafterModule, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], Tensor | None]]:
    """Prefixes and what is shown, at every pass through the network."""
    asked: list[tuple[list[int], Tensor | None]] = []
    hidden_after = module.network.hidden_after

    def watched(source: Tensor, target: Tensor, prefixes: Tensor, revealed: Tensor | None = None) -> Tensor:
        asked.append((prefixes.tolist(), revealed))
        return hidden_after(source, target, prefixes, revealed)

    monkeypatch.setattr(module.network, "hidden_after", watched)
    return asked


@PREFIXES
@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
@torch.no_grad()
def test_glancing_by_hand(verifier: str, monkeypatch: pytest.MonkeyPatch, prefix: str, share: float) -> None:
    """What is wrong without help decides how many tokens are shown; those are told, and then predicted by nobody."""
    module = sharpen(make_module(verifier, drafting={"prefix": prefix}, decoder_layers=2)).train()
    batch, causal = make_batch(9, 0, 1, 7), prefix == "causal"
    monkeypatch.setattr(module, "at_this_step", lambda *_: share)
    asked = watch(module, monkeypatch)
    for seed in range(3):
        torch.manual_seed(seed)
        asked.clear()
        loss, count = module.loss(batch, 0.0)
        (prefixes, first), (again, revealed) = asked
        assert first is None and again == prefixes and revealed is not None
        each = [prefixes] * 4 if causal else [[p] for p in prefixes]
        if causal:
            assert prefixes == list(range(prefixes[0], 10, 3)) and prefixes[0] < 3

        def shown(row: int, p: int, each: list[list[int]] = each, revealed: Tensor = revealed) -> list[bool]:
            told = revealed[row, each[row].index(p)].tolist() if causal else revealed[row].tolist()
            return [*told, False] if causal else told

        expected, words = loss_by_hand(module, batch, each, shown, 0.0)
        assert count.item() == words and loss.item() == pytest.approx(expected, abs=1e-8)
        for row, length in enumerate(batch.target_lengths.tolist()):
            for p in each[row]:
                wrong = wrong_by_hand(module, batch, row, length, p)
                room = max(0, length - p)  # padding and the end are not shown, and take no other token's turn
                assert sum(shown(row, p)) == min(room, int(torch.tensor(wrong * share).round()))
                assert not any(shown(row, p)[room:])
        assert revealed.any()


def wrong_by_hand(module: DrafterModule, batch: Batch, row: int, length: int, p: int) -> int:
    """Tokens of a block of masks that are not found; the causal drafter's first is none of the block's."""
    network = module.network
    source = batch.source[row][batch.source[row] != PAD].unsqueeze(0)
    line = [*batch.target[row, :length].tolist(), EOS]
    told = answers(network, source, line[:length])
    states = block_by_hand(network, source, line[:p], [MASK] * network.block)
    places = range(int(network.prefix == "causal"), min(network.block, length + 1 - p))
    return sum(int(network.draft_logits(states[j:j + 1], torch.tensor([([BOS, *line])[p + j]])).argmax()) != told[p + j]
               for j in places if told[p + j] != PAD)


def test_the_share_that_is_shown_changes_steadily(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = make_module(verifier, drafting={"glancing": (0.5, 0.25)})
    shares, share = [], module.at_this_step
    monkeypatch.setattr(module, "at_this_step", lambda *ends: shares.append(share(*ends)) or shares[-1])
    train(module, 5, make_batch(3, 4))
    assert shares == pytest.approx([0.5, 0.45, 0.4, 0.35, 0.3])
    assert module.eval().at_this_step(*module.glancing) == 0


def test_all_prefixes_are_drawn(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = make_batch(3, 0)
    for prefix, expected in (("bidirectional", {(p, 0) for p in range(4)}), ("causal", {(0, 3), (1,), (2,)})):
        module = make_module(verifier, drafting={"prefix": prefix}).train()
        monkeypatch.setattr(module, "at_this_step", lambda *_: 0.0)
        asked = watch(module, monkeypatch)
        torch.manual_seed(1)
        for _ in range(60):
            module.loss(batch, 0.0)
        assert {tuple(prefixes) for prefixes, _ in asked} == expected


@PREFIXES
def test_validation_depends_on_the_rows_of_the_batch_alone(verifier: str, monkeypatch: pytest.MonkeyPatch,
                                                           prefix: str) -> None:
    """And nothing is shown."""
    module = make_module(verifier, drafting={"prefix": prefix, "glancing": (1.0, 1.0)}).eval()
    batch, others = make_batch(6, 3, 8), make_batch(6, 3, 8, first_row=40)
    asked = watch(module, monkeypatch)
    torch.manual_seed(1)
    first = module.loss(batch, 0.0)[0]
    torch.manual_seed(2)
    assert torch.equal(module.loss(batch, 0.0)[0], first)
    assert torch.equal(module.loss(others, 0.0)[0], first) == (prefix == "causal")  # which has all prefixes
    assert all(revealed is None for _, revealed in asked)


@PREFIXES
@pytest.mark.parametrize("lengths", [(0,), (0, 0), (5, 0, 1), (15, 2)])
def test_empty_and_longest_targets_have_a_loss_and_finite_gradients(
        verifier: str, monkeypatch: pytest.MonkeyPatch, prefix: str, lengths: tuple[int, ...]) -> None:
    """The longest has its end symbol in the last position; blocks reach beyond."""
    module = make_module(verifier, block=6, drafting={"prefix": prefix}).train()
    for share in (0.0, 0.5):
        monkeypatch.setattr(module, "at_this_step", lambda *_, share=share: share)
        for _ in range(8):
            loss, count = module.loss(make_batch(*lengths), 0.1)
            assert loss.isfinite() and count >= (len(lengths) if share == 0 else 1)
            loss.backward()
    gradients = [parameter.grad for parameter in module.network.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)


@PREFIXES
@pytest.mark.parametrize("encoder_layers", [0, 1])
def test_every_weight_learns_and_none_of_the_verifier(verifier: str, prefix: str, encoder_layers: int) -> None:
    module = make_module(verifier, drafting={"prefix": prefix}, encoder_layers=encoder_layers, tied_embeddings="none",
                         positions="learned" if encoder_layers else "sinusoidal")
    chain = module.network.chain
    assert chain is not None
    torch.nn.init.normal_(chain.outer.weight, std=0.3)
    module.eval().loss(make_batch(5, 8, 3), 0.1)[0].backward()
    for name, parameter in module.network.named_parameters():
        if name.startswith("verifier."):
            assert parameter.grad is None
        else:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
