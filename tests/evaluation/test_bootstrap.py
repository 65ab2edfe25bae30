"""BLEU of all resamples, against sacreBLEU on resamples written out."""

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import correlation, interval, quotient, resample
from pipeline.evaluation.resampled_bleu import Resampled, Scores, p_value

REFERENCES = [f"{number} {mood} gardeners water the {plant} before the sirens, don't they?" for number, (mood, plant)
              in enumerate(product(("calm", "rude", "late"), ("fern", "moss", "vine", "reed")), start=2)]


def garbled(share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join("blip" if draw.random() < share else word for word in sentence.split()) for sentence in REFERENCES]


def sacrebleu(hypotheses: list[str], *references: list[str]) -> float:
    return float(BLEU().corpus_score(hypotheses, references).score)


SYMBOLS = ("a", "b", "c", "d", ",", ".")
SENTENCES = st.lists(st.lists(st.sampled_from(SYMBOLS), max_size=7).map(" ".join), min_size=1, max_size=5)


@given(SENTENCES, st.integers(0, 9))
def test_sums_of_sentence_counts_are_the_corpus_score(references: list[str], seed: int) -> None:
    draw = random.Random(seed)
    hypotheses = [" ".join(draw.choice(SYMBOLS) for _ in range(draw.randint(0, 7))) for _ in references]
    bleu, _ = Resampled([references], "13a", samples=1, seed=1)(hypotheses)
    assert bleu == pytest.approx(sacrebleu(hypotheses, references), abs=1e-9)
    further = [draw.choice((one, one[2:], f"{one} a b")) for one in references]
    bleu, _ = Resampled([references, further], "13a", samples=1, seed=1)(hypotheses)
    assert bleu == pytest.approx(sacrebleu(hypotheses, references, further), abs=1e-9)


def test_every_resample_is_scored_as_its_sentences_would_be() -> None:
    resampled, hypotheses = Resampled([REFERENCES], "13a", samples=40, seed=3), garbled(0.4, 1)
    bleu, on_resamples = resampled(hypotheses)
    assert bleu == pytest.approx(sacrebleu(hypotheses, REFERENCES), abs=1e-9)
    drawn = [np.repeat(np.arange(len(REFERENCES)), times.astype(int)) for times in resampled.times]
    assert {len(rows) for rows in drawn} == {len(REFERENCES)}
    written_out = [sacrebleu([hypotheses[row] for row in rows], [REFERENCES[row] for row in rows]) for rows in drawn]
    assert on_resamples == pytest.approx(written_out, abs=1e-9)


def test_resamples_are_shared_by_systems_and_follow_the_seed() -> None:
    resampled, system = Resampled([REFERENCES], "13a", samples=50, seed=3), garbled(0.3, 2)
    first, second = resampled(system)[1], resampled(list(system))[1]
    assert np.array_equal(first, second)
    assert np.array_equal(first, Resampled([REFERENCES], "13a", samples=50, seed=3)(system)[1])
    assert not np.array_equal(first, Resampled([REFERENCES], "13a", samples=50, seed=4)(system)[1])


def test_an_interval_of_many_leaves_out_a_fortieth_on_either_side_and_of_few_less() -> None:
    values = np.arange(4001, dtype=np.float64)[::-1]
    assert interval(values, 10 ** 6) == pytest.approx((100, 3900), abs=0.1)
    (low, _), (lower, _), every = interval(values, 100), interval(values, 10), interval(values, 1)
    assert 100 > low > lower > 0 and every == (0, 4000)


@pytest.mark.parametrize("units", [8, 16, 30])
def test_an_interval_of_few_covers_as_it_promises(units: int) -> None:
    draw, times = np.random.default_rng(5), resample(units, 400)
    covered = 0
    for _ in range(500):
        low, high = interval(times @ draw.normal(1, 1, units) / units, units)
        covered += low <= 1 <= high
    assert 455 <= covered <= 490  # 475 expected, with a standard deviation of 5; plain percentiles of 8 cover 427


def test_a_p_value_is_two_sided() -> None:
    """Of a difference of two standard deviations, and of none."""
    by_chance = np.linspace(-3, 3, 601)
    baseline = Scores(30.0, np.full(601, 30.0))
    assert p_value(Scores(32.0, 32 + by_chance), baseline) == pytest.approx((1 + 2 * 101) / 602)
    assert p_value(Scores(28.0, 28 + by_chance), baseline) == pytest.approx((1 + 2 * 101) / 602)
    assert p_value(Scores(30.0, 30 + by_chance), baseline) == 1 == p_value(baseline, baseline)
    assert p_value(Scores(40.0, 40 + by_chance), baseline) == 1 / 602


def test_p_values_tell_equal_from_worse() -> None:
    # Two systems that make the same errors in different halves of the test set.
    marred, half = garbled(0.3, 1), len(REFERENCES) // 2
    resampled = Resampled([REFERENCES], "13a", samples=300)
    baseline = resampled([*marred[:half], *REFERENCES[half:]])
    assert p_value(resampled([*REFERENCES[:half], *marred[half:]]), baseline) > 0.05
    assert p_value(resampled(garbled(0.8, 3)), baseline) < 0.05


def test_quotients_of_ratios_are_paired_only_where_sentences_are_shared() -> None:
    draw = np.random.default_rng(1)
    noise = draw.uniform(0.5, 2, 30)  # of each sentence's ratio
    slower = np.stack([noise, np.ones(30)], 1)
    faster = np.stack([2 * noise, np.ones(30)], 1)
    assert quotient(faster, slower) == pytest.approx((2, 2, 2))
    value, low, high = quotient(faster, slower, paired=False)
    assert value == pytest.approx(2) and low < 1.8 and high > 2.2


def test_another_tokenizer_cuts_otherwise() -> None:
    references, hypotheses = ["打开厨房的灯吧"], ["打开厨房的窗吧"]
    assert Resampled([references], "zh", 1, 1)(hypotheses)[0] > 30 > Resampled([references], "13a", 1, 1)(hypotheses)[0]


@pytest.mark.parametrize(("references", "tokenizer", "samples", "message"), [
    ([], "13a", 10, "0 references"),
    ([[]], "13a", 10, "0 references"),
    ([["a"]], "13a", 0, "0 bootstrap_samples"),
    ([["a"]], "12b", 10, "'12b' is unknown; use one of .*13a"),
])
def test_bad_input_is_refused(references: list[list[str]], tokenizer: str, samples: int, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as refused:
        Resampled(references, tokenizer, samples, 1)
    assert "\n" not in str(refused.value)


def test_lost_hypotheses_are_refused() -> None:
    with pytest.raises(PipelineError, match="11 hypotheses for 12 references"):
        Resampled([REFERENCES], "13a", 5, 1)(REFERENCES[:-1])


def test_a_correlation_has_no_scale() -> None:
    choose = np.random.default_rng(3)
    x = choose.normal(size=40)
    y = x + choose.normal(size=40)
    found = correlation(x, y)
    assert found is not None and found.value == pytest.approx(np.corrcoef(x, y)[0, 1]) and found.low < found.value
    for scale in (1e-9, 1e9):
        assert correlation(scale * x, y / scale) == pytest.approx(found)
    assert correlation(np.ones(40), y) is None
