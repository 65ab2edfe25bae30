"""What is compared between generation orders: by hand, on invented sentences."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from pipeline.corpus.datamodule import Batch
from pipeline.corpus.padding import pad_sources
from pipeline.evaluation.analyses.double_token import sizes
from pipeline.evaluation.analyses.double_token.ends import PARTS, ends, precision_counts
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.interleaved.agreement import agreeing, agreement, crossed
from pipeline.evaluation.analyses.interleaved.grammar import PREDICATES, SUBJECTS, Contrast, contrasts
from pipeline.evaluation.analyses.interleaved.mutual_information import Trained, mutual_information, trained_alike
from pipeline.evaluation.analyses.interleaved.repetition import closest_lengths, otem, repetition, surplus_counts
from pipeline.evaluation.analyses.interleaved.source_length import equal_bins, source_length
from pipeline.evaluation.analyses.interleaved.training_time import measure, training_time
from pipeline.evaluation.analyses.orders import OrderContext, Rival, open_context, share_with_difference
from pipeline.evaluation.analyses.sentences import make_batches, sentence_losses
from pipeline.evaluation.bootstrap import resample
from pipeline.evaluation.speed import Contestant
from pipeline.model.transformer import Transformer
from pipeline.params import load_params, parse_params
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over
from pipeline.vocabulary import EOS

ROOT = Path(__file__).parents[3]
Tiny = Callable[..., Transformer]
RIVAL = Rival("both_ends", "beam4", ("base", "beam4"))
NAMES = [RIVAL.counterpart, RIVAL.name]


def tokens(line: str) -> list[str]:
    return line.split()


def test_every_other_order_is_compared_under_its_widest_beam() -> None:
    params = load_params(ROOT / "params.yaml")
    context = open_context(cast(FinishedRun, SimpleNamespace(params=params)))
    assert context.rivals == (Rival("interleaved", "beam4", ("ar", "beam4")),
                              Rival("double_token", "pair_beam10", ("ar", "beam10")))
    assert context.names() == [("ar", "beam4"), ("ar", "beam10"), ("interleaved", "beam4"),
                               ("double_token", "pair_beam10")]


@pytest.mark.parametrize(("preset", "expected"), [
    ("papers", {"interleaved": "ar beam4", "interleaved_deep": "ar_deep beam4", "interleaved_sa_raw": "ar_raw beam4",
                "double_token_distilled": "ar_distilled beam10"}),
    ("full", {"interleaved_sa": "ar beam4", "double_token_r2l": "ar beam10", "ar_r2l": "ar beam4"})])
def test_like_is_compared_with_like(preset: str, expected: dict[str, str]) -> None:
    """`ar_r2l` is no namesake of the baseline: it generates in another order."""
    params = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), ROOT / f"presets/{preset}.yaml"))
    context = open_context(cast(FinishedRun, SimpleNamespace(params=params)))
    found = {one.family: " ".join(one.counterpart) for one in context.rivals}
    assert {name: found[name] for name in expected} == expected


def test_families_that_differ_in_their_data_alone_are_timed_once() -> None:
    params = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), ROOT / "presets/papers.yaml"))
    context = open_context(cast(FinishedRun, SimpleNamespace(params=params)))
    twice = {"double_token_distilled", "interleaved_raw", "interleaved_distilled"}
    assert twice <= {one.family for one in context.rivals}
    different = context.different()
    assert different[:3] == ["ar", "interleaved", "double_token_raw"]
    assert {"double_token_l2r_raw", "interleaved_sa_raw"} <= set(different)
    assert not (twice | {"interleaved_deep"}) & set(different)  # which is compared with `ar_deep`


def test_sizes_are_timed_on_outputs_of_the_lengths_of_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "WIDTHS", (0.5,))
    monkeypatch.setattr(sizes, "VOCABULARIES", (2,))
    monkeypatch.setattr(sizes, "ROUNDS", 2)
    calls: list[tuple[str, int]] = []

    def time(contestants: Sequence[Contestant], sentences: Sequence[torch.Tensor], *_: Any) -> Any:
        for one in contestants:
            calls.append((one.family, int(one.translate(sentences[0]).calls[0])))
        return np.array([[3.0], [2.0 if len(calls) % 4 == 2 else 1.5]])

    monkeypatch.setattr(sizes, "seconds_of", time)
    params = load_params(ROOT / "params.yaml")
    run = SimpleNamespace(params=params, tokenizer=SimpleNamespace(target_size=60), device=torch.device("cpu"),
                          pairs=lambda _: [([7, 8, 9], [7, 8, 9, 10, 11, 12, 13, 14])],
                          spread_sources=lambda *_: ([0], [torch.tensor([[7, 8, 9, EOS]])]))
    metric = sizes.ask(OrderContext(cast(FinishedRun, run), ())).metric
    assert calls == 4 * [("ar", 9), ("double_token", 5)]  # 8 words, twice as many as the source, and their end
    assert metric["by_width"]["64"]["speedup"] == 1.5 and metric["by_vocabulary"]["120"]["speedup"] == 2
    assert metric["largest_against_smallest"] == {}  # there is one of either


def test_the_largest_size_is_set_against_the_smallest() -> None:
    seconds = {size: np.tile([[one], [other]], (9, 1, 4)) for size, one, other in (
        (64, 3.0, 2.0), (256, 6.0, 2.0), (128, 9.0, 1.0))}
    metric = sizes.sizes(seconds, {60: seconds[64]}, baseline="ar").metric
    assert metric["largest_against_smallest"] == {"by_width": {
        "speedup": 2, "speedup_low": pytest.approx(2), "speedup_high": pytest.approx(2)}}


def test_the_precision_of_both_ends() -> None:
    """The base is right in front, its rival at the end; both have all words right but one. A short one is not read."""
    reference = tokens("the small lamp hangs over the old wooden table today .")
    front = [*reference[:-1], "!"]
    back = ["a", *reference[1:]]
    short = tokens("on the table .")
    metric = ends([RIVAL], dict(zip(NAMES, ([front, short], [back, ["no"]]), strict=True)),
                  [[reference, short]], samples=20).metric
    found = metric["both_ends beam4"]
    assert metric["sentences"] == {"all": 1, "first 5": 1, "last 5": 1} and set(found) == {"counterpart", *PARTS} - {
        f"{end} {limit}" for end in ("first", "last") for limit in (10, 15)}
    for part, right, difference in (("all", 10, 0), ("first 5", 4, -1), ("last 5", 5, 1)):
        words = 11 if part == "all" else 5
        assert found[part]["1-gram"]["percent"] == pytest.approx(100 * right / words)
        assert found[part]["1-gram"]["difference"] == pytest.approx(100 * difference / words)
    assert found["first 5"]["4-gram"]["difference"] == pytest.approx(-50)  # one of its two
    assert found["last 5"]["4-gram"]["percent"] == 100


def test_an_n_gram_is_right_as_often_as_some_reference_has_it() -> None:
    assert precision_counts([["0", "0", "0"]], [[["0"]], [["0", "0"]]], 1, slice(None)).tolist() == [[2, 3]]
    assert precision_counts([["a"]], [[["a", "b"]]], 4, slice(5)).tolist() == [[0, 0]]


def test_a_repetition_that_a_reference_has_is_none() -> None:
    hypothesis = tokens("set port 0 0 to to to on on")
    assert surplus_counts([hypothesis], [[tokens("set port 0 0 to on")]], 1).tolist() == [[3, 9]]  # to, to, on
    assert surplus_counts([hypothesis], [[tokens("set port 0 0 to on")]], 2).tolist() == [[1, 8]]  # to to
    assert surplus_counts([["lamp"]], [[["table"]]], 1).tolist() == [[0, 1]]  # wrong, once


def test_more_repetition_shows_as_a_difference_with_its_interval() -> None:
    plain, twice = tokens("turn the lamp on"), tokens("turn the turn the lamp on")
    found = repetition([RIVAL], dict(zip(NAMES, ([plain] * 3, [plain, twice, twice]), strict=True)),
                       [[plain] * 3], samples=200).metric["both_ends beam4"]
    assert found["1-gram"]["percent"] == found["1-gram"]["difference"] == pytest.approx(100 * 4 / 16)
    assert 0 == found["1-gram"]["difference_low"] < found["1-gram"]["difference_high"] == pytest.approx(100 / 3)
    assert found["4-gram"]["difference"] == 0
    # Four of 16 words and two of 13 bigrams are surplus, and the references have 12 words.
    assert found["otem"] == found["difference"] == pytest.approx(
        100 * math.sqrt(4 / 16 * 2 / 13) * math.exp(1 - 12 / 16))
    assert 0 == found["difference_low"] < found["otem"] < found["difference_high"]


def test_hypotheses_are_as_long_as_the_closest_reference() -> None:
    references = [[tokens("a b c d")], [tokens("a b")], [tokens("a b c d e f")]]
    assert closest_lengths([tokens("a b c")], references).tolist() == [[2]]  # the shorter of two
    assert closest_lengths([tokens("a b c d e")], references[1:]).tolist() == [[6]]
    assert otem(np.array([3.0, 9.0, 2.0, 8.0, 12.0])) == pytest.approx(100 * math.sqrt(3 / 9 * 2 / 8))  # none too long
    assert otem(np.zeros(5)) == 0


def test_families_that_differ_only_in_their_order_have_mutual_information() -> None:
    papers = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), ROOT / "presets/papers.yaml"))
    assert trained_alike(papers) == [
        Trained("interleaved_raw", "alternating_raw"), Trained("interleaved_sa_raw", "alternating_raw"),
        *(Trained(f"interleaved_{words}_raw", "alternating_raw") for words in (3, 4, 5, 6)),
        Trained("semi_autoregressive_raw", "ar_raw"),
        Trained("semi_autoregressive4_raw", "ar_raw"), Trained("semi_autoregressive_distilled", "ar_distilled")]
    assert trained_alike(load_params(ROOT / "params.yaml")) == []


def test_mutual_information_is_what_independence_costs() -> None:
    """A token that is lost per sentence of four, and a rival that loses nothing."""
    alone = np.array([[3.0, 4.0], [5.0, 4.0], [2.0, 4.0]])
    losses = {"alone": alone, "together": alone + np.array([1.0, 0.0]), "equal": alone}
    metric = mutual_information([Trained("together", "alone"), Trained("equal", "alone")], losses, samples=50).metric
    together, equal = metric["together"], metric["equal"]
    assert [together[key] for key in ("pmi", "pmi_low", "pmi_high")] == pytest.approx([0.25] * 3)
    assert [equal[key] for key in ("pmi", "pmi_low", "pmi_high")] == [0] * 3
    assert equal["perplexity"] == equal["counterpart_perplexity"] == pytest.approx(np.exp(10 / 12))


@pytest.mark.parametrize("name", ["left_to_right", "semi_autoregressive2", "interleaved", "alternating"])
def test_the_loss_of_a_sentence_is_that_of_its_words_and_one_end(tiny: Tiny, name: str) -> None:
    network = tiny(name, seed=3)
    pairs = [([7, 8, 9], [10, 11, 12]), ([9], [8, 7])]
    batches, _ = make_batches(pairs, rows=2, longest=20, device=torch.device("cpu"))
    found = sentence_losses(network, batches)
    assert found[:, 1].tolist() == [4, 3]
    for (source, target), loss in zip(pairs, found[:, 0], strict=True):
        arranged = network.order.arrange(torch.tensor([target]), torch.tensor([len(target)]))
        scores = network(pad_sources([source], 20), arranged)[0].log_softmax(1)
        expected = -sum(scores[slot, arranged[0, slot]].item() for slot in range(len(target) + 1))
        assert loss == pytest.approx(expected, abs=1e-9)


def test_a_contrast_differs_in_the_number_of_its_verb() -> None:
    made = list(contrasts())
    assert len({one.source for one in made}) == len(made)
    for one in made:
        right, wrong = one.right.split(), one.wrong.split()
        [verb] = [place for place, (word, other) in enumerate(zip(right, wrong, strict=True)) if word != other]
        assert verb == 2 + one.distance  # after an article and a noun
    for distance in {one.distance for one in made}:  # neither number is more frequent than the other
        right, wrong = (Counter(getattr(one, side).split()[2 + distance] for one in made if one.distance == distance)
                        for side in ("right", "wrong"))
        assert right == wrong


def test_the_right_verb_counts_where_it_is_more_probable(tiny: Tiny) -> None:
    def encode(lines: list[str]) -> list[list[int]]:
        return [[7 + ord(letter) % 5 for letter in line] for line in lines]

    network = tiny("interleaved", seed=5)
    run = SimpleNamespace(network=lambda _: network, device=torch.device("cpu"),
                          tokenizer=SimpleNamespace(encode_source=encode, encode_target=encode))
    pairs = [Contrast("ab", "cd", "ce", 0), Contrast("abcdef", "de", "dh", 0), Contrast("abc", "ba", "bbb", 0)]

    def log_probability(source: str, target: str) -> float:
        pieces, words = encode([source, target])
        arranged = network.order.arrange(torch.tensor([words]), torch.tensor([len(words)]))
        scores = network(pad_sources([pieces], 20), arranged)[0].detach().log_softmax(1)
        return sum(scores[slot, arranged[0, slot]].item() for slot in range(len(words) + 1))

    expected = [float(log_probability(pair.source, pair.right) > log_probability(pair.source, pair.wrong))
                for pair in pairs]
    longest_first = np.argsort([-len(pair.source) for pair in pairs])
    assert expected != [expected[row] for row in longest_first]  # the order of batches
    assert agreeing(cast(FinishedRun, run), "any", pairs).tolist() == [[one, 1] for one in expected]
    turned = [pair._replace(right=pair.wrong, wrong=pair.right) for pair in pairs]
    assert agreeing(cast(FinishedRun, run), "any", turned).tolist() == [[1 - one, 1] for one in expected]


def test_agreement_is_compared_by_distance() -> None:
    pairs = [Contrast("", "", "", distance, subject, predicate)
             for distance in (0, 5, 8) for subject in (0, 1) for predicate in (0, 1)]
    always, half = np.ones((12, 2)), np.array([[1.0, 1.0], [0.0, 1.0]] * 6)
    other = np.concatenate([half[:4], always[:4], half[:4]])
    metric = agreement({"other": "base"}, pairs, {"base": always, "other": other}, samples=200).metric
    assert metric["sentences"] == {"0": 4, "5": 4, "8": 4, "apart": 8}
    assert metric["base"]["counterpart"] == metric["other"]["counterpart"] == "base"
    assert metric["other"]["0"]["percent"] == 50 and metric["other"]["0"]["difference"] == -50
    assert metric["other"]["5"] == {"percent": 100, "difference": 0, "difference_low": 0, "difference_high": 0}
    assert metric["other"]["apart"]["percent"] == 75 and metric["other"]["apart"]["difference"] == -25


def test_resamples_draw_subjects_and_predicates_for_themselves() -> None:
    made = list(contrasts())
    times = crossed(made, 20)
    assert times.shape == (20, len(made)) and times.sum(1) == pytest.approx(len(made))
    alike = {(one.subject, one.predicate): column for one, column in zip(made, times.T, strict=True)}
    assert all((column == alike[one.subject, one.predicate]).all() for one, column in zip(made, times.T, strict=True))
    assert len(alike) == len(SUBJECTS) * len(PREDICATES)


def test_training_steps_take_turns_and_are_compared_batch_by_batch() -> None:
    done: list[tuple[str, int]] = []
    batches = [cast(Batch, SimpleNamespace(rows=[0, 1], target_lengths=torch.tensor([3, number]))) for number in (1, 2)]

    def step(name: str, seconds: float) -> Callable[[Batch], float]:
        def train(batch: Batch) -> float:
            done.append((name, int(batch.target_lengths[1]) - 1))
            return seconds
        return train

    seconds = measure({"base": step("base", 1.0), "slow": step("slow", 2.0)}, batches, warmup=1)
    assert done == [("base", 0), ("slow", 0), ("base", 0), ("slow", 0), ("slow", 1), ("base", 1)]
    metric = training_time("base", seconds, batches).metric
    assert metric["baseline_tokens_per_second"] == (4 + 2 + 5 + 2) / 2
    assert metric["slow"] == {"speedup": 0.5, "speedup_low": 0.5, "speedup_high": 0.5}


def test_a_share_of_nothing_is_none() -> None:
    empty = np.zeros((4, 2))
    assert set(share_with_difference(empty, empty, resample(4, 10)).values()) == {0.0}


def test_bins_by_length() -> None:
    lines = ["one two three four", "five six seven eight", "nine ten one two", "three four five six"]
    bins = equal_bins([9, 2, 8, 3], 2)
    assert [(one.rows, one.length) for one in bins] == [([1, 3], 2.5), ([2, 0], 8.5)]
    assert equal_bins([4], 2) == []
    seconds = {NAMES[0]: [np.full(2, 0.4), np.full(2, 0.9)], NAMES[1]: [np.full(2, 0.4), np.full(2, 0.3)]}
    texts = {NAMES[0]: lines, NAMES[1]: [*lines[:2], "wrong words stand here", lines[3]]}
    found: dict[str, Any] = source_length([RIVAL], bins, texts, [lines], seconds,
                                          tokenizer="13a").metric["both_ends beam4"]
    assert found["counterpart_bleu"] == pytest.approx([100, 100])
    assert found["bleu"][0] == pytest.approx(100) and found["bleu"][1] < 60
    assert found["speedup"] == pytest.approx([1, 3])
    assert found["longest_against_shortest"]["speedup"] == pytest.approx(3)
