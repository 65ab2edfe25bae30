"""`serve`: every request gets its own translation or a 4xx in JSON, whatever the others do; and the page shows it."""

import errno
import gc
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Barrier, Event, Thread
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("prometheus_client", reason="the extra `serve` is not installed")

from browser import browse

import pipeline
from pipeline.blocks import merge
from pipeline.cli import main
from pipeline.commands.serve import listen
from pipeline.errors import PipelineError
from pipeline.params import load_params, parse_params
from pipeline.service import batching
from pipeline.service.app import make_server
from pipeline.service.limits import Limits
from pipeline.service.models import Explanation, Model, ServedModel
from pipeline.service.requests import RequestError, TranslationRequest, parse
from pipeline.strict_yaml import read_yaml
from pipeline.text_model import is_trained, open_family
from pipeline.trace import Fate, Marked, MarkedRound, Trace
from pipeline.translation import Translation

LIMITS = Limits(max_body=100_000, max_lines=4, max_words=1000, batch_rows=8)


class Client:
    """Speaks to a service on a port of this machine, with a new connection for every request."""

    def __init__(self, port: int) -> None:
        self.port = port

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> HTTPConnection:
        """A connection whose request has been sent."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return connection

    def post(self, content: Any, path: str = "/translate", kind: str = "application/json") -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return answer_of(self.send("POST", path, body, Content_Type=kind))

    def get(self, path: str) -> str:
        """The text of an answer with status 200."""
        connection = self.send("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        text = answer.read().decode()
        connection.close()
        return text

    def waiting(self) -> int:
        """Lines that wait for the only model."""
        return sum(json.loads(self.get("/health"))["waiting"].values())

    def until_waiting(self, lines: int) -> None:
        """Ask until so many lines wait."""
        patience = monotonic() + 60
        while self.waiting() != lines:
            assert monotonic() < patience


def answer_of(connection: HTTPConnection) -> tuple[int, Any]:
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "application/json"
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


@contextmanager
def serving(models: list[Model], limits: Limits = LIMITS) -> Iterator[Client]:
    listening = listen("127.0.0.1", "0")
    server = make_server(models, limits)
    thread = Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def models(toy_folder: Path) -> list[Model]:
    """Two families of random weights."""
    with chdir(toy_folder):
        params = parse_params(merge(read_yaml(Path("params.yaml")), {"decoders": {"iad": {"algorithm": "iad",
                                                                                          "block": 2}}}))
        return [ServedModel(family, decoders, params, open_family(params, family), languages=("en", "de"), device="cpu")
                for family, decoders in (("teacher", ["greedy", "beam3", "iad"]),
                                         ("interleaved", ["beam3", "greedy"]))]


@pytest.fixture(scope="module")
def client(models: list[Model]) -> Iterator[Client]:
    with serving(models) as client:
        yield client


class Panic(BaseException):
    """What a library of Rust raises, which is no Exception."""


class Held:
    """A model that begins no search before it is released, and then returns the line in capitals."""

    name, decoders, languages = "held", ("only",), None

    def __init__(self) -> None:
        self.begun, self.released = Event(), Event()
        self.batches: list[list[str]] = []

    def translate(self, decoder: str, lines: list[str]) -> list[Translation]:
        self.begun.set()
        assert self.released.wait(60)
        self.batches.append(lines)
        if "wrong" in lines:
            raise ZeroDivisionError("a bug")
        if "panic" in lines:
            raise Panic("in a library")
        return [Translation(line, [line.upper()], None, 1) for line in lines]

    def explain(self, decoder: str, line: str) -> Explanation:
        return Explanation(self.translate(decoder, [line])[0], 0.5, None, [])


@pytest.fixture
def held() -> Iterator[Held]:
    """Released at the end, so that a failed test ends."""
    model = Held()
    yield model
    model.released.set()


def ask(client: Client, *lines: str) -> HTTPConnection:
    """A connection on which a translation is asked for."""
    return client.send("POST", "/translate", json.dumps({"text": lines}).encode(), Content_Type="application/json")


def texts(answer: tuple[int, Any]) -> list[str]:
    status, content = answer
    assert status == 200
    return [one["text"] for one in content["translations"]]


def test_a_sentence_by_the_default_model_and_decoder(client: Client, models: list[Model]) -> None:
    line = "The red otter paints the lantern no 1 ."
    expected, = models[0].translate("greedy", [line])
    assert expected.calls > 1
    assert client.post({"text": line}) == (200, {"model": "teacher", "decoder": "greedy", "translations": [
        {"text": expected.hypotheses[0], "calls": expected.calls, "warning": expected.warning}]})


def test_two_hundred_simultaneous_requests_get_each_its_own_translation(client: Client, models: list[Model],
                                                                        toy_folder: Path) -> None:
    lines = (toy_folder / "data/corpus/train.source").read_text().splitlines()
    asked = [(model, model.decoders[number % len(model.decoders)],
              [line, "", lines[-1 - number]] if number % 10 == 0 else [line])
             for number, line in enumerate(lines[:200]) for model in [models[number % 2]]]
    expected = [[model.translate(decoder, [line])[0] for line in text] for model, decoder, text in asked]
    together = Barrier(len(asked))

    def request(number: int) -> tuple[int, Any]:
        model, decoder, text = asked[number]
        together.wait()
        return client.post({"text": text, "model": model.name, "decoder": decoder})

    with ThreadPoolExecutor(len(asked)) as threads:
        answers = list(threads.map(request, range(len(asked))))
    for (model, decoder, _), wanted, (status, answer) in zip(asked, expected, answers, strict=True):
        assert status == 200 and (answer["model"], answer["decoder"]) == (model.name, decoder)
        assert [(one["text"], one["calls"]) for one in answer["translations"]] == [
            (one.hypotheses[0], one.calls) for one in wanted]
    assert len({answer["translations"][0]["text"] for _, answer in answers}) > 20  # or a mix-up could not be seen
    metrics = client.get("/metrics")
    searched = sum(map(float, re.findall(r"^nmt_lines_total\{.*\} (.*)$", metrics, re.MULTILINE)))
    assert searched >= sum(len(text) for _, _, text in asked)


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio sets TCP_NODELAY only on such sockets; without it, an answer of two packets took 40 ms more."""
    with listen("127.0.0.1", "0") as listening:
        assert listening.proto == socket.IPPROTO_TCP


BAD = {
    "no JSON": (b"The red otter", 400, "the body is not JSON"),
    "nothing": (b"", 400, "the body is not JSON"),
    "half of it": (b'{"text": "The red', 400, "the body is not JSON"),
    "not UTF-8": (b'{"text": "\xe9"}', 400, "the body is not UTF-8 (byte 11)"),
    "nested deeply": (b"[" * 50_000, 400, "the body is not JSON"),
    "a number of 5,000 digits": (b"9" * 5_000, 400, "the body is not JSON"),
    "a list": ([], 400, "the body is not a JSON object"),
    "no text": ({}, 400, "text must be a string"),
    "a number as text": ({"text": 3}, 400, "text must be a string"),
    "a list of numbers": ({"text": ["The", 3]}, 400, "text must be a string"),
    "an unknown field": ({"text": "The", "beams": 5}, 400, '"beams" is not a field'),
    "an unknown model": ({"text": "The", "model": "big"}, 400, 'model: "big" is unknown; choose one of teacher, inter'),
    "an unknown decoder": ({"text": "The", "decoder": "beam9"}, 400, 'decoder: "beam9" is unknown; choose one of gree'),
    "a decoder of another model": ({"text": "The", "model": "interleaved", "decoder": "iad"}, 400, "decoder: \"iad\""),
    "a decoder that is no string": ({"text": "The", "decoder": {"beams": 5}}, 400, "decoder: {"),
    "no model": ({"text": "The", "model": None}, 400, "model: null is unknown"),
    "too many lines": ({"text": ["The"] * 5}, 400, "text has 5 lines, and at most 4"),
    "ten thousand words": ({"text": ["The", "otter " * 10_000]}, 400, "line 2 of text has 10000 words, and at most"),
    "half of a surrogate pair": (b'{"text": "The \\ud800"}', 400,
                                 "line 1 of text has half of a surrogate pair, which is not a character"),
    "a body that is too large": ({"text": "o" * 1_000_000}, 413, "the body has 1000012 bytes, and at most 100000"),
}


@pytest.mark.parametrize("path", ["/translate", "/explain"])
def test_bad_requests_are_told_why_in_one_line(client: Client, path: str) -> None:
    for kind, (content, status, message) in BAD.items():
        answer = client.post(content, path)
        assert answer[0] == status and answer[1].keys() == {"error"}, kind
        assert answer[1]["error"].startswith(message) and "\n" not in answer[1]["error"], kind
    assert client.post({"text": "The"}, kind="text/plain")[0] == 415
    assert texts(client.post({"text": ""})) == [""]


def test_other_paths_and_methods(client: Client) -> None:
    for method, path, status in (("GET", "/translate", 405), ("POST", "/models", 405), ("GET", "/../params.yaml", 404),
                                 ("GET", "/models/", 404), ("POST", "/translate/", 404)):
        assert answer_of(client.send(method, path))[0] == status
    described = json.loads(client.get("/models"))["models"]
    assert [(one["name"], one["decoders"]) for one in described] == [
        ("teacher", ["greedy", "beam3", "iad"]), ("interleaved", ["beam3", "greedy"])]
    page = client.send("GET", "/").getresponse()
    assert page.status == 200 and "default-src 'none'" in page.headers["Content-Security-Policy"]
    metrics = client.get("/metrics")  # with one label for all paths that strangers may invent
    assert 'path="other",status="404"' in metrics and "/models/" not in metrics and "params.yaml" not in metrics
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(b"no HTTP at all\r\n\r\n")
        assert raw.makefile("rb").readline().startswith(b"HTTP/1.1 400 ")


AWKWARD = ["", " \t\u00a0", "o" * 50_000, "otter " * 1000, "two\nlines",
           "\x00\x07</s> <pad> <mask>", "🦦👩‍🚒", "\u202eא"]


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_awkward_text_is_translated(client: Client, models: list[Model], text: str) -> None:
    expected, = models[0].translate("beam3", [text])
    _, answer = client.post({"text": text, "decoder": "beam3"})
    assert answer["translations"] == [{"text": expected.hypotheses[0], "calls": expected.calls,
                                       "warning": expected.warning}]
    assert (len(text) < 1000) or expected.warning == "source cut to the model's 63 pieces"
    assert client.post({"text": []})[1]["translations"] == []


_VALUE = st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.lists(st.text(max_size=3) | st.none())
_JSON = _VALUE | st.dictionaries(st.sampled_from(["text", "model", "decoder", "other"]), _VALUE)


@settings(max_examples=40)
@given(_JSON.map(lambda content: json.dumps(content).encode()) | st.binary(max_size=30))
def test_a_body_is_understood_or_refused(body: bytes) -> None:
    try:
        asked = parse(body, {"ar": ["greedy"]}, LIMITS)
    except RequestError as refused:
        assert 400 <= refused.status < 500 and "\n" not in str(refused)
    else:
        assert asked == TranslationRequest(asked.lines, "ar", "greedy")
        assert all(isinstance(line, str) for line in asked.lines)


def test_drafts_and_verdicts_are_explained(client: Client, models: list[Model]) -> None:
    line = "The red otter paints the lantern no 1 ."
    _, answer = client.post({"text": line, "decoder": "iad"}, "/explain")
    explanation, = answer["explanations"]
    expected, = models[0].translate("iad", [line])
    assert (explanation["text"], explanation["calls"]) == (expected.hypotheses[0], expected.calls)
    assert explanation["seconds"] > 0
    rounds = explanation["drafting"]["rounds"]
    assert len(rounds) == explanation["drafting"]["verifier_calls"] == expected.calls
    kept = [token["piece"] for one in rounds for token in one["verdict"] if token["fate"] != "dropped"]
    assert "".join(kept).removesuffix("</s>").replace("▁", " ").strip() == expected.hypotheses[0]
    assert client.post({"text": line, "decoder": "greedy"}, "/explain")[1]["explanations"][0]["drafting"] is None
    assert client.post({"text": "", "decoder": "iad"}, "/explain")[1]["explanations"][0]["drafting"]["rounds"] == []


def test_what_waits_is_searched_together_while_the_service_answers(held: Held) -> None:
    with serving([held]) as client:
        first = ask(client, "a")
        assert held.begun.wait(60)
        others = [ask(client, f"b{number}") for number in range(5)]
        client.until_waiting(5)  # it answers although the model is busy
        assert 'nmt_waiting_lines{model="held"} 5.0' in client.get("/metrics")
        held.released.set()
        assert [texts(answer_of(one)) for one in (first, *others)] == [["A"], *([f"B{n}"] for n in range(5))]
        assert [set(batch) for batch in held.batches] == [{"a"}, {f"b{n}" for n in range(5)}]
        assert client.post({"text": "x", "decoder": "none"})[0] == 400
        metrics = client.get("/metrics")
    for line in ('nmt_lines_total{decoder="only",model="held"} 6.0', 'nmt_batch_lines_sum{model="held"} 6.0',
                 'nmt_batch_lines_count{model="held"} 2.0',
                 'nmt_requests_total{path="/translate",status="200"} 6.0',
                 'nmt_requests_total{path="/translate",status="400"} 1.0'):
        assert line in metrics.splitlines(), metrics


def test_a_translation_waits_for_one_line_that_is_explained(held: Held) -> None:
    """Not for all of them, each of which is searched several times."""
    with serving([held]) as client:
        first = ask(client, "a")
        assert held.begun.wait(60)
        explained = client.send("POST", "/explain", json.dumps({"text": ["x", "y", "z"]}).encode(),
                                Content_Type="application/json")
        client.until_waiting(3)
        others = [ask(client, "b"), ask(client, "c")]
        client.until_waiting(5)
        held.released.set()
        assert [texts(answer_of(one)) for one in (first, *others)] == [["A"], ["B"], ["C"]]
        assert [one["text"] for one in answer_of(explained)[1]["explanations"]] == ["X", "Y", "Z"]
    assert [set(batch) for batch in held.batches] == [{"a"}, {"x"}, {"b", "c"}, {"y"}, {"z"}]


def test_a_window_is_over_when_a_batch_is_full(held: Held) -> None:
    held.released.set()
    with serving([held], Limits(batch_rows=2, window=1e6)) as client:
        assert [texts(answer_of(one)) for one in [ask(client, "a"), ask(client, "b")]] == [["A"], ["B"]]
    assert [set(batch) for batch in held.batches] == [{"a", "b"}]


def test_a_window_is_of_milliseconds(held: Held) -> None:
    held.released.set()
    with serving([held], Limits(batch_rows=2, window=50)) as client:
        began = monotonic()
        assert texts(answer_of(ask(client, "a"))) == ["A"]
    assert 0.05 <= monotonic() - began < 25


def test_a_line_that_has_waited_for_a_batch_waits_no_window(held: Held) -> None:
    with serving([held], Limits(batch_rows=2, window=1e6)) as client:
        first = [ask(client, "a"), ask(client, "b")]
        assert held.begun.wait(60)
        late = ask(client, "c")
        client.until_waiting(1)
        held.released.set()
        assert [texts(answer_of(one)) for one in (*first, late)] == [["A"], ["B"], ["C"]]


def test_a_full_queue_is_told_with_the_time_to_wait(held: Held) -> None:
    with serving([held], Limits(max_lines=2, max_waiting=2)) as client:
        first = ask(client, "a")
        assert held.begun.wait(60)
        second = ask(client, "b")
        client.until_waiting(1)
        connection = ask(client, "c", "d")
        refused = connection.getresponse()
        assert refused.status == 503 and int(refused.headers["Retry-After"]) == 1  # nothing is known yet
        assert json.loads(refused.read())["error"].startswith("too many lines wait for held; try again in")
        connection.close()
        third = ask(client, "c")
        client.until_waiting(2)
        held.released.set()
        assert [texts(answer_of(one)) for one in (first, second, third)] == [["A"], ["B"], ["C"]]


def test_the_time_to_wait_is_that_of_all_lines(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that wait and of those that are being searched, by the time of the batches before."""
    now = iter((0.0, 60.0, 60.0, 90.0, 90.0, 90.0))
    monkeypatch.setattr(batching, "perf_counter", lambda: next(now))
    with serving([held], Limits(max_lines=3, max_waiting=3)) as client:
        held.released.set()
        assert texts(answer_of(ask(client, "a", "b", "c"))) == ["A", "B", "C"]  # 20 s per line
        held.released.clear()
        held.begun.clear()
        searched = ask(client, "d", "e")
        assert held.begun.wait(60)
        waiting = ask(client, "f", "g", "h")
        client.until_waiting(3)
        connection = ask(client, "i")
        refused = connection.getresponse()
        assert (refused.status, refused.headers["Retry-After"]) == (503, str((2 + 3) * 20))
        connection.close()
        held.released.set()
        assert [texts(answer_of(one)) for one in (searched, waiting)] == [["D", "E"], ["F", "G", "H"]]


def test_clients_that_go_away(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    """Before their search, within it, and in the middle of their request; the log has nothing of it."""
    with serving([held]) as client:
        searched = ask(client, "a")
        assert held.begun.wait(60)
        waiting, patient = ask(client, "b"), ask(client, "c")
        client.until_waiting(2)
        searched.close()
        waiting.close()
        client.until_waiting(1)
        with socket.create_connection(("127.0.0.1", client.port)) as raw:
            raw.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        held.released.set()
        assert texts(answer_of(patient)) == ["C"]
        assert held.batches == [["a"], ["c"]]
    gc.collect()  # asyncio tells of exceptions that nobody has looked at when they are forgotten
    assert caplog.text == ""


def test_the_failure_of_one_line_is_not_that_of_others(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    with serving([held]) as client:
        first = ask(client, "a")
        assert held.begun.wait(60)
        wrong, right = ask(client, "wrong"), ask(client, "right")
        client.until_waiting(2)
        held.released.set()
        assert answer_of(wrong) == (500, {"error": "this request has failed; the service's log has the reason"})
        assert [texts(answer_of(one)) for one in (first, right, ask(client, "b"))] == [["A"], ["RIGHT"], ["B"]]
    assert "ZeroDivisionError: a bug" in caplog.text


def test_after_a_panic_the_queue_goes_on(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    with serving([held]) as client:
        held.released.set()
        assert answer_of(ask(client, "panic"))[0] == 500 and texts(answer_of(ask(client, "a"))) == ["A"]
    assert "RuntimeError: Panic: in a library" in caplog.text


def test_a_connection_is_kept_as_long_as_patience_lasts(held: Held) -> None:
    """Not for the five seconds of the library."""
    configured = make_server([held], Limits(patience=120.0)).config
    assert configured.timeout_keep_alive == configured.timeout_graceful_shutdown == 120


def test_a_body_that_never_arrives(held: Held) -> None:
    with serving([held], Limits(patience=0.5)) as client, \
            socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        answer = HTTPResponse(raw)
        answer.begin()
        assert (answer.status, json.loads(answer.read())) == (408, {"error": "the body has not arrived within 0.5 s"})


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_never_arrives(held: Held, sent: bytes, answered: bool) -> None:
    """Neither on a new connection, which is closed, nor on one that has been answered."""
    with serving([held], Limits(patience=0.5)) as client, \
            socket.create_connection(("127.0.0.1", client.port), timeout=60) as raw, raw.makefile("rb") as answer:
        if answered:
            raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        raw.sendall(sent)
        answer.read()


def test_a_service_that_is_stopped_answers_what_is_under_way(held: Held) -> None:
    listening = listen("127.0.0.1", "0")
    client = Client(listening.getsockname()[1])
    server = make_server([held], LIMITS)
    thread = Thread(target=server.run, args=([listening],))
    thread.start()
    searched = ask(client, "a")
    assert held.begun.wait(60)
    waiting = ask(client, "b")
    client.until_waiting(1)
    server.should_exit = True
    with pytest.raises(OSError):  # it takes no more
        while True:
            client.waiting()
    held.released.set()
    assert [texts(answer_of(one)) for one in (searched, waiting)] == [["A"], ["B"]]
    thread.join()


@pytest.fixture
def handlers() -> Iterator[None]:
    """Those of signals are at the end what they were before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_the_address_and_the_service_is_not_lost(
        held: Held, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    stopped: list[bool] = []

    class Server:
        should_exit = is_searching = False

        def run(self, _: list[socket.socket]) -> None:
            stopped.append(self.should_exit)
            signal.raise_signal(number)  # as uvicorn does once more

    monkeypatch.setattr("pipeline.service.app.make_server", lambda *_: Server())
    monkeypatch.setattr("pipeline.commands.serve._open_models", lambda _: [held])
    monkeypatch.setattr("pipeline.commands.serve.print", lambda *_, **__: signal.raise_signal(number), raising=False)
    assert main(["serve", "--port", "0"]) == 0
    assert stopped == [True]


@pytest.mark.usefixtures("handlers")
def test_the_end_does_not_wait_for_a_search(held: Held, monkeypatch: pytest.MonkeyPatch,
                                            caplog: pytest.LogCaptureFixture) -> None:
    """That takes longer than --patience: its client is told so, and it is no bug in the log."""
    ended: list[int] = []
    answers: list[tuple[int, Any]] = []

    def stop(address: str) -> None:
        try:
            searched = ask(Client(int(address.rpartition(":")[2])), "a")
            assert held.begun.wait(60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
        answers.append(answer_of(searched))

    with ThreadPoolExecutor(1) as stopping:
        monkeypatch.setattr("pipeline.commands.serve._open_models", lambda _: [held])
        monkeypatch.setattr("pipeline.commands.serve.print", lambda address, **_: stopping.submit(stop, address),
                            raising=False)
        monkeypatch.setattr("os._exit", ended.append)
        assert main(["serve", "--port", "0", "--patience", "1"]) == 0
    assert answers == [(503, {"error": "the service is stopping"})]
    assert ended == [0] and "Traceback" not in caplog.text


def test_the_command_serves_until_it_is_told_to_stop(workspace: Path) -> None:
    """What is under way when SIGTERM comes, here half a request, is finished; the status is then 0."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1])}
    command = [sys.executable, "-m", "pipeline", "serve", "--family", "teacher", "--port", "0", "--device", "cpu"]
    body, piped = b'{"text": "The red otter"}', subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=piped, stderr=piped, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)\n", process.stdout.readline())[1])  # type: ignore[index]
            with socket.create_connection(("127.0.0.1", port)) as raw, raw.makefile("rb") as answer:
                raw.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
                assert answer.readline() == b"HTTP/1.1 100 Continue\r\n" and answer.readline() == b"\r\n"
                process.send_signal(signal.SIGTERM)
                raw.sendall(body)
                assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
            assert process.communicate() == ("", "opening teacher\n")
            assert process.returncode == 0
        finally:
            process.kill()


def test_a_model_folder_is_named_as_the_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by its path, which is of this machine, and which requests would have to repeat."""
    served: list[tuple[Any, ...]] = []

    def stop(models: list[ServedModel], limits: Limits) -> None:
        served.extend((model.name, model.decoders, model.languages) for model in models)
        raise PipelineError("enough")

    monkeypatch.setattr("pipeline.service.app.make_server", stop)
    assert main(["serve", "--port", "0", "--device", "cpu", "--model", f"{folder.resolve()}/"]) == 2
    (tmp_path / "current").symlink_to(folder.resolve())  # which clients need not notice when it is set to another one
    assert main(["serve", "--port", "0", "--device", "cpu", "--model", str(tmp_path / "current")]) == 2
    assert served == [(name, ("greedy", "beam3"), ("en", "xx")) for name in ("teacher", "current")]


def test_the_first_family_that_is_named_is_the_default(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any, all systems that have been trained are served, in their order."""
    served: list[str] = []

    def stop(models: list[ServedModel], limits: Limits) -> None:
        served.extend(model.name for model in models)
        raise PipelineError("enough")

    monkeypatch.setattr("pipeline.service.app.make_server", stop)
    trained = [family for family in load_params().systems if is_trained(family)]
    assert len(trained) > 1
    for options, expected in (([], trained), (["--family", "teacher", "--family", "interleaved"],
                                              ["teacher", "interleaved"]),
                              (["--family", "interleaved", "--family", "teacher"], ["interleaved", "teacher"])):
        served.clear()
        assert main(["serve", "--port", "0", "--device", "cpu", *options]) == 2 and served == expected


@pytest.mark.parametrize(("options", "message"), [
    (["--port", "http"], "--port: 'http' must be a number from 0 (any free port) to 65535"),
    (["--port", "65536"], "--port: '65536' must be a number"),
    (["--port", "-1"], "--port: '-1' must be a number"),
    (["--port", "0" * 5000], "--port: '0000"),
    (["--port", "0", "--host", 70 * "ä"], f"--host {70 * 'ä'} --port 0: cannot listen there: not a name; choose"),
    (["--port", "0", "--host", "192.0.2.1"], "--host 192.0.2.1 --port 0: cannot listen there"),
    (["--port", "0", "--host", "no host"], "--host no host --port 0: cannot listen there"),
    (["--port", "0", "--host", ""], "--host: '' is not an address; give one of this machine, or 0.0.0.0 for all"),
    (["--port", "0", "--max-body", "0"], "--max-body: 0 must be at least 1"),
    (["--port", "0", "--window", "-1"], "--window: -1.0 must be at least 0"),
    (["--port", "0", "--patience", "0"], "--patience: 0.0 must be above 0"),
    (["--port", "0", "--max-waiting", "99"], "--max-waiting: 99 is less than the 100 lines that a request may have, "
     "which could never wait; let more lines wait, or a request have fewer"),
    (["--port", "0", "--family", "nobody"], "--family: family 'nobody' is unknown"),
    (["--port", "0", "--family", "teacher", "--source-language", "en_XX"], "--source-language, --target-language: a "),
    (["--port", "0", "--target-language", "de_DE"], "--source-language, --target-language: a family has been trained"),
    (["--port", "0", "--model", "folder"], "folder"),
])
def test_mistakes_are_one_line(workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                               options: list[str], message: str) -> None:
    monkeypatch.setattr("pipeline.service.app.make_server", None)
    assert main(["serve", *options]) == 2
    printed = capsys.readouterr().err.removeprefix("opening nobody\n")
    assert printed.startswith(f"error: {message}") and printed.count("\n") == 1


def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr("socket.socket", unknown)
    with pytest.raises(PipelineError, match=r"^--host ::1 --port 0: cannot listen there: Address family not"):
        listen("::1", "0")


def test_a_port_in_use_is_told_before_models_are_loaded(client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[
        str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # which has no params.yaml
    assert main(["serve", "--port", str(client.port)]) == 2
    printed = capsys.readouterr().err
    assert "cannot listen there: Address already in use" in printed and printed.count("\n") == 1


def test_nothing_has_been_trained(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree("checkpoints")
    assert main(["serve", "--port", "0"]) == 2
    assert capsys.readouterr().err == "error: no system of params.yaml has been trained; run `dvc repro`\n"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "pipeline.service.app")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == ("error: serve: needs uvicorn, which is not installed; run pip install "
                                       "'fast-nmt-decoding[serve]'\n")


class Echo:
    """A model that writes what it reads, after a draft whose tokens have all fates."""

    name, decoders, languages = "<i>echo</i>", ("<u>only</u>",), ("en", "de")

    def translate(self, decoder: str, lines: list[str]) -> list[Translation]:
        return [Translation(line, [line], None, 2) for line in lines]

    def explain(self, decoder: str, line: str) -> Explanation:
        if line == "fail":
            raise ZeroDivisionError("a bug")
        fates = [Marked(token, fate) for token, fate in enumerate(Fate)]
        return Explanation(self.translate(decoder, [line])[0], 0.5, Trace(line, line, [
            MarkedRound(fates, [*fates, Marked(4, Fate.DROPPED)])] * 2, 2), ["<b>a</b>", "&amp;", "c", "d", "e"])


TEXTS = "[...document.querySelectorAll({!r})].map(one => one.innerText)"
DONE = """new Promise(done => {
  const results = document.querySelector("#results");
  const look = () => results.ariaBusy === "false" ? done() : setTimeout(look, 5);
  look();
})"""


TOLD = """new Promise(done => {
  const look = () => statusLine.textContent ? done() : setTimeout(look, 5);
  look();
})"""


def test_the_page_in_a_browser(models: list[Model], tmp_path: Path) -> None:
    """Typed into and read in Chromium. Markup is shown, not obeyed, and only this service is asked."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium (apt-get install chromium)")
    sentence = "The red otter <img src=x onerror=alert(1)> &amp; no 1 ."
    with serving([models[0], Echo()]) as client, browse(program, tmp_path) as browser:
        browser.open(f"http://127.0.0.1:{client.port}/")
        told = "Models: teacher, <i>echo</i>. Decoders of all models: 4."
        browser.evaluate(TOLD)
        assert browser.evaluate("statusLine.innerText") == told and browser.evaluate(
            "document.querySelector('label').innerText") == "A sentence, English to German"
        browser.do("Input.insertText", text=sentence)  # the field has the focus
        browser.press_enter()
        browser.evaluate(DONE)

        def shown(selector: str) -> list[str]:
            found: list[str] = browser.evaluate(TEXTS.format(selector))
            return found

        found = {decoder: models[0].translate(decoder, [sentence])[0] for decoder in models[0].decoders}
        assert shown("h2") == ["teacher", "<i>echo</i>", "How to read this"]
        assert shown(".name") == ["greedy", "beam3", "iad", "<u>only</u>"]
        assert shown(".text") == [*(" ".join(one.hypotheses[0].split()) for one in found.values()), sentence]
        assert shown(".calls") == [f"{one.calls} calls" for one in found.values()] + ["2 calls"]
        assert all(re.fullmatch(r"\d+\.\d ms", time) for time in shown(".time")) and shown(".time")[-1] == "500.0 ms"
        assert len(shown("summary")) == 2 and shown("summary")[1] == (
            "Drafts and verdicts: 2 calls of the verifier and 2 of the drafter, 3.00 tokens accepted per call")
        browser.evaluate("document.querySelectorAll('summary')[1].click()")
        last = ".model:last-child .rounds li:last-child"
        assert shown(f"{last} .step") == ["2 · 3 accepted"]
        assert shown(f"{last} tr:first-child .token") == ["<b>a</b>", "&amp;", "c", "d"]
        for fate in Fate:
            assert shown(f"{last} tr:first-child .{fate.value}") == shown(f"{last} tr:first-child [title={fate.value}]")
        assert browser.evaluate("document.querySelectorAll('#results :is(img, i, b b, u)').length") == 0

        # A mistake is told, and the next sentence takes its place.
        browser.evaluate("sentence.value = 'otter '.repeat(1001); form.requestSubmit()")
        browser.evaluate(DONE)
        assert shown("[role=alert]")[0].startswith("line 1 of text has 1001 words")
        browser.evaluate("sentence.value = 'The red otter'; form.requestSubmit()")
        browser.evaluate(DONE)
        assert shown("[role=alert]") == [""] and len(shown(".text")) == 4

        # One decoder's failure is its own.
        browser.evaluate("sentence.value = 'fail'; form.requestSubmit()")
        browser.evaluate(DONE)
        assert shown("[role=alert]") == [""] and len(shown(".text")) == 4
        assert shown(".failure") == ["this request has failed; the service's log has the reason"]
        addresses = [event["params"]["request"]["url"] for event in browser.seen
                     if event["method"] == "Network.requestWillBeSent"]
        assert all(address.startswith((f"http://127.0.0.1:{client.port}/", "data:")) for address in addresses)
        complaints = [event["params"] for event in browser.seen if event["method"] in (
            "Log.entryAdded", "Runtime.exceptionThrown", "Page.javascriptDialogOpening")]
        assert [one["entry"]["text"] for one in complaints] == [
            f"Failed to load resource: the server responded with a status of {status}"
            for status in ("400 (Bad Request)", "500 (Internal Server Error)")]
