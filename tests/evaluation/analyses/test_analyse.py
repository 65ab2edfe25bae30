"""The stage `analyses` on a toy run with random networks: with a lattice, without, and with parts missing."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drafters import drafter
from lattices import lattice
from masked import masked

from pipeline import layout
from pipeline.alignment.bitext import Bitext
from pipeline.alignment.build import FORMAT, piece_copies
from pipeline.alignment.counting import Aligned, count
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Pairs
from pipeline.count_model.arrays import write_arrays
from pipeline.errors import PipelineError
from pipeline.evaluation import analyses
from pipeline.evaluation.analyses import finished_run
from pipeline.evaluation.analyses.analyse import analyse, find_questions
from pipeline.evaluation.analyses.finding import not_measured
from pipeline.evaluation.analyses.interleaved import batch_and_beam, source_length
from pipeline.evaluation.analyses.lattice import recall
from pipeline.evaluation.analyses.lattice.context import open_context
from pipeline.evaluation.quality import HypothesisLine, write_hypotheses
from pipeline.evaluation.speed import Timings, speed_report
from pipeline.files import read_json, write_json, write_text
from pipeline.model.checkpoint import load_checkpoint, save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.params import AnalysesSettings, Params, load_params

LATTICE = ("breakdown", "candidates", "layers", "normaliser", "reach", "recall", "search_moves")
DRAFTING = ("draft_acceptance", "draft_breakdown", "draft_memory", "draft_sizes", "draft_speedup")
JACOBI = ("ddg", "known_length", "operations", "scaling")
DOUBLE_TOKEN, INTERLEAVED = ("ends", "sizes"), ("agreement", "batch_and_beam", "mutual_information", "repetition",
                                                "source_length", "training_time")
NAMES = (*DOUBLE_TOKEN, *DRAFTING, *INTERLEAVED, *JACOBI, *LATTICE)
TIMINGS = ("batch_and_beam", "source_length", "training_time", "breakdown", "draft_speedup", "draft_breakdown",
           "draft_acceptance", "known_length", "normaliser", "scaling")
COUNTED = [name for name in NAMES if name != "draft_memory"]
"""All but the memory that contains Python's own objects."""
NOT_COMPARED = {"agreement", "draft_sizes", "layers", "mutual_information", "sizes"}
"""What compares depths, sizes and orders that are trained alike, of which this run has one each, and what asks for
German or for double-token decoding."""
PICTURES, REPORT = layout.REPORTS / "analyses", layout.REPORTS / "analyses.json"
NETWORK: dict[str, Any] = {"vocabulary": 120, "encoder_layers": 1, "decoder_layers": 1, "max_length": 64}
Change = Callable[[dict[str, Any]], None]

FAMILIES: dict[str, Any] = {
    "analyses": {"candidates": [1, 2, 4], "decoder": "lattice4", "sentences": 4, "repetitions": 1,
                 "drafting": {"decoders": {"drafter": ["gad"], "teacher": ["iad"]}, "blocks": [2], "betas": [3],
                              "taus": [2.0], "sentences": 3, "validation_sentences": 8, "repetitions": 1},
                 "jacobi": {"sentences": 3}},
    "speed": {"warmup": 1, "long_tokens": 3, "long_sentences": 2, "repetitions": 1},
    "families": {"teacher": {"decoders": ["greedy", "beam5", "pgj3"]},
                 "drafter": {"kind": "drafter", "drafting": {"verifier": "teacher", "block": 4}, "decoders": ["gad"]},
                 "lattice": {"kind": "lattice", "decoders": ["lattice4", "counts"]},
                 "nat": {"kind": "masked", "masking": "all", "decoders": ["nat"]}},
    "decoders": {"beam5": {"algorithm": "beam", "beams": 5}, "counts": {"algorithm": "counts"},
                 "pgj3": {"algorithm": "jacobi", "block": 3},
                 "gad": {"algorithm": "gad"}, "iad": {"algorithm": "iad"},
                 "lattice4": {"algorithm": "lattice", "candidates": 4},
                 "nat": {"algorithm": "mask_predict", "iterations": 1, "candidates": 1}}}
TIMED = {"teacher": ("greedy", "beam5"), "drafter": ("gad",), "nat": ("nat",), "lattice": ("counts", "lattice4")}


@pytest.fixture
def run(workspace: Path, change_params: Change, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Params]:
    """A function that writes what the stages before this one would, for the families of `TIMED` that it is given.

    Of the sentences that analyses would time for their intervals, a few do.
    """
    monkeypatch.setattr(batch_and_beam, "SENTENCES", {1: 2, 8: 8})
    monkeypatch.setattr(source_length, "TIMED", 2)
    tokenizer = Tokenizer.load(layout.BPE)
    vocabulary = VocabularySettings(120, 120, tokenizer.digest)

    def write(*families: str) -> Params:
        change_params({**FAMILIES, "systems": ["teacher", "interleaved", *families],
                       "students": {family: "teacher" for family in families if family != "lattice"},
                       "lattices": {family: "teacher" for family in families if family == "lattice"}})
        pairs = Pairs.open(layout.BPE / "train.pairs")
        bitext = Bitext.from_pairs(pairs)
        heads = np.concatenate([np.minimum(np.arange(len(pairs.target(row))), len(pairs.source(row)) - 1)
                                for row in range(len(pairs))]).astype(np.int32)
        write_arrays(layout.ALIGNMENT / "raw.safetensors", {"heads": heads}, {
            "format": FORMAT, "digest": tokenizer.digest, "pairs": str(len(pairs)), "tension": "4.0",
            "null_probability": "0.08"})
        counts = count([Aligned(bitext, heads)], top=40, target_vocabulary=120, copies=piece_copies(tokenizer),
                       digest=tokenizer.digest, tension=4.0, null_probability=0.08)
        for name, network in {"lattice": lattice(counts=counts, **NETWORK), "nat": masked(**NETWORK)}.items():
            save_checkpoint(layout.checkpoint(name), network.float(), vocabulary, unique_weights(network), {"steps": 4})
        save_drafter(vocabulary)
        references = layout.read_corpus(layout.CORPUS / "test.target")
        lines = [HypothesisLine(index, text, 1, 1, True) for index, text in enumerate(references[::-1])]
        for name in ("teacher/beam5", "teacher/greedy", "interleaved/greedy"):
            write_hypotheses(layout.HYPOTHESES / f"{name}.jsonl", lines, range(len(lines)))
        write_measurements({family: TIMED[family] for family in ("teacher", *families)})
        return load_params()
    return write


def save_drafter(vocabulary: VocabularySettings) -> None:
    """A drafter for the teacher."""
    verifier, _ = load_checkpoint(layout.checkpoint("teacher"))
    network = drafter(verifier, block=4, tied_embeddings="all", max_length=64)
    save_checkpoint(layout.checkpoint("drafter"), network, vocabulary, unique_weights(network), {"steps": 4})


def write_measurements(timed: dict[str, tuple[str, ...]]) -> None:
    names = tuple((family, decoder) for family, decoders in timed.items() for decoder in decoders)
    seconds = np.arange(1.0, len(names) + 1)[:, None, None] * np.array([0.01, 0.03])
    words = np.ones((len(names), 2))
    timings = {size: Timings(names, seconds, words, words, seconds.shape[2]) for size in (1, 32)}
    write_json(layout.REPORTS / "speed.json", speed_report(
        timings, np.array([True, True]), np.array([False, True]), long_rule="the second", baseline="teacher",
        counterparts={}, machine={}, made={"date": "2026-01-02", "commit": "abc"}))
    for family, decoders in timed.items():
        write_json(layout.REPORTS / f"quality/{family}.json", {"decoders": {
            name: {"bleu": 10.0, **({"accepted_per_call": 1.75} if name == "gad" else {})} for name in decoders}})


def figures(names: Sequence[str] = NAMES) -> dict[str, Any]:
    found: dict[str, Any] = read_json(REPORT)
    assert list(found) == list(names)
    assert {path.name for path in PICTURES.iterdir()} == {f"{name}.png" for name in names}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in PICTURES.iterdir())
    return found


def test_every_question_is_answered(run: Callable[..., Params], monkeypatch: pytest.MonkeyPatch) -> None:
    params, loaded = run("nat", "lattice", "drafter"), list[Path]()
    monkeypatch.setattr(finished_run, "load_checkpoint", lambda folder, *rest: loaded.append(folder) or load_checkpoint(
        folder, *rest))
    analyse(params, PICTURES, REPORT)
    metrics = figures()
    assert len(loaded) == len(set(loaded)) == len(params.systems)  # the analyses share networks
    assert {name for name, metric in metrics.items() if "not_measured" in metric} == NOT_COMPARED
    # The teacher's hypotheses are the references of other sentences: as many words, and less to be recalled.
    references, teacher = metrics["recall"]["references"], metrics["recall"]["teacher"]
    assert references["words"] == teacher["words"] == Pairs.open(layout.BPE / "test.pairs").target_lengths.sum()
    assert references["position_aware"]["recall"]["4"] > teacher["position_aware"]["recall"]["4"]
    assert set(references) >= {"position_aware", "shared", "nat"}
    assert metrics["candidates"]["lattice"]["lattice4"]["milliseconds"] == pytest.approx(150)
    assert metrics["candidates"]["lattice"]["counts"]["speedup_vs_beam5"] == pytest.approx(2 / 4)
    assert metrics["search_moves"]["candidates"] == 4 and metrics["search_moves"]["sentences"] == 24
    assert sum(metrics["search_moves"]["share_by_rank"].values()) == pytest.approx(1)
    of_softmax = metrics["normaliser"]
    assert (of_softmax["sentences"], of_softmax["timed_sentences"]) == (24, 4) and 0 <= of_softmax["same_output"] <= 1
    assert of_softmax["normaliser"]["bleu"] - of_softmax["softmax"]["bleu"] == pytest.approx(of_softmax["difference"])
    reach = metrics["reach"]
    assert reach["recall"] == sorted(reach["recall"]) and reach["recall"][0] < 1 and reach["own_share"] == 0
    assert {window: len(found) for window, found in reach["bleu"].items()} == {"fixed": 4, "a_fifth": 4}
    assert sum(one["test_sentences"] for one in metrics["breakdown"]["bins"].values()) == 24
    assert_drafting(metrics)
    assert_orders(metrics)
    assert metrics["ddg"]["sentences"] == 3 and metrics["ddg"]["overall"]["tokens"] > 0
    operations = metrics["operations"]["teacher"]["decoders"]
    assert operations["greedy"]["ratio_to_greedy"] == 1 and operations["beam5"]["ratio_to_greedy"] > 1
    assert set(metrics["scaling"]["decoders"]) == {"greedy", "pgj3"}
    assert set(metrics["known_length"]["decoders"]["pgj3"]) == {"expected", "known"}

    # Again: what is not timed is the same.
    pictures = {name: (PICTURES / f"{name}.png").read_bytes() for name in NAMES}
    analyse(params, PICTURES, REPORT)
    again = figures()
    assert {name for name in COUNTED if again[name] != metrics[name]} == set(TIMINGS)
    assert {name for name in COUNTED if (PICTURES / f"{name}.png").read_bytes() != pictures[name]} == set(TIMINGS)


def assert_orders(metrics: dict[str, Any]) -> None:
    """Both systems have the same texts."""
    for name, kind in (("ends", "all"), ("repetition", None)):
        found = metrics[name]["interleaved greedy"]
        shares = found[kind]["1-gram"] if kind else found["1-gram"]
        assert found["counterpart"] == "teacher greedy" and 0 <= shares["percent"] <= 100
        assert shares["difference"] == shares["difference_low"] == shares["difference_high"] == 0
    assert set(metrics["batch_and_beam"]["interleaved"]) == {"greedy", "beam4", "beam8"}
    by_length = metrics["source_length"]
    assert sum(by_length["sentences"]) == 24 and by_length["source_pieces"] == sorted(by_length["source_pieces"])
    assert by_length["interleaved greedy"]["bleu"] == by_length["interleaved greedy"]["counterpart_bleu"]


def assert_drafting(metrics: dict[str, Any]) -> None:
    assert set(metrics["draft_speedup"]["drafter"]) == {"gad"} and set(metrics["draft_speedup"]["teacher"]) == {"iad"}
    assert set(metrics["draft_breakdown"]["drafter"]) == {"gad"} and "teacher" not in metrics["draft_breakdown"]
    assert set(metrics["draft_memory"]["teacher"]) == {"beam5", "greedy", "iad"}
    peaks = metrics["draft_memory"]["teacher"]
    assert peaks["beam5"]["search_peak_bytes"] > peaks["greedy"]["search_peak_bytes"]
    assert metrics["draft_memory"]["drafter"]["gad"]["weight_bytes"] > peaks["greedy"]["weight_bytes"]
    exact, relaxed = metrics["draft_acceptance"]["exact"], metrics["draft_acceptance"]["relaxed"]
    assert set(exact) == {"block2", "block4"} and set(relaxed) == {"beta3_tau2"}
    assert exact["block2"]["bleu"] == exact["block4"]["bleu"]
    assert metrics["draft_acceptance"]["sentences"] == 8 and metrics["draft_acceptance"]["timed_sentences"] == 3


def test_without_a_drafter_and_a_lattice_the_files_say_so(run: Callable[..., Params]) -> None:
    params = run("nat")
    settings = dataclasses.replace(params.analyses.drafting, decoders={"drafter": ("gad",)})
    analyse(dataclasses.replace(params, analyses=dataclasses.replace(params.analyses, drafting=settings)), PICTURES,
            REPORT)
    assert all("not_measured" in figures()[name] for name in DRAFTING)
    assert all("among the systems" in figures()[name]["not_measured"] for name in LATTICE)


def of_lattices(params: Params) -> Params:
    """The parameters with the analyses of the lattice paper alone."""
    return dataclasses.replace(params, analyses=dataclasses.replace(params.analyses, papers=("lattice",)))


def test_without_papers_nothing_is_analysed(run: Callable[..., Params]) -> None:
    params = run()
    analyse(dataclasses.replace(params, analyses=dataclasses.replace(params.analyses, papers=())), PICTURES, REPORT)
    assert figures(()) == {}


def test_without_a_nat_its_recall_is_missing(run: Callable[..., Params]) -> None:
    analyse(of_lattices(run("lattice")), PICTURES, REPORT)
    assert "nat" not in figures(LATTICE)["recall"]["references"]


def test_without_translations_of_the_teacher_recall_is_of_the_references(run: Callable[..., Params]) -> None:
    params = run("lattice")
    teacher = dataclasses.replace(params.families["teacher"], decoders=("greedy",))
    params = dataclasses.replace(params, families=params.families | {"teacher": teacher})
    context = open_context(finished_run.FinishedRun.open(params))
    (layout.HYPOTHESES / "teacher/beam5.jsonl").unlink()
    assert set(recall.ask(context).metric) == {"references"}


@pytest.mark.parametrize(("changes", "message"), [
    ({"lattice": "nat"}, "analyses: family 'nat' is of kind masked, not lattice"),
    ({"nat": "interleaved"}, "analyses: family 'interleaved' is of kind ordered, not masked"),
    ({"decoder": "nat"}, r"analyses\.decoder: 'nat' is not a search in a lattice"),
    ({"decoder": "nosuch"}, r"analyses\.decoder: decoder 'nosuch' is unknown"),
])
def test_settings_that_do_not_fit(run: Callable[..., Params], changes: dict[str, str], message: str) -> None:
    params = run("nat", "lattice")
    write_text(PICTURES / "recall.png", "before")
    write_text(REPORT, "before")
    with pytest.raises(PipelineError, match=message) as refused:
        analyse(dataclasses.replace(params, analyses=dataclasses.replace(params.analyses, **changes)), PICTURES, REPORT)
    assert "\n" not in str(refused.value)
    assert REPORT.read_text() == (PICTURES / "recall.png").read_text() == "before"  # a failed run leaves what there was


@pytest.mark.parametrize(("path", "message"), [
    (layout.ALIGNMENT / "raw.safetensors", r"raw\.safetensors: not found"),
    (layout.checkpoint("lattice") / "config.json", r"config\.json: not found"),
    (layout.HYPOTHESES / "teacher/beam5.jsonl", r"beam5\.jsonl: not found"),
    (layout.REPORTS / "speed.json", r"speed\.json: not found"),
])
def test_absent_files_are_named(run: Callable[..., Params], path: Path, message: str) -> None:
    params = run("nat", "lattice")
    path.unlink()
    with pytest.raises(PipelineError, match=message):
        analyse(of_lattices(params), PICTURES, REPORT)


def test_hypotheses_of_another_test_set_are_refused(run: Callable[..., Params]) -> None:
    params = run("nat", "lattice")
    path = layout.HYPOTHESES / "teacher/beam5.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(PipelineError, match=r"beam5\.jsonl: 23 hypotheses for 24 references"):
        analyse(of_lattices(params), PICTURES, REPORT)


@pytest.mark.parametrize(("block", "message"), [
    ({"sentences": 0}, "sentences: 0 must be at least 1"),
    ({"bin_words": -1}, "bin_words: -1 must be at least 1"),
    ({"candidates": ()}, r"candidates: \(\) must have at least one entry"),
    ({"candidates": (4, 0)}, r"candidates\[1\]: 0 must be at least 1"),
    ({"papers": ("lattice", "lettuce")}, "papers: 'lettuce' is unknown; choose from double_token, drafting, int"),
])
def test_impossible_settings(block: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        AnalysesSettings(**block)


def test_a_file_is_all_that_a_new_analysis_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(name: str, text: str) -> None:
        write_text(tmp_path / "invented_paper" / f"{name}.py", text)

    write("__init__", "")
    write("context", "def open_context(run):\n    return [run]\n")
    write("helper", "def asked():\n    pass\n")
    write("invented", "from pipeline.evaluation.analyses.finding import not_measured\n\n\n"
                      "def ask(context):\n    return not_measured(f'{context}')\n")
    monkeypatch.setattr(analyses, "__path__", [str(tmp_path)])
    questions = find_questions("run", ["invented_paper"])  # type: ignore[arg-type]
    assert {name: ask().metric for name, ask in questions.items()} == {"invented": not_measured("['run']").metric}
