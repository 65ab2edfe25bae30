"""How long an output may become."""

from collections.abc import Callable

import pytest
import torch
from orders import EVERY_ORDER

from pipeline.decoding import greedy, pair_beam
from pipeline.decoding.beam import LengthPenalty, search
from pipeline.decoding.beam import Settings as BeamSettings
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD


@pytest.mark.parametrize(("pieces", "ratio", "extra", "longest", "words"), [
    (5, 2.0, 10, 255, 20), (5, 1.5, 0, 255, 7), (1, 0.0, 4, 255, 4), (100, 2.0, 10, 63, 63), (1, 0.1, 0, 255, 1)])
def test_steps_hold_the_words_and_an_end(pieces: int, ratio: float, extra: int, longest: int, words: int) -> None:
    source, limit = torch.full((1, pieces), 9), LengthLimit(ratio, extra, longest)
    assert limit.steps(source, EVERY_ORDER["left_to_right"]).tolist() == [words + 1]
    assert limit.steps(source, EVERY_ORDER["interleaved"]).tolist() == [words // 2 + 1]


@pytest.mark.parametrize("ratio", [0.1, 0.3, 1.1, 1.3, 1.7, 2.3])
def test_a_limit_depends_on_its_own_source_only(ratio: float) -> None:
    limit, rows = LengthLimit(ratio, 2), [[8] * pieces for pieces in (3, 10, 1, 30, 70, 100)]
    batch = torch.tensor([row + [PAD] * (100 - len(row)) for row in rows])
    alone = [int(limit.steps(torch.tensor([row]), EVERY_ORDER["interleaved"])) for row in rows]
    assert limit.steps(batch, EVERY_ORDER["interleaved"]).tolist() == alone


@pytest.mark.parametrize("impossible", [
    {"ratio": -1.0}, {"extra": -3}, {"longest": 0}, {"ratio": 0.0, "extra": 0}])
def test_no_room(impossible: dict[str, float]) -> None:
    with pytest.raises(PipelineError, match="leave no room for a single word"):
        LengthLimit(**impossible)  # type: ignore[arg-type]


def test_settings_of_search() -> None:
    with pytest.raises(PipelineError, match="nbest: 4 must not exceed the beams, 3"):
        BeamSettings(beams=3, nbest=4)
    with pytest.raises(PipelineError, match="beams: 0 must be at least 1"):
        BeamSettings(beams=0)
    with pytest.raises(PipelineError, match="nbest: 4 must not exceed the hypotheses, 3"):
        pair_beam.Settings(beams=3, nbest=4)
    with pytest.raises(PipelineError, match="hypotheses: 0 must be at least 1"):
        pair_beam.Settings(beams=3, hypotheses=0)
    with pytest.raises(PipelineError, match="beams: 0 must be at least 1"):
        pair_beam.Settings(beams=0, hypotheses=2)
    with pytest.raises(PipelineError, match="kind is 'wu'; choose one of average, gnmt"):
        LengthPenalty(kind="wu")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="alpha: -1 must be at least 0"):
        LengthPenalty(alpha=-1)


@pytest.mark.parametrize(("block", "message"), [
    ({}, "decoders.mine.algorithm: '' is not a file"),
    ({"algorithm": "annealing"}, "decoders.mine.algorithm: 'annealing' is not a file of pipeline/decoding"),
    ({"algorithm": "limits"}, "decoders.mine.algorithm: 'limits' is not a file of pipeline/decoding that has a search"),
    ({"algorithm": "../files"}, "decoders.mine.algorithm: '../files' is not a file"),
    ({"algorithm": "beam"}, "decoders.mine.beams is missing"),
    ({"algorithm": "beam", "beams": "four"}, "decoders.mine.beams is 'four'; it must be of type int"),
    ({"algorithm": "beam", "beams": 4, "wdith": 1}, "decoders.mine.wdith is unknown"),
    ({"algorithm": "beam", "beams": 4, "length_penalty": {"kind": "average", "alpha": -1}},
     "mine.length_penalty.alpha: -1.0 must"),
    ({"algorithm": "greedy", "beams": 4}, "decoders.mine.beams is unknown"),
    ({"algorithm": "beams"}, "'beams' is not a file of pipeline/decoding that has a search"),
    ({"algorithm": "deduplicate"}, "'deduplicate' is not a file of pipeline/decoding that has a search"),
    ({"algorithm": "pair_beam", "beams": 4, "hypotheses": "all"}, "decoders.mine.hypotheses is 'all'; it must be of"),
    ({"algorithm": "greedy", "deduplicate": -1}, "decoders.mine.deduplicate is -1; it must be a number of words"),
    ({"algorithm": "greedy", "deduplicate": True}, "decoders.mine.deduplicate is True; it must be a number of words"),
    ({"algorithm": "greedy", "deduplicate": "2"}, "decoders.mine.deduplicate is '2'; it must be a number of words"),
])
def test_impossible_decoders(block: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make_decoder("mine", block, LengthLimit())


def test_a_decoder_is_its_algorithm_with_its_settings(tiny: Callable[..., Transformer]) -> None:
    network, source, limit = tiny(), torch.tensor([[8, 9, 3]]), LengthLimit(1.0, 6)
    beam = make_decoder("beam", {"algorithm": "beam", "beams": 3, "nbest": 2,
                                 "length_penalty": {"kind": "gnmt", "alpha": 0.6}}, limit)(network, source)
    direct = search(network, source, limit, BeamSettings(3, LengthPenalty("gnmt", 0.6), 2))
    assert torch.equal(beam.tokens, direct.tokens) and torch.equal(beam.scores, direct.scores)
    found = make_decoder("greedy", {"algorithm": "greedy"}, limit)(network, source)
    assert torch.equal(found.tokens, greedy.search(network, source, limit).tokens)
