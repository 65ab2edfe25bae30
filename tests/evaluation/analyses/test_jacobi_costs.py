"""Operations against training, and speed against threads: on sums by hand, and on a clock that models move."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operations import counted
from sentences import sources

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch
from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.jacobi import known_length, training
from pipeline.evaluation.analyses.jacobi import operations as operations_file
from pipeline.evaluation.analyses.jacobi import scaling as scaling_file
from pipeline.evaluation.analyses.jacobi.flops import Costs
from pipeline.evaluation.analyses.jacobi.known_length import with_known_length
from pipeline.evaluation.analyses.jacobi.operations import Training, add_starts, lineage, operations, speeds
from pipeline.evaluation.analyses.jacobi.scaling import scaling, thread_counts
from pipeline.evaluation.analyses.jacobi.training import (
    counted_step,
    make_module,
    step_operations,
    training_operations,
)
from pipeline.evaluation.analyses.measured import Measured, Measurements
from pipeline.evaluation.speed import Contestant
from pipeline.families.masked import MaskedModule
from pipeline.families.ordered import OrderedModule
from pipeline.families.settings import FamilySettings, OptimisationSettings, TrainingSettings, kind_settings
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.params import load_params
from pipeline.vocabulary import PAD

Change = Callable[[dict[str, Any]], None]
NETWORK = NetworkSettings(width=16, heads=2, feed_forward=32, encoder_layers=2, decoder_layers=1, max_length=16)


def family(kind: str = "ordered", **changes: Any) -> FamilySettings:
    return kind_settings(kind)(**{"network": NETWORK, "training": TrainingSettings(),
                                  "optimisation": OptimisationSettings(), **changes})


def batch(*lengths: int) -> Batch:
    target = torch.full((len(lengths), max(lengths)), 8)
    counts = torch.tensor(lengths)
    target = target.masked_fill(torch.arange(max(lengths)) >= counts.unsqueeze(1), PAD)
    return Batch(torch.arange(len(lengths)), sources(*[1 + length for length in lengths]), target, counts, 1.0)


def loss_operations(module: Any, given: Batch) -> int:
    """What torch counts of a training step."""
    def learn(network: Any) -> None:
        module.network = network
        module.loss(given, 0.1)[0].backward()

    return counted(module.network, learn)


@pytest.mark.parametrize("order", ["left_to_right", "interleaved"])
def test_a_training_step_of_an_ordered_family(order: str) -> None:
    settings = family(order=OrderSettings(order))
    module = OrderedModule(NETWORK, OrderSettings(order), OptimisationSettings(), VocabularySettings(20, 20, "toy"))
    assert loss_operations(module, batch(5, 3, 4)) == step_operations(settings, 20, 6, np.array([5, 3, 4]))


def test_a_training_step_of_a_family_that_hides_all_words() -> None:
    settings = family(kind="masked", masking="all")
    module = MaskedModule(NETWORK, OptimisationSettings(), VocabularySettings(20, 20, "toy"), "all")
    assert loss_operations(module, batch(5, 3, 4)) == step_operations(settings, 20, 6, np.array([5, 3, 4]))


def test_hidden_words_are_half_of_them_and_one_half() -> None:
    words = np.array([5, 3, 4])
    all_words, some = (step_operations(family(kind="masked", masking=masking), 20, 6, words)
                       for masking in ("all", "uniform"))
    assert all_words - some == 3 * Costs(NETWORK, 20).projection(1) * (12 - 7.5)


def test_a_lattice_predicts_words_and_ends_with_a_normaliser() -> None:
    words, costs = np.array([5, 3]), Costs(NETWORK, 20)
    forward = costs.encoder(2, 6) + costs.source(2, 6) + costs.decoder(2, 6, 0, 6)
    assert step_operations(family(kind="lattice"), 20, 6, words) == 3 * (forward + costs.projection(10) + 10 * 2 * 16)


def test_every_step_of_a_run_counts(workspace: object) -> None:
    def steps(count: int) -> int:
        return training_operations(load_params(), "teacher", Tokenizer.load(layout.BPE), count)

    assert 1.2 * steps(1) < steps(2) < 10 * steps(1)


@pytest.mark.parametrize(("kind", "more"), [("drafter", {}), ("drafter", {"glancing": [0.5, 0.3]}), ("heads", {})])
def test_what_has_no_formula_is_counted_step_by_step(workspace: object, change_params: Change, kind: str,
                                                     more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    change_params({"families": {"helper": {"kind": kind, "drafting": {"verifier": "teacher", "block": 3, **more}}},
                   "students": {"helper": "teacher"}, "systems": ["teacher", "interleaved", "helper"]})
    params, tokenizer = load_params(), Tokenizer.load(layout.BPE)
    counted = []
    monkeypatch.setattr(training, "counted_step", lambda module, batch: counted.append(batch) or counted_step(
        module, batch))
    found = training_operations(params, "helper", tokenizer, 3)
    assert len(counted) == 3 and counted_step(make_module(params, "helper", tokenizer), counted[0]) > 0
    least = params.family("helper").network.width * sum(int(batch.target_lengths.sum()) for batch in counted)
    assert found > 2 * tokenizer.target_size * least  # the verifier predicts something for every word


def test_a_count_is_the_formula_where_there_is_one(workspace: object) -> None:
    params, tokenizer = load_params(), Tokenizer.load(layout.BPE)
    given = batch(5, 3, 4)
    settings = params.family("interleaved")
    assert counted_step(make_module(params, "interleaved", tokenizer), given) == step_operations(
        settings, tokenizer.target_size, 6, np.array([5, 3, 4]))


def test_what_the_baseline_has_learned_is_not_added_again(workspace: object, change_params: Change) -> None:
    order = {"order": {"name": "left_to_right"}}
    change_params({"families": {"ar": order, "far": order, "near": order}, "baseline": "ar",
                   "students": {"interleaved": "ar", "ar": "teacher", "near": "interleaved", "far": "teacher"},
                   "systems": ["teacher", "ar", "near", "far"]})  # a start need not be a system
    own = {"teacher": 1000, "ar": 100, "interleaved": 10, "near": 1, "far": 7}
    assert add_starts(own, load_params()) == {
        "teacher": Training(1000, 0), "ar": Training(100, 0), "near": Training(1, 11), "far": Training(7, 7)}
    assert lineage(load_params(), "near") == ["near", "interleaved", "ar", "teacher"]


def test_the_table_by_hand() -> None:
    means = {("ar", "greedy"): 10.0, ("ar", "pj"): 15.0, ("nat", "nat"): 5.0, ("drafter", "gad"): 20.0}
    trainings = {"ar": Training(700, 0), "nat": Training(300, 400), "drafter": Training(50, 50)}
    finding = operations(means, trainings, {("ar", "pj"): 1.5, ("nat", "nat"): 4.0}, baseline="ar", sentences=2,
                         test_sentences=20)
    assert finding.metric["ar"]["decoders"]["pj"] == {
        "operations": 15, "ratio_to_greedy": 1.5, "speedup_vs_greedy": 1.5, "total_operations": 300,
        "total_over_speed": 200}
    nat, gad = finding.metric["nat"]["decoders"]["nat"], finding.metric["drafter"]["decoders"]["gad"]
    assert (nat["total_operations"], nat["total_over_speed"], nat["ratio_to_greedy"]) == (500, 125, 0.5)
    assert gad["total_operations"] == 450 and gad["speedup_vs_greedy"] is gad["total_over_speed"] is None
    assert finding.metric["ar"]["decoders"]["greedy"]["total_over_speed"] is None  # not timed


def test_speeds_are_against_greedy_search() -> None:
    found = {("ar", name): Measured(30, time, 1, (1, 1)) for name, time in (("greedy", 6.0), ("pj", 4.0))}
    assert speeds(Measurements("all", found), "ar") == {("ar", "greedy"): 1, ("ar", "pj"): 1.5}
    assert speeds(Measurements("all", found), "teacher") == {}


@pytest.fixture
def run(workspace: object, change_params: Change) -> FinishedRun:
    change_params({"decoders": {"pj": {"algorithm": "jacobi"}}, "families": {"teacher": {"decoders": ["greedy", "pj"]}},
                   "speed": {"sentences": 3, "long_sentences": 2, "long_tokens": 12, "repetitions": 1, "warmup": 1}})
    return FinishedRun(load_params(), Tokenizer.load(layout.BPE), torch.device("cpu"), Measurements("all", {}))


def test_operations_of_a_run(run: FinishedRun) -> None:
    finding = operations_file.ask(run)
    found = finding.metric["teacher"]
    assert finding.metric["test_sentences"] == 24 and finding.metric["sentences"] == 3
    assert found["decoders"]["greedy"]["ratio_to_greedy"] == 1 and found["decoders"]["pj"]["ratio_to_greedy"] > 1
    assert found["added_training_operations"] == 0 < found["training_operations"]
    added = finding.metric["interleaved"]["added_training_operations"]
    assert added == finding.metric["interleaved"]["training_operations"] > 0


def test_8_bits_need_as_many_operations(run: FinishedRun) -> None:
    """They are counted, and only their outputs' lengths make a difference to those of float32."""
    teacher = run.params.family("teacher")
    rounded = {"pj_int8": {**run.params.decoders["pj"], "quantization": "int8"}}
    params = replace(run.params, systems=("teacher",), decoders=run.params.decoders | rounded,
                     families=run.params.families | {"teacher": replace(teacher, decoders=("greedy", "pj", "pj_int8"))})
    found = operations_file.ask(replace(run, params=params)).metric["teacher"]["decoders"]
    assert 0.5 < found["pj_int8"]["ratio_to_greedy"] / found["pj"]["ratio_to_greedy"] < 2


def test_scaling_of_a_run(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling_file, "usable_cores", lambda: 2)
    metric = scaling_file.ask(run).metric
    assert (metric["baseline"], metric["threads"], metric["sentences"]) == ("teacher greedy", [1, 2], 2)
    assert list(metric["decoders"]) == ["greedy", "pj"]
    assert all(one["compiled_share"] == {"1": 1, "2": 1} for one in metric["decoders"].values())  # of short sentences
    assert not metric["shares_products"]
    assert torch.get_num_threads() == 1


def test_without_jacobi_or_long_sentences_they_say_so(run: FinishedRun) -> None:
    params = replace(run.params, speed=replace(run.params.speed, long_tokens=1000))
    for ask in (scaling_file.ask, known_length.ask):
        assert "1000 pieces" in ask(replace(run, params=params)).metric["not_measured"]
        other = replace(run, params=replace(run.params, baseline="interleaved"))
        assert "algorithm jacobi" in ask(other).metric["not_measured"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 5), st.integers(0, 12), st.booleans())
def test_a_known_length_changes_nothing_but_what_is_drafted_after_it(tiny: Callable[..., Transformer],
                                                                     lengths: list[int], seed: int, block: int,
                                                                     hybrid: bool) -> None:
    network, limit = tiny(seed=seed), LengthLimit(ratio=1.5, extra=4, longest=47)
    sentences = [sources(length) for length in lengths]
    expected = [greedy.search(network, sentence, limit) for sentence in sentences]
    words = [int(one.lengths[0, 0]) for one in expected]
    entry = {"algorithm": "jacobi", "block": block, "hybrid": hybrid}
    search = with_known_length("any", entry, limit, sentences, words)
    for sentence, one, length in zip(sentences, expected, words, strict=True):
        found = search(network, sentence)
        assert torch.equal(found.tokens, one.tokens) and found.calls <= one.calls
        assert found.verification is not None
        settled = 0
        for step in found.verification.rounds:
            assert settled + step.draft.shape[1] <= max(length, 1)  # the end symbol is what the verifier says after it
            settled += int(step.accepted)


def test_known_lengths_of_a_run(run: FinishedRun) -> None:
    metric = known_length.ask(run).metric
    assert (metric["baseline"], metric["sentences"]) == ("teacher greedy", 2)
    assert all(metric["decoders"]["pj"][length]["milliseconds"] > 0 for length in ("expected", "known"))


class Paced:
    """A decoder that takes some seconds, less with more threads."""

    now = 0.0

    def __init__(self, serial: float, parallel: float) -> None:
        self.serial, self.parallel = serial, parallel

    def __call__(self, source: torch.Tensor) -> Hypotheses:
        Paced.now += self.serial + self.parallel / torch.get_num_threads()
        one = torch.ones(1, 1)
        return Hypotheses(torch.ones(1, 1, 1), one, one, one.bool(), one[0])


def test_every_number_of_threads_takes_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = scaling_file.measure
    monkeypatch.setattr(scaling_file, "measure", lambda *arguments, **options: inner(
        *arguments, **options, clock=lambda: Paced.now))
    contestants = [Contestant("ar", "greedy", Paced(3, 0)), Contestant("ar", "pj", Paced(1, 4))]
    finding = scaling(contestants, sources(3, 4).split(1), {
        "greedy": dict.fromkeys((1, 2, 4), 1.0), "pj": {1: 0.4, 2: 0.2, 4: 0.2}}, threads=[1, 2, 4],
                      repetitions=1, warmup=1, rule="any", shares_products=False)
    found = finding.metric["decoders"]
    assert finding.metric["threads"] == [1, 2, 4]
    assert found["pj"]["compiled_share"] == {"1": 0.4, "2": 0.2, "4": 0.2}
    speed = [one["speedup_vs_greedy"] for one in found["pj"]["by_threads"].values()]
    gain = [one["against_fewest_threads"] for one in found["pj"]["by_threads"].values()]
    assert speed == pytest.approx([3 / 5, 1, 3 / 2]) and gain == pytest.approx([1, 5 / 3, 5 / 2])
    assert [one["against_fewest_threads"] for one in found["greedy"]["by_threads"].values()] == pytest.approx([1, 1, 1])
    assert found["pj"]["by_threads"]["2"]["milliseconds"] == pytest.approx(3000)
    assert torch.get_num_threads() == 1


def test_threads_are_set_back_after_an_error() -> None:
    def fail(source: torch.Tensor) -> Hypotheses:
        raise PipelineError(f"{torch.get_num_threads()} threads")

    with pytest.raises(PipelineError, match="2 threads"):
        scaling([Contestant("ar", "greedy", fail)], [sources(3)], {"greedy": {2: 1.0}}, threads=[2],
                repetitions=1, warmup=1, rule="any", shares_products=True)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("cores", range(1, 20))
def test_thread_counts_rise_to_all_cores(cores: int) -> None:
    counts = thread_counts(cores)
    assert counts[0] == 1 and counts[-1] == cores and counts == sorted(set(counts))
    assert all(power & (power - 1) == 0 for power in counts[:-1])
