"""Translation by look-up alone, on count models that are written down."""

import math

import pytest
import torch
from scripted_lattice import ScriptedLattice, Sentence, random_sentence
from sentences import sources

from pipeline.decoding.counts import Settings, search
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.vocabulary import PAD

A, B, C = 7, 8, 9
LIMIT = LengthLimit(ratio=1.0, extra=2, longest=4)
MIXED = sources(3, 6, 1, 4, 2, 5)


def model(*words: dict[int, float], length: int) -> ScriptedLattice:
    return ScriptedLattice(lambda row: Sentence(length, list(words), torch.empty(0)))


def test_the_best_candidates_by_hand() -> None:
    counts = model({B: -0.5, A: -0.9}, {A: -0.25}, {C: -0.125, B: -3.0}, {A: -7.0}, length=3)
    found = search(counts, torch.tensor([[A, A]]), LIMIT, Settings())
    assert found.tokens.tolist() == [[[B, A, C]]] and found.lengths.tolist() == [[3]]
    assert found.scores.tolist() == [[-0.875]] and found.ended.tolist() == [[True]]
    assert found.calls.tolist() == [0]
    assert counts.asked == [(1, 3, 1)]  # and no edges


def test_a_batch_is_cut_sentence_by_sentence_at_the_limit() -> None:
    found = search(ScriptedLattice(random_sentence), MIXED, LIMIT, Settings())
    assert found.lengths[:, 0].tolist() == [3, 4, 1, 4, 2, 4]
    assert found.ended[:, 0].tolist() == [random_sentence(tuple(piece for piece in source.tolist() if piece != PAD)
                                                          ).length == length
                                          for source, length in zip(MIXED, [3, 4, 1, 4, 2, 4], strict=True)]
    for row, source in enumerate(MIXED):
        length = int(found.lengths[row])
        known = random_sentence(tuple(piece for piece in source.tolist() if piece != PAD)).words[:length]
        assert found.tokens[row, 0].tolist() == [next(iter(words)) for words in known] + [PAD] * (4 - length)
        assert found.scores[row].item() == pytest.approx(sum(next(iter(words.values())) for words in known), abs=1e-12)


def test_a_position_without_candidates() -> None:
    words: list[dict[int, float]] = [{A: -1.0}, {}, {B: -1.0}]
    found = search(model(*words, length=3), torch.tensor([[A, A]]), LIMIT, Settings())
    assert found.scores.tolist() == [[-math.inf]] and found.ended.tolist() == [[False]]
    assert found.lengths.tolist() == [[0]] and found.tokens.tolist() == [[[PAD, PAD, PAD]]]
    found = search(model(*words, length=1), torch.tensor([[A, A]]), LIMIT, Settings())
    assert found.tokens.tolist() == [[[A]]] and found.ended.all()


def test_an_entry_of_params() -> None:
    counts = ScriptedLattice(random_sentence)
    found = make_decoder("counts", {"algorithm": "counts"}, LIMIT)(counts, MIXED)
    assert torch.equal(found.tokens, search(counts, MIXED, LIMIT, Settings()).tokens)
    with pytest.raises(PipelineError, match=r"decoders\.counts\.nbest is unknown"):
        make_decoder("counts", {"algorithm": "counts", "nbest": 2}, LIMIT)
    with pytest.raises(PipelineError, match=r"decoders.counts: counts searches lattice models, and this one is masked"):
        make_decoder("counts", {"algorithm": "counts"}, LIMIT)(ScriptedLattice(random_sentence, kind="masked"), MIXED)
