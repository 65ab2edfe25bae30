"""Other libraries in processes of their own give the text of our greedy search, and their faults are errors of ours."""

import copy
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from exports import LONGEST, enliven, sources

from pipeline import layout
from pipeline.cli import main
from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.evaluation.peers import PeerContestant, rows_of, timed_peers
from pipeline.evaluation.quality import read_hypotheses
from pipeline.interop.peers.process import Answer, Peer, Setup, export, fastest, folder_of, setups
from pipeline.model.transformer import Transformer
from pipeline.peer_settings import PeerSettings
from pipeline.vocabulary import EOS, PAD, SPECIALS

needs_ctranslate2 = pytest.mark.skipif(not importlib.util.find_spec("ctranslate2"), reason="ctranslate2 is missing")
Tiny = Callable[..., Transformer]

VOCABULARY = 20
PIECES = [*SPECIALS, *(f"p{number}" for number in range(len(SPECIALS), VOCABULARY))]
PEERS = {"hf_greedy": PeerSettings("hf"), "hf_lookup": PeerSettings("hf", prompt_lookup=2),
         "ct2_greedy": PeerSettings("ctranslate2"), "ct2_beam": PeerSettings("ctranslate2", beams=3)}
LIMIT = LengthLimit(ratio=0, extra=12, longest=LONGEST - 1)


@pytest.fixture(scope="module")
def network(tiny: Tiny) -> Transformer:
    return enliven(tiny(dtype=torch.float32, vocabulary=VOCABULARY, max_length=LONGEST))


@pytest.fixture(scope="module")
def folders(network: Transformer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("peers")
    export(PEERS, network, PIECES, PIECES, folder)
    return {name: folder_of(peer, folder) for name, peer in PEERS.items()}


@needs_ctranslate2
@pytest.mark.parametrize("name", ["hf_greedy", "hf_lookup", "ct2_greedy"])
def test_greedy_search_of_a_peer_is_ours(network: Transformer, folders: dict[str, Path], name: str) -> None:
    batch = sources(VOCABULARY)
    batch = batch[(batch != EOS).sum(1) > 1]
    batch = batch[[row for row in range(len(batch)) if batch[row, 0] != EOS]]  # CTranslate2 reads no empty source
    found = greedy.search(network, batch, LIMIT)
    expected = [row[:length] for row, length in zip(found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(),
                                                    strict=True)]
    with Peer(name, folders[name], PEERS[name], Setup(1)) as peer:
        together = peer.translate(rows_of(batch), 12)
        alone = [peer.translate([row], 12) for row in rows_of(batch)]
        run = PeerContestant(peer, peer, LIMIT).run(batch, lambda: 0.0)
    assert 0 < found.ended.sum() < len(batch)  # some are cut at the limit, and some are not
    assert together.words == expected == [one.words[0] for one in alone]
    assert together.seconds > 0 and run.seconds > 0 and run.tokens == sum(map(len, expected)) and run.calls != run.calls


@pytest.mark.parametrize("lookup", [0, 5])
def test_translations_as_long_as_there_are_places(network: Transformer, tmp_path: Path, lookup: int) -> None:
    endless = copy.deepcopy(network)
    endless.projection.weight.data[endless.order.end] = 0  # so it repeats itself, and its text is looked up
    endless.projection.weight.data[7] *= 9
    settings = PeerSettings("hf", prompt_lookup=lookup)
    export({"theirs": settings}, endless, PIECES, PIECES, tmp_path)
    with Peer("theirs", folder_of(settings, tmp_path), settings, Setup(1)) as peer:
        found = peer.translate([[9, 8, EOS]], LONGEST - 1).words[0]
    assert len(found) == LONGEST - lookup


def test_ids_of_another_numbering_are_translated_on_the_way() -> None:
    ids = torch.arange(VOCABULARY).flip(0)
    assert rows_of(torch.tensor([[5, 6, EOS, 0, 0], [7, 8, 9, 5, EOS]]), ids) == [
        [14, 13, VOCABULARY - 1 - EOS], [12, 11, 10, 14, VOCABULARY - 1 - EOS]]


@needs_ctranslate2
def test_each_peer_runs_in_the_quickest_of_its_ways(folders: dict[str, Path]) -> None:
    sentences = [row[row != PAD].unsqueeze(0) for row in sources(VOCABULARY)[:3]]
    named, threads = {"ct2_beam": PEERS["ct2_beam"]}, torch.get_num_threads()
    with timed_peers(named, lambda peer: folders["ct2_beam"], LIMIT, {1: sentences, 32: sentences}, 0,
                     torch.device("cpu")) as (only,):
        assert (only.family, only.decoder) == ("peer", "ct2_beam")
        assert only.single.setup in setups("ctranslate2", threads, 1) and only.single.setup.parts == 1
        assert only.batched.setup in setups("ctranslate2", threads, 3)
        assert all(only.run(batch, lambda: 0.0).seconds > 0 for batch in (sentences[0], sources(VOCABULARY)[:3]))


@pytest.mark.parametrize(("device", "single", "batched"), [
    ("cpu", Setup(4, {"CT2_USE_MKL": "0"}), Setup(1, {"CT2_USE_MKL": "1"}, parts=3)), ("cuda", Setup(1), Setup(1))])
def test_a_way_for_sentences_and_one_for_batches_are_chosen_from_all(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, single: Setup, batched: Setup) -> None:
    started = []

    class Scripted:
        def __init__(self, name: str, folder: Path, settings: PeerSettings, setup: Setup, *_: Any) -> None:
            self.name, self.settings, self.setup, self.closed = name, settings, setup, False
            started.append(self)

        def __enter__(self) -> "Scripted":
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            self.closed = True

        def translate(self, source: list[list[int]], words: int) -> Answer:
            return Answer(1.0 if self.setup == (single if len(source) == 1 else batched) else 2.0, [])

    monkeypatch.setattr("pipeline.evaluation.peers.Peer", Scripted)
    monkeypatch.setattr("pipeline.interop.peers.process.PAUSE", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    sentences = [row[row != PAD].unsqueeze(0) for row in sources(VOCABULARY)[:3]]
    with timed_peers({"ct2_greedy": PEERS["ct2_greedy"]}, lambda _: tmp_path, LIMIT, {1: sentences, 32: sentences}, 0,
                     torch.device(device)) as (only,):
        assert (only.single.setup, only.batched.setup) == (single, batched)
        assert [one.setup for one in started if not one.closed] == [single, *([batched] if batched != single else [])]
    assert len(started) == (9 if device == "cpu" else 1) and all(one.closed for one in started)


def test_a_batch_and_a_sentence_may_want_different_ways() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def translate(self, source: Any, words: int) -> Answer:
            return Answer({"single": 1.0, "batched": 2.0}[self.name], [[5]] * len(source))

    contestant = PeerContestant(Named("single"), Named("batched"), LIMIT)  # type: ignore[arg-type]
    batch = sources(VOCABULARY)[:2]
    assert (contestant.run(batch[:1], lambda: 0.0).seconds, contestant.run(batch, lambda: 0.0).seconds) == (1.0, 2.0)


@needs_ctranslate2
def test_parts_of_a_batch_are_the_batch(folders: dict[str, Path]) -> None:
    batch = [[word, 8, EOS] for word in (5, 6, 7, 9, 10)]
    with Peer("ct2_beam", folders["ct2_beam"], PEERS["ct2_beam"], Setup(1)) as whole, Peer(
            "ct2_beam", folders["ct2_beam"], PEERS["ct2_beam"], Setup(1, parts=2)) as parted:
        assert parted.translate(batch, 12).words == whole.translate(batch, 12).words


def test_the_quickest_way_is_the_one_with_the_lowest_median() -> None:
    seconds = {1: [9.0, 2.0, 2.0, 50.0], 2: [9.0, 3.0, 3.0, 3.0], 4: [9.0, 4.0, 1.0, 4.0]}  # the first warms up

    class Scripted:
        def __init__(self, threads: int) -> None:
            self.left = list(seconds[threads])

        def translate(self, source: Any, words: int) -> Answer:
            return Answer(self.left.pop(0), [])

    peers: list[Any] = [Scripted(threads) for threads in (4, 1, 2)]
    assert fastest(peers, [[[5, EOS]]], 3) is peers[1]


def test_ways_of_a_library() -> None:
    assert setups("hf", 1, 1) == [Setup(1)]
    assert [way.threads for way in setups("hf", 8, 32)] == [1, 8]
    assert {(way.threads, way.parts) for way in setups("ctranslate2", 2, 1)} == {(1, 1), (2, 1)}
    assert {(way.threads, way.parts, way.environment.get("CT2_USE_MKL")) for way in setups("ctranslate2", 8, 3)} == {
        (*share, choice) for share in ((1, 1), (8, 1), (1, 3)) for choice in (None, "0", "1")}
    assert len(setups("ctranslate2", 2, 32)) == 9


@pytest.mark.parametrize("environment", [{}, {"CT2_USE_MKL": "0"}, {"CT2_USE_MKL": "1"}])
def test_a_process_gets_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    monkeypatch.delenv("CT2_USE_MKL", raising=False)
    monkeypatch.setenv("OTHER", "kept")
    with patch("subprocess.Popen") as process:
        Peer("ct2_greedy", tmp_path, PEERS["ct2_greedy"], Setup(3, environment, parts=2)).close()
    (command,), named = process.call_args
    assert command[-3:] == ["3", "2", "cpu"] and named["env"]["OTHER"] == "kept"
    assert named["env"].get("CT2_USE_MKL") == environment.get("CT2_USE_MKL")


def test_what_a_process_dies_of_is_said(tmp_path: Path) -> None:
    peer = Peer("hf_greedy", tmp_path, PeerSettings("hf"), Setup(1))
    with pytest.raises(PipelineError, match=r"peers\.hf_greedy: its process ended: .+ take peers\.hf_greedy out"):
        peer.translate([[5, EOS]], 3)
    peer.close()


def test_only_left_to_right_models_have_peers(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="interleaved"):
        export(PEERS, tiny("interleaved", dtype=torch.float32), PIECES, PIECES, tmp_path)


@pytest.mark.parametrize(("block", "message"), [
    ({"library": "fairseq"}, "library is 'fairseq'; choose one of hf, ctranslate2"),
    ({"library": "hf", "beams": 0}, "beams: 0 must be at least 1"),
    ({"library": "hf", "quantization": "int8"}, "is of the library ctranslate2"),
    ({"library": "ctranslate2", "quantization": "int4"}, "quantization is 'int4'; choose one of float32, int8"),
    ({"library": "ctranslate2", "prompt_lookup": 3}, "of the library hf"),
    ({"library": "hf", "beams": 2, "prompt_lookup": 3}, "leave it or beams out"),
])
def test_impossible_settings(block: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        PeerSettings(**block)


@needs_ctranslate2
def test_peers_are_scored_like_a_family(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({
        "peers": {"ct2": {"library": "ctranslate2"}}, "decoders": {"beam5": {"algorithm": "beam", "beams": 5}},
        "default_decoders": ["greedy", "beam5"],
        "speed": {"sentences": 2, "long_sentences": 2, "repetitions": 1, "long_tokens": 3}})
    for command in ("test --family teacher", "test --family interleaved", "peers", "speed"):
        assert main(command.split()) == 0
    report = json.loads((layout.REPORTS / "quality/peer.json").read_text())
    lines = [[line.hypothesis for line in read_hypotheses(layout.HYPOTHESES / name, 24)]
             for name in ("peer/ct2.jsonl", "teacher/greedy.jsonl")]
    assert lines[0] == lines[1]
    assert (report["verifier"], report["data"], set(report["decoders"])) == ("teacher", "raw", {"ct2"})
    assert report["sources_cut"] == 0
    ours = json.loads((layout.REPORTS / "quality/teacher.json").read_text())["decoders"]["greedy"]
    assert report["decoders"]["ct2"]["bleu"] == pytest.approx(ours["bleu"])
    speed = json.loads((layout.REPORTS / "speed.json").read_text())
    entry = speed["contestants"][-1]
    assert (entry["family"], entry["decoder"], entry["counterpart"]) == ("peer", "ct2", "greedy")
    assert entry["calls"] is None and entry["tokens_per_second_batch32"] > 0
    ways = speed["machine"]["peers"]["ct2"]
    assert ways["single"]["threads"] == ways["batched"]["threads"] == 1


def test_a_family_of_that_name_is_refused(change_params: Callable[[dict[str, Any]], None],
                                          capsys: pytest.CaptureFixture[str]) -> None:
    change_params({"peers": {"greedy": {"library": "hf"}}})
    assert main(["peers"]) == 2
    assert "peers.greedy: is also the name of a decoder" in capsys.readouterr().err
