"""Beam search with terms: what it finds is what enumerating all hypotheses that contain them finds."""

from collections.abc import Callable

import pytest
import torch
from orders import EVERY_ORDER
from scripted import Row, Scripted, random_script
from sentences import sources
from test_exhaustive import SOURCE, VOCABULARY, enumerate_hypotheses

from pipeline.decoding import beam
from pipeline.decoding.beam import LengthPenalty
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.decoding.terms import TermExpansion
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD

Tiny = Callable[..., Transformer]
LIMIT = LengthLimit(ratio=1.5, extra=8, longest=23)
BLOCK = {"algorithm": "beam", "beams": 4, "nbest": 3}


def contains(words: list[int], terms: list[list[int]]) -> bool:
    """Whether all terms occur."""
    return all(any(words[at:at + len(term)] == term for at in range(len(words))) for term in terms)


@pytest.mark.parametrize("terms", [[[7]], [[8, 9]], [[9], [7, 8]], [[8, 8, 9]], [[7], [9]],
                                   [[7], [7, 8]], [[8], [7, 8]], [[8, 9], [9, 7]], [[8], [7, 8, 9]]])
@pytest.mark.parametrize("prefix", [[], [8]])
def test_a_wide_beam_with_terms_equals_enumeration(terms: list[list[int]], prefix: list[int]) -> None:
    order, steps, penalty = EVERY_ORDER["left_to_right"], 5, LengthPenalty("average", 1.0)
    for seed in (1, 2, 3):
        def script(source: Row, before: Row, seed: int = seed) -> torch.Tensor:
            rows = random_script(order, 3, seed, VOCABULARY)(source, before)
            return rows if len(before) >= len(prefix) else torch.full_like(rows, -torch.inf).index_fill_(
                1, torch.tensor(prefix[len(before)]), 0)
        everything = enumerate_hypotheses(Scripted(order, script), (10, EOS), steps)
        wanted = [(score / penalty(len(slots)), slots) for score, slots, _ in everything
                  if contains(list(slots), terms) and score > -torch.inf]
        found = make_decoder("beam", {"algorithm": "beam", "beams": 125, "nbest": 15}, LengthLimit(
            0.0, steps - 1 - len(prefix)))(Scripted(order, random_script(order, 3, seed, VOCABULARY)), SOURCE,
                                          [prefix], [terms])
        ranked = sorted(wanted, reverse=True)[:15]
        assert int((found.scores > -torch.inf).sum()) == len(ranked)
        for rank, (score, slots) in enumerate(ranked):
            assert found.scores[0, rank].item() == pytest.approx(score, abs=1e-12)
            assert found.tokens[0, rank, :found.lengths[0, rank]].tolist() == [one for one in slots if one != EOS]


@pytest.mark.parametrize("beams", [1, 2, 3, 4, 5])
def test_a_narrow_beam_places_all_terms(tiny: Tiny, beams: int) -> None:
    """Even with fewer beams than tokens, and all hypotheses of the list contain them."""
    source, terms = sources(6, 9, 4), [[[7, 8, 9], [8], [11]], [], [[12, 12], [13, 7], [10], [9, 13, 8]]]
    network = tiny(seed=3)
    decode = make_decoder("beam", {**BLOCK, "beams": beams, "nbest": beams}, LIMIT)
    found, plain = decode(network, source, (), terms), decode(network, source)
    for row, wanted in enumerate(terms):
        assert found.scores[row, 0] > -torch.inf
        for rank in range(beams):
            if found.scores[row, rank] > -torch.inf:
                assert contains(found.tokens[row, rank, :found.lengths[row, rank]].tolist(), wanted), (row, rank)
    assert found.tokens[1, 0, :found.lengths[1, 0]].tolist() == plain.tokens[1, 0, :plain.lengths[1, 0]].tolist()


def test_a_term_for_which_there_is_no_room(tiny: Tiny) -> None:
    decode = make_decoder("beam", BLOCK, LengthLimit(ratio=0, extra=4, longest=4))
    found = decode(tiny(seed=3), sources(6), (), [[[7, 8, 9, 10, 11, 12, 13]]])
    assert torch.isfinite(found.scores[0, 0]) and found.lengths[0, 0] == 5 and not found.ended[0, 0]


@pytest.mark.parametrize("beams", [2, 4, 5])
def test_terms_within_terms_are_placed(tiny: Tiny, beams: int) -> None:
    """One that is completed in the midst of another one does not make that one begin again."""
    terms = [[7], [8, 7, 9], [10, 7, 11], [12, 9, 7]]
    decode = make_decoder("beam", {"algorithm": "beam", "beams": beams}, LIMIT)
    for seed in range(20):
        found = decode(tiny(seed=seed), sources(6), (), [terms])
        assert contains(found.tokens[0, 0, :found.lengths[0, 0]].tolist(), terms), seed


def test_a_term_that_is_the_best_translation_leads_to_it(tiny: Tiny) -> None:
    """With the score that beam search gives it."""
    network, source, led = tiny(seed=4), sources(6, 9, 4, 7, 5), 0
    for row in range(len(source)):
        one = source[row:row + 1, :int((source[row] != PAD).sum())]
        settings = beam.Settings(4, LengthPenalty(), 1)
        plain = beam.search(network, one, LIMIT, settings)
        words = plain.tokens[0, 0, :plain.lengths[0, 0]].tolist()
        if plain.ended[0, 0] and words:
            again = beam.search(network, one, LIMIT, beam.Settings(12, LengthPenalty(), 1), [words])
            assert again.tokens[0, 0, :again.lengths[0, 0]].tolist() == words
            assert again.scores[0, 0].item() == pytest.approx(plain.scores[0, 0].item(), abs=1e-9)
            led += 1
    assert led >= 3


def test_without_terms_the_expansion_is_beam_searchs(tiny: Tiny) -> None:
    """Step by step, with random scores."""
    generator = torch.Generator().manual_seed(3)
    for K in (1, 3, 5):
        expand, plain = TermExpansion([], K, EOS, 9), beam._expansion(K, 1, EOS, torch.device("cpu"))
        for _ in range(5):
            rows = torch.randn(K, 1, 20, generator=generator, dtype=torch.float64).log_softmax(2)
            rows[:, :, EOS] += 1
            scores = torch.randn(1, K, generator=generator).sort(descending=True).values
            mine, theirs = expand(rows.clone(), scores), plain(rows.clone(), scores)
            for one, other in zip(mine.going, theirs.going, strict=True):
                assert torch.equal(one, other)
            ends = [] if theirs.ended is None else sorted(
                (score, parent) for score, parent in zip(theirs.ended.scores[0].tolist(),
                                                         theirs.ended.parents[0].tolist(), strict=True)
                if score > -torch.inf)
            assert ends == ([] if mine.ended is None else sorted(zip(
                mine.ended.scores[0].tolist(), mine.ended.parents[0].tolist(), strict=True)))


def test_what_cannot_place_terms_says_so(tiny: Tiny) -> None:
    for algorithm, order, message in (("greedy", "left_to_right", "greedy cannot place terms; choose a decoder of"),
                                      ("beam", "interleaved", "this model generates in the order interleaved, 2 words"),
                                      ("beam", "right_to_left", "this model generates in the order right_to_left, 1")):
        block = {"algorithm": algorithm} | ({"beams": 2} if algorithm == "beam" else {})
        with pytest.raises(PipelineError, match=f"^decoders.mine: {message}"):
            make_decoder("mine", block, LIMIT).check(tiny(order), terms=True)
