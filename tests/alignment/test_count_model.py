"""The count model against its definition in dictionaries and fractions."""

import math
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from dense import prior
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import AlignedPair, counted, random_corpus
from safetensors.numpy import save_file

from pipeline.count_model.arrays import map_arrays, write_arrays
from pipeline.count_model.lengths import fit_lengths
from pipeline.count_model.model import CountModel
from pipeline.errors import PipelineError
from pipeline.vocabulary import PAD, UNK

V, PIECES = 12, 13  # target and source vocabulary
COPIES = np.array([-1] * 7 + [9, 7, -1, 8, 11, -1], np.int32)
TENSION, NULL = 3.0, 0.125
Found = list[tuple[int, float]]
"""The candidates of a position and their probabilities."""


def model(corpus: list[AlignedPair], top: int = 40, diagonal: float = 0.0) -> CountModel:
    return counted(corpus, top=top, copies=COPIES, vocabulary=V, tension=TENSION, null_probability=NULL,
                   diagonal=diagonal)


def ask(counts: CountModel, source: list[int], positions: int, k: int) -> list[Found]:
    """One source; what must look like padding is checked and left out."""
    words, scores = counts.candidates(np.array([source], np.int64), np.array([len(source)]), positions, k)
    assert words.shape == scores.shape == (1, positions, k)
    assert (words.dtype, scores.dtype) == (np.int64, np.float32)
    found = []
    for row_words, row_scores in zip(words[0].tolist(), scores[0].tolist(), strict=True):
        size = sum(score > -math.inf for score in row_scores)
        assert row_words[size:] == [PAD] * (k - size) and row_scores[size:] == [-math.inf] * (k - size)
        found.append([(word, math.exp(score)) for word, score in zip(row_words, row_scores[:size], strict=False)])
    return found


def same(found: Found, *expected: tuple[int, float]) -> bool:
    return ([word for word, _ in found] == [word for word, _ in expected]
            and [p for _, p in found] == pytest.approx([p for _, p in expected], rel=1e-5))


# The definition.

def frequencies(counts: Counter[int], top: int | None = None) -> dict[int, Fraction]:
    """Relative frequencies, of which the `top` highest are kept, of equal ones those of the lower ids."""
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:top]
    return {item: Fraction(times, sum(counts.values())) for item, times in best}


class Definition:
    """P(y | x, t) = sum over a of P(y | x_a, a - t) P(a | S, t), positions from 1, a = 0 for no source word."""

    def __init__(self, corpus: list[AlignedPair], top: int, diagonal: float) -> None:
        self.top, self.diagonal = top, Fraction(diagonal)
        self.words: dict[tuple[int | None, int], Counter[int]] = defaultdict(Counter)
        self.alignments: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self.positions: dict[int | None, Counter[int]] = defaultdict(Counter)
        for source, target, heads in corpus:
            for t, (y, head) in enumerate(zip(target, heads, strict=True), 1):
                a = head + 1
                self.words[(source[head], a - t) if a else (None, 0)][y] += 1
                self.alignments[len(source), t][a] += 1
                self.positions[t][y] += 1
                self.positions[None][y] += 1
        self.known = {x for x, _ in self.words}
        self.lengths = fit_lengths(*(np.array([len(pair[side]) for pair in corpus]) for side in (0, 1)))

    def at(self, source: list[int], t: int) -> dict[int, float]:
        S, probabilities = len(source), defaultdict(float)
        for a, weight in self.alignment(S, t).items():
            x = source[a - 1] if a else None
            if (x, a - t if a else 0) in self.words:
                row = self.words[x, a - t if a else 0]
                for y, probability in frequencies(row, self.top).items():
                    probabilities[y] += float(weight * probability)
            elif x is not None and x not in self.known and COPIES[x] >= 0:
                probabilities[int(COPIES[x])] += float(weight)
        if not probabilities:
            row = self.positions[t] if t in self.positions else self.positions[None]
            return {y: float(probability) for y, probability in frequencies(row, self.top).items()}
        return probabilities

    def alignment(self, S: int, t: int) -> dict[int, Fraction]:
        predicted = int(self.lengths.predict(np.array([S]))[0])
        by_prior = {a: Fraction(weight) for a, weight in enumerate(prior(t, S, max(t, predicted), TENSION, NULL))}
        if (S, t) not in self.alignments:
            return by_prior
        counted = frequencies(self.alignments[S, t])
        mixed = {a: self.diagonal * weight + (1 - self.diagonal) * counted.get(a, 0) for a, weight in by_prior.items()}
        return {a: weight for a, weight in mixed.items() if weight}


@st.composite
def aligned_pairs(draw: st.DrawFn) -> AlignedPair:
    source = draw(st.lists(st.integers(7, 10), max_size=4))  # pieces 11 and 12 are never seen
    target = draw(st.lists(st.integers(7, V - 1), max_size=4))
    return source, target, [draw(st.integers(-1, len(source) - 1)) for _ in target]


CORPORA = st.lists(aligned_pairs(), min_size=1, max_size=6)
SOURCES = st.lists(st.integers(7, PIECES - 1), max_size=6)


@settings(max_examples=300)
@given(CORPORA, SOURCES, st.integers(1, 3), st.integers(1, 7), st.sampled_from([0.0, 0.25, 1.0]))
def test_candidates_are_those_of_the_definition(corpus: list[AlignedPair], source: list[int], top: int, k: int,
                                                diagonal: float) -> None:
    expected = Definition(corpus, top, diagonal)
    for t, found in enumerate(ask(model(corpus, top, diagonal), source, 6, k), 1):
        of_word = expected.at(source, t)
        assert len(found) == min(k, len(of_word))
        assert [p for _, p in found] == pytest.approx(sorted(of_word.values(), reverse=True)[:k], rel=1e-5)
        assert dict(found) == pytest.approx({word: of_word[word] for word, _ in found}, rel=1e-5)
        assert len({word for word, _ in found}) == len(found)


@pytest.mark.parametrize("words", range(2, 6))
def test_of_equal_words_the_lower_ids_come_first(words: int) -> None:
    """Each has 1 / (words * weight), which is seldom a number of 32 bits."""
    ids = [11, 8, 10, 7, 9][:words]
    for weight in range(1, 14):
        # The other alignments of the only position are with the empty word, which has one translation.
        corpus: list[AlignedPair] = [([7], [y], [0]) for y in ids] + [([7], [6], [-1])] * words * (weight - 1)
        counts = model(corpus)
        for k in range(1, words + 2):
            found = [word for word, _ in ask(counts, [7], 1, k)[0] if word != 6]
            assert found == sorted(ids)[:len(found)] and len(found) >= k - 1
        for top in range(1, words + 1):
            found = [word for word, _ in ask(model(corpus, top=top), [7], 1, 9)[0] if word != 6]
            assert found == sorted(ids)[:top]


def test_what_top_cuts_off_is_not_shared_out() -> None:
    corpus = [([7], [y], [0]) for y in (7, 7, 7, 8, 8, 9)] + [([7], [10], [-1])] * 2
    assert same(ask(model(corpus, top=2), [7], 1, 9)[0], (7, 3 / 8), (8, 2 / 8), (10, 2 / 8))
    assert same(ask(model(corpus, top=1), [7], 1, 9)[0], (7, 3 / 8), (10, 2 / 8))


# What was never counted.

CORPUS: list[AlignedPair] = [
    ([7, 8], [9, 10, 9], [0, 1, 1]),
    ([7, 8], [9, 11], [0, 1]),
    ([8, 7, 8, 7, 8], [10], [4]),
]


def test_a_source_word_never_seen_proposes_itself_or_nothing() -> None:
    counts = model(CORPUS)
    assert COPIES[11] == 11 and ask(counts, [11, 8], 1, 3) == [[(11, 1.0)]]
    assert COPIES[10] == 8 and ask(counts, [10, 8], 1, 3) == [[(8, 1.0)]]  # another id on the target side
    assert COPIES[12] == COPIES[UNK] == -1
    for nothing in 12, UNK:
        assert same(ask(counts, [nothing, 8], 1, 3)[0], (9, 2 / 3), (10, 1 / 3))  # of the first position


def test_a_word_never_seen_at_an_offset_proposes_nothing() -> None:
    counts = model(CORPUS)
    assert same(ask(counts, [12, 12, 12, 12, 8], 1, 3)[0], (10, 1.0))
    assert same(ask(counts, [12, 12, 12, 12, 7], 1, 3)[0], (9, 2 / 3), (10, 1 / 3))  # of the first position


def test_pairs_of_lengths_never_seen_take_the_diagonal() -> None:
    counts = model([([7, 7, 7], [8, 9, 10], [0, 1, 2]), ([7], [11], [-1])])
    weights = prior(2, 4, 4, TENSION, NULL)  # four words are expected of four
    # At offset 0 the words 8, 9 and 10 are equally frequent; 7 was never seen at another offset.
    assert same(ask(counts, [7, 7, 7, 7], 2, 9)[1], *((word, weights[2] / 3) for word in (8, 9, 10)), (11, NULL))
    assert same(ask(counts, [7, 7, 7], 4, 9)[3], (11, NULL))  # no source word is in the fourth position


def test_positions_that_no_target_reached() -> None:
    """Some sources are longer than all targets: the tables reach farther than the targets do."""
    counts = model(CORPUS)
    assert counts.longest == 5
    found = ask(counts, [12, 12, 12], 9, 3)
    assert found[2] == [(9, 1.0)]  # the only third word
    assert all(same(one, (9, 3 / 6), (10, 2 / 6), (11, 1 / 6)) for one in found[3:])


def test_an_empty_source() -> None:
    counts = model([([], [9, 10], [-1, -1]), ([7], [11, 9], [0, -1])])
    for one in ask(counts, [], 3, 4):  # the third position by the aligner's prior, which leaves the empty word alone
        assert same(one, (9, 2 / 3), (10, 1 / 3))
    assert same(ask(model(CORPUS), [], 2, 3)[1], (10, 1 / 2), (11, 1 / 2))  # no empty word: of the second position


def test_one_word_each() -> None:
    assert ask(model([([7], [9], [0])]), [7], 2, 2) == [[(9, 1.0)], [(9, 1.0)]]


def test_a_corpus_of_nothing() -> None:
    counts = model([([], [], [])])
    assert ask(counts, [7, 12], 3, 2) == [[(9, pytest.approx((1 - NULL) * share))] for share in (
        prior(t, 2, t, TENSION, 0.0)[1] for t in (1, 2, 3))]
    assert ask(counts, [12], 2, 2) == [[], []]
    assert counts.candidates(np.zeros((0, 3), np.int64), np.zeros(0, np.int64), 2, 4)[0].shape == (0, 2, 4)
    assert counts.candidates(np.array([[7]]), np.array([1]), 0, 4)[0].shape == (1, 0, 4)


def test_no_word_a_position_is_a_mistake() -> None:
    with pytest.raises(PipelineError, match="candidates: 0 must be at least 1"):
        ask(model(CORPUS), [7], 1, 0)


@given(CORPORA, st.lists(SOURCES, min_size=1, max_size=5))
def test_a_batch_equals_its_sentences(corpus: list[AlignedPair], sources: list[list[int]]) -> None:
    """Whatever comes after them is not read."""
    counts, longest = model(corpus), max(map(len, sources))
    batch = np.full((len(sources), longest + 2), 1 << 40)
    for row, source in zip(batch, sources, strict=True):
        row[:len(source)] = source
    words, scores = counts.candidates(batch, np.array([len(source) for source in sources]), 5, 4)
    for row, source in enumerate(sources):
        alone = counts.candidates(np.array([source], np.int64), np.array([len(source)]), 5, 4)
        assert np.array_equal(words[row:row + 1], alone[0]) and np.array_equal(scores[row:row + 1], alone[1])


# Files.

@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "toy.safetensors"
    counted(random_corpus()).save(path)
    return path


def test_a_mapped_model_answers_the_same_bits(saved: Path) -> None:
    counts, mapped = counted(random_corpus()), CountModel.open(saved)
    sources = np.random.default_rng(1).integers(7, 20, (20, 9))
    lengths = np.arange(20) % 10
    for mine, theirs in zip(mapped.candidates(sources, lengths, 12, 6), counts.candidates(sources, lengths, 12, 6),
                            strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert mapped.lengths == counts.lengths and mapped.path == saved and counts.path is None
    for name in ("longest", "tension", "null_probability", "target_vocabulary", "digest"):
        assert getattr(mapped, name) == getattr(counts, name) and type(getattr(mapped, name)) is not np.float64


def test_a_file_has_the_share_of_the_prior_if_there_is_one(saved: Path, tmp_path: Path) -> None:
    assert "diagonal" not in map_arrays(saved, "")[1] and CountModel.open(saved).diagonal == 0.0
    counted(random_corpus(), diagonal=0.25).save(tmp_path / "mixed.safetensors")
    assert CountModel.open(tmp_path / "mixed.safetensors").diagonal == 0.25
    arrays, metadata = map_arrays(saved, "")
    write_arrays(tmp_path / "wrong.safetensors", arrays, {**metadata, "diagonal": "1.5"})
    with pytest.raises(PipelineError, match="damaged: its tables do not fit together"):
        CountModel.open(tmp_path / "wrong.safetensors")


def test_a_model_is_mapped_and_read_only(saved: Path) -> None:
    mapped = CountModel.open(saved)
    for array in (mapped.copies, mapped.lexicon.first, *mapped.lexicon.table, *mapped.prior, *mapped.by_position):
        assert not array.flags.writeable and not array.flags.owndata


def test_saving_again_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    CountModel.open(saved).save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == saved.read_bytes()
    CountModel.open(tmp_path / "again.safetensors").save(tmp_path / "again.safetensors")  # over what it maps
    assert (tmp_path / "again.safetensors").read_bytes() == saved.read_bytes()


def without(path: Path, name: str) -> None:
    arrays, metadata = map_arrays(path, "")
    write_arrays(path, {other: array for other, array in arrays.items() if other != name},
                 {other: text for other, text in metadata.items() if other != name})


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (Path.unlink, "not found"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "truncated"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:100]), "truncated or not a safetensors file"),
    "text": (lambda path: path.write_text("lumo daglu bolka"), "truncated or not a safetensors file"),
    "arrays of something else": (lambda path: save_file({"a": np.arange(3)}, path), "not a count model of format"),
    "another format": (lambda path: without(path, "format"), "not a count model of format 'counts 1'"),
    "no digest": (lambda path: without(path, "digest"), r"incomplete \('digest'\)"),
    "a table missing": (lambda path: without(path, "prior.items"), r"incomplete \('prior.items'\)"),
    "a number missing": (lambda path: without(path, "longest"), r"incomplete \('longest'\)"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_clear_line(saved: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "spoilt.safetensors"
    shutil.copy(saved, path)
    spoil, message = DAMAGE[damage]
    spoil(path)
    with pytest.raises(PipelineError, match=rf"spoilt.safetensors: {message}.*; run `dvc repro` to produce it again$"):
        CountModel.open(path, "c0ffee" * 10 + "1234")


def change(path: Path, name: str, place: int, value: float) -> None:
    arrays, metadata = map_arrays(path, "")
    changed = arrays[name].copy()
    changed[place] = value
    write_arrays(path, {**arrays, name: changed}, metadata)


def cast(path: Path, name: str, kind: type) -> None:
    arrays, metadata = map_arrays(path, "")
    write_arrays(path, {**arrays, name: arrays[name].astype(kind)}, metadata)


def rename(path: Path, **numbers: str) -> None:
    arrays, metadata = map_arrays(path, "")
    write_arrays(path, arrays, {**metadata, **numbers})


@pytest.mark.parametrize(("spoil", "message"), [
    *((partial(change, name=name, place=place, value=value), "damaged: its tables do not fit together")
      for name, place, value in [
          ("first", 0, 1), ("first", 9, 1 << 40), ("first", -1, 0), ("lexicon.starts", 3, -727_379_968),
          ("lexicon.starts", -1, 0), ("lexicon.items", 2, 60_000), ("lexicon.probabilities", 2, 0),
          ("lexicon.probabilities", 2, math.nan), ("lexicon.probabilities", -1, 2), ("prior.starts", 5, 1 << 40),
          ("prior.items", -1, 60_000), ("prior.probabilities", 0, -1), ("by_position.starts", 1, 1 << 40),
          ("by_position.items", 0, 60_000), ("copies", 3, -2), ("copies", 3, 60_000)]),
    *((partial(cast, name=name, kind=np.float32), "damaged: its tables do not fit together")
      for name in ("first", "lexicon.starts", "lexicon.items", "prior.items", "copies")),
    (partial(rename, longest="3"), "damaged: its tables do not fit together"),
    (partial(rename, longest="1000000000"), "damaged: its tables do not fit together"),
    (partial(rename, longest="-2"), "damaged: its tables do not fit together"),
    (partial(rename, longest="long"), r"damaged \(invalid literal for int"),
    (partial(rename, slope="steep"), r"damaged \(could not convert string to float"),
])
def test_tables_that_lead_beyond_their_ends_are_refused(saved: Path, tmp_path: Path, spoil: Callable[[Path], None],
                                                        message: str) -> None:
    """Compiled code would read, or write, whatever lies there."""
    path = tmp_path / "spoilt.safetensors"
    shutil.copy(saved, path)
    spoil(path)
    with pytest.raises(PipelineError, match=rf"spoilt.safetensors: {message}.*; run `dvc repro` to produce it again$"):
        CountModel.open(path)


def test_another_vocabulary(saved: Path) -> None:
    with pytest.raises(PipelineError, match=r"toy.safetensors: counted with vocabulary c0ffeec0ffee, but 0{12} is in"):
        CountModel.open(saved, "0" * 64)
    assert CountModel.open(saved, "c0ffee" * 10 + "1234").digest == CountModel.open(saved).digest


def test_mapping_a_model_compiles_nothing(saved: Path) -> None:
    code = ("import sys\nfrom pathlib import Path\nfrom pipeline.count_model.model import CountModel\n"
            "CountModel.open(Path(sys.argv[1]))\nassert not {'numba', 'torch'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code, str(saved)], cwd=Path(__file__).parents[2], check=True)
