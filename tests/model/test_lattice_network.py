"""The lattice network: what search reads off its edges is what training would have given the same words."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lattices import counted, lattice, random_corpus
from sentences import sources
from torch import Tensor

from pipeline.decoding import lattice as search
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine, use_engine
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import column_major, save_checkpoint, unique_weights
from pipeline.model.formats import COMPILED, in_format
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.layers import DecoderLayer
from pipeline.model.settings import ACTIVATIONS, NORMS, POSITIONS, TIES, NetworkSettings, VocabularySettings
from pipeline.model.start import begin_with
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

EXACT = {"rtol": 0, "atol": 1e-10}
MIXED = sources(3, 9, 1, 6, 2)
POSITIONS_ASKED, K = 7, 4


def single_slots(slots: int) -> Tensor:
    """Every slot sees itself alone."""
    return torch.eye(slots, dtype=torch.bool).view(1, 1, slots, slots)


def teacher_forced(network: LatticeTransformer, source: Tensor, words: list[int]) -> Tensor:
    """The score of a translation: of every word and of the end, its logit less what is predicted of their sum."""
    with torch.no_grad():
        states = network.hidden_after(source.unsqueeze(0), torch.tensor([words]), single_slots(len(words) + 1))[0]
        wanted = torch.tensor([[*words, EOS]]).T
        return (network.projection(states).gather(1, wanted) - network.normaliser(states)).sum()


def all_edges(network: LatticeTransformer, source: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return network.edges(network.encode(source), words)


def test_candidates_of_other_sentences_are_refused() -> None:
    """The compiled scorer would read after the end of the states."""
    with pytest.raises(ValueError, match="candidates of 6 sentences, but states of 5"):
        all_edges(lattice(), MIXED, random_words(6))


def random_words(rows: int, *, n: int = POSITIONS_ASKED, k: int = K) -> Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.rand(rows, n, 20 - 7, generator=generator).argsort(2)[:, :, :k] + 7


# Scores.

@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_the_edges_of_a_path_add_up_to_its_score(norm: str, layers: int, ties: str, activation: str,
                                                 positions: str) -> None:
    network = lattice(norm=norm, decoder_layers=layers, tied_embeddings=ties, activation=activation,
                      positions=positions)
    words = random_words(len(MIXED))
    first, inner, end = all_edges(network, MIXED, words)
    assert (first.shape, inner.shape, end.shape) == ((5, K), (5, 6, K, K), (5, 7, K))
    generator = torch.Generator().manual_seed(1)
    for row, source in enumerate(MIXED):
        for length in (1, 2, POSITIONS_ASKED):
            path = torch.randint(K, (length,), generator=generator).tolist()
            score = first[row, path[0]] + end[row, length - 1, path[-1]]
            for t in range(length - 1):
                score = score + inner[row, t, path[t], path[t + 1]]
            expected = teacher_forced(network, source, [int(words[row, t, i]) for t, i in enumerate(path)])
            torch.testing.assert_close(score, expected, **EXACT)


@pytest.mark.parametrize("rows", [3, 2048])
def test_exact_edges_are_log_probabilities(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Those of all words that can follow one add up to 1; without the softmax they do not."""
    monkeypatch.setattr("pipeline.model.lattice._ROWS", rows)
    network, every = lattice(), torch.arange(20).expand(len(MIXED), 3, -1)
    first, inner, end = network.edges(network.encode(MIXED), every, exact=True)
    for scores in (first, inner):
        torch.testing.assert_close(scores.logsumexp(-1), torch.zeros(scores.shape[:-1]).double(), **EXACT)
    torch.testing.assert_close(end[:, :-1], inner[..., EOS], **EXACT)
    assert all_edges(network, MIXED, every)[0].logsumexp(-1).abs().min() > 0.01


def test_no_other_word_shows_in_a_step() -> None:
    """Only the word before it: in training every slot has the same score whatever stands before that."""
    network, words = lattice(decoder_layers=3), random_words(1)[0, :, 0]
    other = words.clone()
    other[:3] = 7 + (other[:3] - 6) % 13
    states = network.hidden_after(MIXED[:1], torch.stack([words, other]), single_slots(POSITIONS_ASKED + 1))
    assert torch.equal(states[0, 4:], states[1, 4:]) and not torch.allclose(states[0, 3], states[1, 3])


def test_what_is_found_has_its_score() -> None:
    """The whole search: predicted lengths, counted words, edges, the best paths."""
    network = lattice()
    limit, settings = LengthLimit(2.0, 10, 23), search.Settings(candidates=6, window=2, nbest=3)
    found = search.search(network, MIXED, limit, settings)
    assert len({tuple(words) for words in found.tokens[:, 0].tolist()}) == len(MIXED) and found.ended.any(1).all()
    for row, source in enumerate(MIXED):
        proposed, _ = network.candidates(source.unsqueeze(0), found.tokens.shape[2], 6)
        for words, length, score, ended in zip(found.tokens[row].tolist(), found.lengths[row].tolist(),
                                               found.scores[row], found.ended[row].tolist(), strict=True):
            if ended:
                assert abs(length - int(network.length(source.unsqueeze(0)))) <= 2
                assert all(word in position for word, position in zip(words[:length], proposed[0], strict=False))
                torch.testing.assert_close(score, teacher_forced(network, source, words[:length]), **EXACT)


@pytest.mark.parametrize("norm", NORMS)
def test_the_map_of_a_single_key_is_self_attention_of_one_token(norm: str) -> None:
    network = lattice(norm=norm, width=24, heads=3)
    x = torch.randn(5, 1, 24, dtype=torch.float64)
    for layer in network.decoder:
        weight, bias = layer.self_attention.single_key()
        for mask in (None, torch.ones(1, 1, 1, 1, dtype=torch.bool)):
            torch.testing.assert_close(x @ weight.T + bias, layer.self_attention(x, mask), **EXACT)


def test_a_batch_equals_its_sentences() -> None:
    network, words = lattice(), random_words(len(MIXED))
    together = all_edges(network, MIXED, words)
    proposed, lengths = network.candidates(MIXED, 9, 5), network.length(MIXED)
    for row, source in enumerate(MIXED):
        alone = source[source != PAD].unsqueeze(0)
        for one, of_all in zip(all_edges(network, alone, words[row:row + 1]), together, strict=True):
            torch.testing.assert_close(one, of_all[row:row + 1], **EXACT)
        for found, of_all in zip(network.candidates(alone, 9, 5), proposed, strict=True):
            assert torch.equal(found, of_all[row:row + 1])
        assert torch.equal(network.length(alone), lengths[row:row + 1])


@pytest.mark.parametrize("quantization", COMPILED)
def test_heads_of_a_size_that_the_compiled_scorer_refuses_have_the_same_edges(quantization: str) -> None:
    network, words = open_engine(in_format(lattice(width=20, heads=2), quantization)), random_words(1)
    assert network.packs.decoder is not None and network.packs.scorer is None
    found = all_edges(network, sources(5), words)
    with use_engine("torch"):
        expected = all_edges(network, sources(5), words)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, **EXACT)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("layers", "pieces", "n", "k"), [(1, 1, 1, 1), (1, 21, 3, 7), (2, 3, 9, 13), (3, 8, 1, 5)])
def test_one_sentence_is_one_compiled_call(monkeypatch: pytest.MonkeyPatch, norm: str, activation: str, layers: int,
                                           pieces: int, n: int, k: int) -> None:
    """Which gives what torch gives two of them, with padding after the source or without."""
    network, words = lattice(norm=norm, activation=activation, decoder_layers=layers), random_words(1, n=n, k=k)
    source = sources(pieces)
    memory = network.encode(source)
    twice = all_edges(network, source.expand(2, -1), words.expand(2, -1, -1))
    padded = network.encode(torch.nn.functional.pad(source, (0, 2), value=PAD))
    monkeypatch.setattr(DecoderLayer, "after_self_attention", lambda *_: pytest.fail("came back to Python"))
    for one in (memory, padded):
        for found, expected in zip(network.edges(one, words), twice, strict=True):
            torch.testing.assert_close(found, expected[:1], **EXACT)


def test_words_that_are_none_are_refused() -> None:
    network = lattice()
    with pytest.raises(IndexError):
        network.edges(network.encode(MIXED[:1]), torch.full((1, 2, 2), 20))


@pytest.mark.parametrize("source", [MIXED, sources(4, 4, 4, 4, 4)], ids=["padded", "of one length"])
@pytest.mark.parametrize("rows", [1, 2 * (1 + POSITIONS_ASKED * K), 5 * (1 + POSITIONS_ASKED * K) - 1])
def test_a_large_batch_is_scored_in_parts(monkeypatch: pytest.MonkeyPatch, source: Tensor, rows: int) -> None:
    """One sentence at a time, two, four; the last part is smaller."""
    network, words = lattice(), random_words(len(source))
    whole = all_edges(network, source, words)
    monkeypatch.setattr("pipeline.model.lattice._ROWS", rows)
    for one, expected in zip(all_edges(network, source, words), whole, strict=True):
        torch.testing.assert_close(one, expected, **EXACT)


def test_padding_among_the_candidates_changes_nothing_else() -> None:
    network, words = lattice(), random_words(len(MIXED))
    full = all_edges(network, MIXED, words)
    padding = torch.rand(words.shape, generator=torch.Generator().manual_seed(7)) < 0.4
    found = all_edges(network, MIXED, words.masked_fill(padding, PAD))
    kept = (~padding[:, 0], ~padding[:, :-1].unsqueeze(3) & ~padding[:, 1:].unsqueeze(2), ~padding)
    for one, other, there in zip(found, full, kept, strict=True):
        assert one.isfinite().all() and there.any() and not there.all()
        torch.testing.assert_close(one[there], other[there], **EXACT)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 5), (6, 1)])
def test_narrow_and_short_lattices(n: int, k: int) -> None:
    network, words = lattice(), random_words(len(MIXED), n=n, k=k)
    first, inner, end = all_edges(network, MIXED, words)
    assert (first.shape, inner.shape, end.shape) == ((5, k), (5, n - 1, k, k), (5, n, k))
    path = words[0, :, 0].tolist()
    torch.testing.assert_close(first[0, 0] + inner[0, :, 0, 0].sum() + end[0, -1, 0],
                               teacher_forced(network, MIXED[0], path), **EXACT)


def test_the_longest_source_and_the_longest_target_fit() -> None:
    network = lattice(max_length=11)
    words = random_words(1, n=10)
    assert network.hidden_after(sources(11), words[:, :, 0], single_slots(11)).shape == (1, 11, 16)
    assert all_edges(network, sources(11), words)[2].shape == (1, 10, K)


# Weights that are gathered once.

def test_columns_do_not_change_a_score() -> None:
    network, words = lattice(tied_embeddings="all"), random_words(len(MIXED))
    before = all_edges(network, MIXED, words)
    for one, other in zip(all_edges(column_major(network), MIXED, words), before, strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    assert open_engine(network).packs.scorer.projection.flags.c_contiguous  # the rows of words are read


@pytest.mark.parametrize("changed", [
    lambda network: network.train().eval(), lambda network: network.clear_caches(),
    lambda network: network.float().double(), column_major])
def test_changed_weights_are_gathered_again(changed: Callable[[LatticeTransformer], object]) -> None:
    network, other, words = lattice(seed=1), lattice(seed=2), random_words(len(MIXED))
    all_edges(network, MIXED, words)
    network.load_state_dict({name: weight.float() for name, weight in other.state_dict().items()})
    changed(network)
    other.load_state_dict(network.state_dict())
    other.train().eval()
    for one, expected in zip(all_edges(network, MIXED, words), all_edges(other, MIXED, words), strict=True):
        torch.testing.assert_close(one, expected, **EXACT)


def test_edges_have_no_gradient() -> None:
    network = lattice()
    assert not any(edges.requires_grad for edges in all_edges(network, MIXED, random_words(len(MIXED))))


# The count model.

def test_candidates_and_lengths_are_those_of_the_words_of_the_source() -> None:
    """Neither the end symbol nor the padding after them is a word."""
    counts = counted(random_corpus())
    network = lattice(counts=counts)
    for row in MIXED:
        words = row[(row != PAD) & (row != EOS)].numpy()
        expected = counts.candidates(words[None], torch.tensor([len(words)]).numpy(), 9, 5)
        for found, wanted in zip(network.candidates(row.unsqueeze(0), 9, 5), expected, strict=True):
            assert torch.equal(found, torch.from_numpy(wanted))
        assert network.length(row.unsqueeze(0)).tolist() == counts.lengths.predict(
            torch.tensor([len(words)]).numpy()).tolist()


def test_lengths_leave_room_for_the_end() -> None:
    counts = counted([([7], [8] * 9, [0] * 9), ([7, 7], [8] * 15, [0] * 15)])
    assert lattice(counts=counts, max_length=24).length(sources(2, 3, 4)).tolist() == [9, 15, 21]
    assert lattice(counts=counts, max_length=16).length(sources(2, 3, 4)).tolist() == [9, 15, 15]


def test_counts_of_other_vocabularies(tmp_path: Path) -> None:
    settings = NetworkSettings(width=16, heads=2, feed_forward=32, tied_embeddings="none")
    counts = counted(random_corpus())._replace(path=tmp_path / "some.safetensors")
    for source, target in ((20, 21), (21, 20), (19, 20)):
        network = LatticeTransformer(settings, source, target)
        with pytest.raises(PipelineError, match=rf"some.safetensors: counts 20 source and 20 target pieces, but the "
                                                rf"network has {source} and {target}; run `dvc repro`"):
            network.attach_counts(counts)
        with pytest.raises(RuntimeError, match="no count model; attach one"):
            network.candidates(MIXED, 3, 2)


@pytest.mark.parametrize("positions", POSITIONS)
def test_all_of_an_ordered_model_is_a_warm_start(tiny: Callable[..., Transformer], tmp_path: Path,
                                                 positions: str) -> None:
    teacher = tiny("left_to_right", max_length=24, positions=positions)
    vocabulary = VocabularySettings(*teacher.vocabularies, "c0ffee")
    save_checkpoint(tmp_path / "teacher", teacher, vocabulary, unique_weights(teacher), {})
    network = lattice(max_length=24, positions=positions)
    fresh = begin_with(network, tmp_path / "teacher")
    assert fresh == ["normaliser.bias", "normaliser.weight"]
    target = random_words(len(MIXED))[:, :, 0]
    everything_before = torch.ones(8, 8, dtype=torch.bool).tril()
    arranged = torch.cat([target, torch.full((len(MIXED), 1), EOS)], 1)
    torch.testing.assert_close(network.hidden_after(MIXED, target, everything_before),
                               teacher.hidden(MIXED, arranged), **EXACT)
