"""FastAlign: the fast formulas against the plain ones of `dense`, what expectation maximisation promises, and corpora
whose alignment is known."""

import math
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
import torch
from dense import Pair, bitext, corpora, divergence, uniform
from dense import expect as dense_expect
from dense import maximise as dense_maximise
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.alignment import diagonal, fast_align
from pipeline.alignment.bitext import Bitext
from pipeline.alignment.expectation import UNIT, choose, digamma, expect, spread
from pipeline.alignment.fast_align import AlignmentModel, train
from pipeline.alignment.group import Group
from pipeline.alignment.settings import AlignmentSettings
from pipeline.blocks import build
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.errors import PipelineError

tensions = st.floats(0.1, 14)
nulls = st.sampled_from([0.0, 0.08, 0.5])
TOY: list[Pair] = [([0, 1], [0, 1]), ([1, 0, 2], [1, 2, 0]), ([2], [2]), ([], [1]), ([1], [])]


def fit(pairs: Sequence[Pair], *, threads: int = 1, **changes: object) -> AlignmentModel:
    return train([bitext(pairs)], AlignmentSettings(**changes), threads=threads)  # type: ignore[arg-type]


def table_of(model: AlignmentModel) -> dict[tuple[int | None, int], float]:
    starts, words = model.lexicon
    return {(row - 1 if row else None, int(words[entry])): float(model.probabilities[entry])
            for row in range(len(starts) - 1) for entry in range(starts[row], starts[row + 1])}


# Expectation and maximisation

@given(st.floats(1e-4, 1e7))
@example(1.0)
def test_digamma_is_torchs(x: float) -> None:
    expected = torch.digamma(torch.tensor(x, dtype=torch.float64)).item()
    assert digamma(x) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@settings(max_examples=40)
@given(pairs=corpora(), tension=tensions, null=nulls, seed=st.integers(0, 1000))
def test_expected_links_and_the_gradient_equal_the_plain_ones(pairs: list[Pair], tension: float, null: float,
                                                              seed: int) -> None:
    model = fit(pairs, iterations=1)
    probabilities = np.random.default_rng(seed).uniform(0.01, 1, len(model.probabilities))
    model = AlignmentModel(model.lexicon, probabilities, tension, null, ())
    corpus = fast_align._Corpus([bitext(pairs)], model.lexicon)

    def expected(at: float) -> tuple[float, float, np.ndarray, np.ndarray]:
        counts, mass = np.zeros(len(probabilities), np.int64), np.zeros(corpus.shapes.positions, np.int64)
        parts = []
        for number, shard in enumerate(corpus.shards):
            places, entries = corpus.cells(number)
            here = np.zeros(len(entries), np.int64)
            parts.append(expect(corpus.shapes, diagonal.tabulate(corpus.shapes, at, null), corpus.shape_of(shard),
                                places, probabilities[entries], here, mass))
            spread(here, entries, counts)
        return sum(part[0] for part in parts), sum(part[1] for part in parts), counts / UNIT, mass / UNIT

    log_likelihood, found_feature, counts, mass = expected(tension)
    plain = dense_expect(pairs, table_of(model), tension, null)
    assert log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)
    assert found_feature == pytest.approx(plain.feature, rel=1e-9, abs=1e-12)
    by_pair = dict(zip(table_of(model), counts, strict=True))
    assert by_pair == pytest.approx(plain.counts, abs=1e-8)
    gradient = found_feature - diagonal.expected_feature(corpus.shapes, tension, mass)
    step = 1e-4
    slope = (expected(tension + step)[0] - expected(tension - step)[0]) / (2 * step)
    assert gradient == pytest.approx(slope, rel=1e-4, abs=1e-6)


@settings(max_examples=40)
@given(pairs=corpora(), tension=tensions, null=nulls, alpha=st.sampled_from([0.0, 0.01, 1.0]),
       iterations=st.integers(1, 4))
def test_training_equals_the_plain_one(pairs: list[Pair], tension: float, null: float, alpha: float,
                                       iterations: int) -> None:
    table, log_likelihoods = uniform(pairs), []
    for _ in range(iterations):
        expected = dense_expect(pairs, table, tension, null)
        log_likelihoods.append(expected.log_likelihood)
        table = dense_maximise(expected.counts, alpha)
    model = fit(pairs, tension=tension, null_probability=null, alpha=alpha, iterations=iterations,
                optimise_tension=False)
    # Counts are rounded to 2^-32, so the smallest probabilities are known no better.
    assert table_of(model) == pytest.approx(table, rel=1e-5, abs=1e-8)
    words = max(1, sum(len(target) for _, target in pairs))
    assert [step.cross_entropy * words * math.log(2) for step in model.history] == pytest.approx(
        [-value for value in log_likelihoods], rel=1e-6, abs=1e-6)
    assert [step.tension for step in model.history] == [tension] * iterations


@settings(max_examples=40)
@given(pairs=corpora(words=6, longest=5, most=10), tension=tensions, null=nulls)
def test_the_likelihood_never_falls(pairs: list[Pair], tension: float, null: float) -> None:
    found = [step.cross_entropy for step in fit(pairs, alpha=0.0, tension=tension, null_probability=null, iterations=8,
                                                optimise_tension=False).history]
    assert all(after <= before + 1e-7 for before, after in pairwise(found))


@settings(max_examples=40)
@given(pairs=corpora(words=6, longest=5, most=10), tension=tensions, null=nulls, alpha=st.sampled_from([0.01, 0.3]))
def test_the_variational_bound_never_falls(pairs: list[Pair], tension: float, null: float, alpha: float) -> None:
    model = fit(pairs, alpha=alpha, tension=tension, null_probability=null, iterations=6, optimise_tension=False)
    words = sum(len(target) for _, target in pairs)
    table, bounds = uniform(pairs), []
    for step in model.history[1:]:  # the first one starts from no posterior
        counts = dense_expect(pairs, table, tension, null).counts
        table = dense_maximise(counts, alpha)
        bounds.append(-step.cross_entropy * words * math.log(2) - divergence(counts, alpha))
    assert all(after >= before - 1e-5 for before, after in pairwise(bounds))


# The tension

def test_the_tension_follows_the_corpus() -> None:
    choose = random.Random(4)
    diagonal_pairs = [(words, words) for words in (choose.sample(range(30), 8) for _ in range(100))]
    reversed_pairs = [(source, target[::-1]) for source, target in diagonal_pairs]
    rising, falling = fit(diagonal_pairs), fit(reversed_pairs, iterations=8)
    assert [step.tension for step in rising.history[:2]] == [4.0, 4.0]  # it stays for one iteration
    assert 4 < rising.history[2].tension < rising.tension <= 14
    found = [step.tension for step in falling.history[2:]]  # the words are unknown at first, so it may rise at first
    assert found == sorted(found, reverse=True) and falling.tension == 0.1  # the lowest that is allowed


# Corpora whose alignment is known

def one_to_one(seed: int, shuffled: bool) -> tuple[list[Pair], list[int]]:
    """Word e is translated as 39 - e; returns also the source position of every target word."""
    choose = random.Random(seed)
    pairs, heads = [], []
    for _ in range(250):
        source = choose.sample(range(40), choose.randint(1, 9))
        order = choose.sample(range(len(source)), len(source)) if shuffled else list(range(len(source)))
        pairs.append((source, [39 - source[position] for position in order]))
        heads += order
    return pairs, heads


@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("shuffled", [False, True], ids=["monotone", "shuffled"])
def test_one_to_one_translations_are_recovered(alpha: float, shuffled: bool) -> None:
    pairs, heads = one_to_one(3, shuffled)
    model = fit(pairs, alpha=alpha)
    assert model.align(bitext(pairs)).tolist() == heads
    table = table_of(model)
    assert all(max(range(40), key=lambda f: table.get((e, f), 0.0)) == 39 - e for e in range(40))


def test_a_word_that_comes_from_nowhere_has_no_link() -> None:
    pairs, _ = one_to_one(5, shuffled=False)
    with_particle = [(source, [40, *target]) for source, target in pairs]  # word 40 begins every sentence
    heads = fit(with_particle, null_probability=0.2).align(bitext(with_particle)).tolist()
    starts = np.cumsum([0] + [len(target) for _, target in with_particle[:-1]])
    unlinked = sum(heads[start] == -1 for start in starts)
    assert unlinked / len(starts) > 0.95


# Edges

def test_empty_and_one_word_sides() -> None:
    model = fit(TOY)
    asked = bitext([([], [2, 0]), ([0], [0]), ([1], []), ([], []), ([2, 1], [2])])
    assert model.align(asked).tolist() == [-1, -1, 0, 0]


@pytest.mark.parametrize("pairs", [[], [([], [])], [([0, 1], [])]], ids=["none", "empty", "no target"])
def test_a_corpus_without_target_words(pairs: list[Pair]) -> None:
    model = fit(pairs)
    assert len(model.probabilities) == 0 and all(step.cross_entropy == 0 for step in model.history)
    assert model.align(bitext(pairs)).tolist() == []
    assert model.align(bitext([([0], [3, 1])])).tolist() == [-1, -1]


def test_words_that_never_met_are_not_linked() -> None:
    pairs, _ = one_to_one(3, shuffled=False)
    model = fit(pairs)
    assert model.align(bitext([([999, 5], [34, 777]), ([0], [3]), ([7, 41], [32])])).tolist()[:2] == [1, -1]
    assert model.align(bitext([([999], [34])])).tolist() == [-1]


@pytest.mark.parametrize(("probabilities", "expected"), [
    ([0.0, 0.5, 0.25, 0.0, 0.0], 0), ([0.0, 0.0, 0.25, 0.25, 0.0], 1), ([0.0, 0.0, 0.0, 0.25, 0.5], 2),
    ([0.25, 0.0, 0.25, 0.25, 0.5], -1), ([0.125, 0.0, 0.25, 0.25, 0.5], 1), ([0.0, 0.0, 0.0, 0.0, 0.0], -1),
])
def test_of_equally_good_words_none_then_the_first(probabilities: list[float], expected: int) -> None:
    """Four source words, of which the second and third are beside the diagonal and the others half as likely."""
    shapes, shape_of = diagonal.find_shapes([bitext([([0] * 4, [0, 0])])])
    middle = np.array([1.0, 0.0])  # of the first target word
    beside = diagonal.Prior(left=middle, right=middle, decay=np.array([0.5]), null=np.array([1.0]))
    cells = np.repeat(np.arange(5, dtype=np.int32), 2)  # each source word has one entry
    links = np.empty(2, np.int32)
    choose(shapes, beside, shape_of[0], cells, np.array(probabilities), links)
    assert links[0] == expected


# The same result, however it is computed

def random_pairs(count: int, seed: int) -> list[Pair]:
    choose = random.Random(seed)
    return [([choose.randrange(50) for _ in range(choose.randint(0, 9))],
             [choose.randrange(60) for _ in range(choose.randint(0, 9))]) for _ in range(count)]


def assert_same(one: AlignmentModel, other: AlignmentModel) -> None:
    assert one.history == other.history and one.tension == other.tension
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(one.lexicon, other.lexicon, strict=True))
    assert np.array_equal(one.probabilities, other.probabilities)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_nothing(threads: int) -> None:
    pairs = random_pairs(300, 1)
    one, many = fit(pairs), fit(pairs, threads=threads)
    assert_same(one, many)
    assert np.array_equal(one.align(bitext(pairs)), many.align(bitext(pairs), threads=threads))


def test_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-ups are kept, or kept in part, or not at all and one thread works."""
    pairs = random_pairs(200, 2)
    kept = fit(pairs)
    for bytes_per_cell in (300, 10**6):
        monkeypatch.setattr(fast_align, "_BYTES_PER_CELL", bytes_per_cell)
        assert_same(kept, fit(pairs, memory=1, threads=3))


class Loopback(Group):
    """One of two processes; what the other one adds is handed over through queues."""

    def __init__(self, rank: int, queues: tuple[Queue[Any], Queue[Any]]) -> None:
        self.rank, self.world, self._queues = rank, 2, queues

    def _exchange(self, mine: Any) -> Any:
        self._queues[self.rank].put(mine)
        return self._queues[1 - self.rank].get(timeout=60)

    def add(self, array: np.ndarray) -> None:
        array += self._exchange(array.copy())

    def add_parts(self, array: np.ndarray, bounds: Sequence[int]) -> None:
        mine, whole = slice(bounds[self.rank], bounds[self.rank + 1]), array + self._exchange(array.copy())
        array[:] = -1
        array[mine] = whole[mine]

    def gather_parts(self, array: np.ndarray, bounds: Sequence[int]) -> None:
        theirs = slice(bounds[1 - self.rank], bounds[2 - self.rank])
        array[theirs] = self._exchange(array.copy())[theirs]

    def collect(self, share: list[Any], items: int) -> list[Any]:
        shares = [share, self._exchange(share)][::1 - 2 * self.rank]
        return [shares[item % 2][item // 2] for item in range(items)]


@pytest.mark.parametrize("threads", [(1, 1), (1, 3)])
def test_two_processes_are_one_to_the_last_bit(threads: tuple[int, int]) -> None:
    pairs, queues = random_pairs(300, 5), (Queue[Any](), Queue[Any]())
    whole = fit(pairs)

    def work(rank: int) -> tuple[AlignmentModel, np.ndarray]:
        group = Loopback(rank, queues)
        model = train([bitext(pairs)], AlignmentSettings(), threads=threads[rank], group=group)
        return model, model.align(bitext(pairs), threads=threads[rank], group=group)

    with ThreadPoolExecutor(2) as pool:
        for model, links in pool.map(work, range(2)):
            assert_same(model, whole)
            assert np.array_equal(links, whole.align(bitext(pairs)))


def test_several_bitexts_are_one_corpus() -> None:
    pairs = random_pairs(200, 3)
    whole = fit(pairs)
    parts = [bitext(pairs[:70]), bitext(pairs[70:70]), bitext(pairs[70:])]
    together = train(parts, AlignmentSettings(), threads=2)
    assert table_of(together) == pytest.approx(table_of(whole), rel=1e-9)
    links = np.concatenate([together.align(part) for part in parts])
    assert np.array_equal(links, whole.align(bitext(pairs)))


def test_ids_of_an_encoded_corpus(tmp_path: Path) -> None:
    pairs = random_pairs(60, 4)
    write_pairs(tmp_path / "train.pairs", pairs, vocabulary=60, digest="0" * 64)
    encoded = Bitext.from_pairs(Pairs.open(tmp_path / "train.pairs"))
    assert encoded.target.ids.dtype == np.uint16 and not encoded.target.ids.flags.writeable
    model = train([encoded], AlignmentSettings(), threads=1)
    assert_same(fit(pairs), model)
    assert np.array_equal(model.align(encoded), model.align(bitext(pairs)))


def test_progress_is_told() -> None:
    told: list[tuple[int, float, float]] = []
    model = train([bitext(TOY)], AlignmentSettings(iterations=3), threads=1, callback=lambda *step: told.append(step))
    assert told == [(number, *step) for number, step in enumerate(model.history, 1)]


@pytest.mark.parametrize(("changes", "message"), [
    ({"iterations": 0}, "iterations: 0 must be at least 1"),
    ({"null_probability": 1.0}, "null_probability: 1.0 must be at least 0 and below 1"),
    ({"null_probability": -0.1}, "null_probability: -0.1 must be"),
    ({"tension": 0.0}, "tension: 0.0 must be above 0 and at most 100"),
    ({"tension": math.nan}, "tension: nan must be finite and above 0"),
    ({"alpha": -1.0}, "alpha: -1.0 must be at least 0 and at most 100"),
    ({"alpha": 1e-9}, "alignment.alpha: 1e-09 must be 0 or lie between"),
    ({"symmetrise": "grow"}, "alignment.symmetrise is 'grow'; choose one of forward, reverse, intersection"),
])
def test_settings_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        build(AlignmentSettings, changes, "alignment")
