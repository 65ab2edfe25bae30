"""Recall of candidates, against loops that look every gold word up in a list."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lattices import AlignedPair, aligned, lattice, random_corpus
from masked import masked

from pipeline.evaluation.analyses.chart import png
from pipeline.evaluation.analyses.lattice.recall import (
    METHODS,
    Counted,
    Method,
    by_network,
    by_position,
    by_sentence,
    gains,
    measure_recall,
)
from pipeline.evaluation.analyses.lattice.recall import recall as find_recall
from pipeline.evaluation.analyses.lattice.shared_vocabulary import SharedVocabulary
from pipeline.evaluation.analyses.sentences import make_batches
from pipeline.vocabulary import EOS, MASK, PAD

CPU = torch.device("cpu")
SIZES = (1, 2, 3, 5, 8, 50)
"""The last is more than the vocabulary has."""
Ids = list[int]
TRAINING = random_corpus(80, seed=4)
GOLD: list[tuple[Ids, Ids]] = [(list(source), list(target)) for source, target, _ in random_corpus(13, seed=5)]
NEVER_SEEN = ([7, 8, 9], [12, 13])
SPECIAL = (PAD, 2, EOS, MASK, 5, 6)

LATTICE, NAT = lattice(), masked()
SHARED = SharedVocabulary.from_links([aligned(TRAINING)], max(SIZES), 20, 20)
MEASURED: dict[str, Method] = {
    "position_aware": lambda sentences: by_position(LATTICE, sentences, SIZES),
    "shared": lambda sentences: by_sentence(SHARED, sentences, SIZES),
    "nat": lambda sentences: by_network(NAT, sentences, SIZES)}


# One list of offered words for each position, by every method, for one sentence and K.

def lists_by_position(source: Ids, target: Ids, k: int) -> list[Ids]:
    words, _ = LATTICE.counts.candidates(np.array([source]), np.array([len(source)]), len(target), k)
    return [[word for word in place if word != PAD] for place in words[0].tolist()]


def lists_by_sentence(source: Ids, target: Ids, k: int) -> list[Ids]:
    union: set[int] = set()
    for x in source:
        counts = Counter(y for other, words, heads in TRAINING for y, head in zip(words, heads, strict=True)
                         if head >= 0 and other[head] == x)
        union |= set(sorted(counts, key=lambda y: (-counts[y], y))[:k])
    return [sorted(union)] * len(target)


def lists_by_network(source: Ids, target: Ids, k: int) -> list[Ids]:
    state = NAT.start(NAT.encode(torch.tensor([[*source, EOS]])))
    logits = NAT.step(torch.full((1, len(target)), MASK), state)[0].tolist()
    return [sorted((word for word in range(20) if word not in SPECIAL), key=lambda word: (-place[word], word))[:k]
            for place in logits]


LISTS = {"position_aware": lists_by_position, "shared": lists_by_sentence, "nat": lists_by_network}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [1, 4, 20])
def test_recall_is_the_share_of_gold_words_in_their_lists(method: str, rows: int) -> None:
    batches, _ = make_batches(GOLD, rows=rows, longest=24, device=CPU)
    found = measure_recall(batches, SIZES, MEASURED)[method]
    for at, k in enumerate(SIZES):
        hits, offered = [], []
        for source, target in GOLD:
            for word, offer in zip(target, LISTS[method](source, target, k), strict=True):
                hits.append(word in offer)
                offered.append(len(offer))
        assert found.recall()[at] == pytest.approx(sum(hits) / len(hits))
        assert found.choice()[at] == pytest.approx(sum(offered) / len(offered))
    assert found.words.tolist() == [len(target) for _, target in sorted(GOLD, key=lambda pair: -len(pair[0]))]
    assert 0 < found.recall()[1] < found.recall()[-1]


def test_a_gain_is_over_as_many_words() -> None:
    """Two sentences of ten words; as many words as 2 shared ones recall halfway between 1 and 4 of them."""
    words = np.full(9, 10.0)
    shared = Counted(np.tile([2.0, 6.0], (9, 1)), np.tile([10.0, 40.0], (9, 1)), words)
    mine = Counted(np.tile([5.0, 9.0, 9.0], (9, 1)), np.tile([20.0, 40.0, 50.0], (9, 1)), words)
    assert gains(mine, shared, samples=20) == {2.0: pytest.approx((0.1, 0.1, 0.1)), 4.0: pytest.approx((0.3, 0.3, 0.3))}


def test_a_network_without_preferences_offers_the_lowest_ids() -> None:
    flat = masked()
    with torch.no_grad():
        flat.projection.weight.zero_()
    (sentences,), _ = make_batches([([7], [1, 7, 8, 19])], rows=1, longest=24, device=CPU)
    ranks, words = by_network(flat, sentences, (2, 50))
    assert ranks.tolist() == [[0, 1, 2, 13]]  # 1 is the unknown word, 7 the first after the special symbols
    assert words[0, 0].tolist() == [2, 14]


CORPORA = st.lists(st.tuples(st.lists(st.integers(7, 11), min_size=1, max_size=4),
                             st.lists(st.tuples(st.integers(7, 11), st.integers(-1, 3)), min_size=1, max_size=5)),
                   min_size=1, max_size=8)


@given(CORPORA, st.integers(1, 4), st.lists(st.lists(st.integers(7, 12), max_size=4), min_size=1, max_size=3),
       st.lists(st.integers(7, 12), min_size=1, max_size=4))
def test_shared_vocabularies_of_any_corpus(drawn: list[tuple[Ids, list[tuple[int, int]]]], k: int, sources: list[Ids],
                                           target: Ids) -> None:
    corpus: list[AlignedPair] = [
        (source, [word for word, _ in links], [min(head, len(source) - 1) for _, head in links])
        for source, links in drawn]
    shared = SharedVocabulary.from_links([aligned(corpus[place:place + 3]) for place in range(0, len(corpus), 3)],
                                         k, 13, 13)
    padded = np.array([[*source, *[PAD] * (4 - len(source))] for source in sources])
    ranks, counts = shared.ranks(padded, np.array([target] * len(sources)), (1, k))
    for row, source in enumerate(sources):
        best: dict[int, int] = {}
        for x in source:
            linked = Counter(y for other, words, heads in corpus for y, head in zip(words, heads, strict=True)
                             if head >= 0 and other[head] == x)
            for rank, y in enumerate(sorted(linked, key=lambda y: (-linked[y], y))[:k]):
                best[y] = min(rank, best.get(y, k))
        assert ranks[row].tolist() == [best.get(word, k) for word in target]
        assert counts[row].tolist() == [sum(rank < size for rank in best.values()) for size in (1, k)]


def test_the_finding_names_every_method_and_every_gold() -> None:
    batches = make_batches([*GOLD, NEVER_SEEN], rows=4, longest=24, device=CPU)
    finding = find_recall({"references": batches, "teacher": (batches[0][:1], 3)}, SIZES, LATTICE, SHARED, NAT,
                          samples=20)
    expected = measure_recall(batches[0], SIZES, MEASURED)
    references = finding.metric["references"]
    assert references["sentences"] == 14 and references["sentences_left_out"] == 0
    assert references["words"] == sum(len(target) for _, target in [*GOLD, NEVER_SEEN])
    for name in METHODS:
        for what, values in (("recall", expected[name].recall()), ("words", expected[name].choice())):
            assert references[name][what] == dict(zip(map(str, SIZES), values.tolist(), strict=True))
    assert finding.metric["teacher"]["sentences_left_out"] == 3


def test_without_a_network_it_has_no_curve() -> None:
    batches = make_batches(GOLD[:1], rows=4, longest=24, device=CPU)
    finding = find_recall({"references": batches}, SIZES, LATTICE, SHARED, None, samples=20)
    assert METHODS.keys() & finding.metric["references"].keys() == METHODS.keys() - {"nat"}


def test_empty_and_overlong_targets_are_left_out_and_counted() -> None:
    pairs = [([7, 8], [9]), ([7], []), ([8], [9] * 5), ([7] * 9, [9] * 4)]
    batches, left_out = make_batches(pairs, rows=2, longest=5, device=CPU)
    assert left_out == 2
    assert [batch.target.tolist() for batch in batches] == [[[9, 9, 9, 9], [9, PAD, PAD, PAD]]]
    assert batches[0].source.tolist() == [[7, 7, 7, 7, EOS], [7, 8, EOS, PAD, PAD]]
    finding = find_recall({"references": ([], 4)}, SIZES, LATTICE, SHARED, NAT, samples=20)  # nothing is left
    assert finding.metric["references"] == {"sentences": 0, "sentences_left_out": 4, "words": 0}
    assert png(finding.figure).startswith(b"\x89PNG")
