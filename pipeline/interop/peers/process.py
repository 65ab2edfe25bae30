"""The other end of `worker`: a peer as an object, and the quickest way to run it."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from pipeline.errors import PipelineError
from pipeline.peer_settings import PeerSettings

_ROOT = Path(__file__).parents[3]
PAUSE = 0.02
"""Seconds before and after each turn: the threads of who came before spin for some milliseconds before they sleep
(GNU's OpenMP, which PyTorch and CTranslate2 bring along)."""
_ROUNDS = 3
PACKAGES = {"hf": "transformers", "ctranslate2": "ctranslate2"}


@dataclass(frozen=True)
class Way:
    """Documented settings of a library that change its speed and not its result."""

    threads: int
    environment: Mapping[str, str] = field(default_factory=dict)
    parts: int = 1
    """Of a batch, translated at the same time by so many threads each (CTranslate2)."""


def ways(library: str, threads: int, rows: int) -> list[Way]:
    """What is tried for a library and batches of so many rows, with at most so many threads."""
    if library != "ctranslate2":
        return [Way(count) for count in sorted({1, threads})]
    shares = sorted({(1, 1), (threads, 1), (1, min(threads, rows))})
    return [Way(count, environment, parts) for count, parts in shares
            for environment in ({}, {"CT2_USE_MKL": "0"}, {"CT2_USE_MKL": "1"})]


class Answer(NamedTuple):
    seconds: float
    """By the process's own clock: the pipes are not in them."""
    words: list[list[int]]
    """Ids without symbols; one more than the limit where that cut a translation."""


class Peer:
    """A long-lived process that answers requests; to be closed."""

    def __init__(self, name: str, folder: Path, settings: PeerSettings, way: Way, device: str = "cpu",
                 first: int | None = None) -> None:
        """Args:
            name: of the peer, for error messages.
            folder: an export for its library, or for `hf` any checkpoint.
            settings: what it searches by.
            way: threads and environment.
            device: cpu or cuda.
            first: the id that every translation begins with (`hf` only).
        """
        self.name, self.settings, self.way = name, settings, way
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.interop.peers.worker", str(folder.resolve()), json.dumps(asdict(settings)),
             str(way.threads), str(way.parts), device, *([] if first is None else [str(first)])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True, encoding="utf-8",
            env={**os.environ, **way.environment, "PYTHONPATH": os.pathsep.join(
                filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))})

    def translate(self, source: Sequence[Sequence[int]], words: int) -> Answer:
        """Translate a batch.

        Args:
            source: rows of the checkpoint's ids with their end symbols.
            words: the longest translation.

        Raises:
            PipelineError: the process has ended; its last words are in the message.
        """
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"source": source, "words": words}) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._process.wait()
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace").strip().splitlines()
            raise PipelineError(f"peers.{self.name}: its process ended: {said[-1] if said else 'it said nothing'}; "
                                f"run pip install {PACKAGES[self.settings.library]} if that is missing, or take "
                                f"peers.{self.name} out of params.yaml")
        return Answer(**json.loads(answer))

    def close(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):  # it may have ended
            self._process.communicate()
        self._complaints.close()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def quickest(peers: Sequence[Peer], batches: Sequence[Sequence[Sequence[int]]], words: int) -> Peer:
    """The quickest of some peers, which are one in different ways, on the same batches.

    Args:
        peers: at least one.
        batches: rows of ids, with end symbols.
        words: the longest translation.
    """
    for peer in peers:
        peer.translate(batches[0], words)  # the first one also waits for the process to load, and plans
    seconds = [statistics.median(sum(_after_a_pause(peer, batch, words) for batch in batches) for _ in range(_ROUNDS))
               for peer in peers]
    return peers[seconds.index(min(seconds))]


def _after_a_pause(peer: Peer, batch: Sequence[Sequence[int]], words: int) -> float:
    """Seconds of a translation when the peer's threads sleep, as they do at every turn: in a loop of its own a way of
    several threads would seem quicker than it is."""
    time.sleep(PAUSE)
    return peer.translate(batch, words).seconds


def export(peers: Mapping[str, PeerSettings], network: Any, source_pieces: list[str], target_pieces: list[str],
           folder: Path) -> None:
    """Write what peers read (`folder_of`): a left-to-right Transformer of ours in their formats.

    Args:
        peers: by name.
        network: the baseline's.
        source_pieces, target_pieces: a name for every id.
        folder: exists.

    Raises:
        PipelineError: a library is not installed, or has no such architecture.
    """
    from pipeline.interop import export_ctranslate2, export_huggingface
    if peers and (network.order.name, network.order.width) != ("left_to_right", 1):
        raise PipelineError(f"peers: the baseline generates in the order {network.order.name}, and other libraries "
                            "know left_to_right, one word a step, alone; choose another baseline or leave `peers` out")
    for peer in peers.values():
        own = folder_of(peer, folder)
        if own.exists():
            continue
        own.mkdir()
        if peer.library == "hf":
            export_huggingface.save_model(network, own)
        else:
            export_ctranslate2.save_model(network, source_pieces, target_pieces, own, peer.quantization)


def folder_of(peer: PeerSettings, folder: Path) -> Path:
    """Where `export` puts what a peer reads."""
    return folder / f"{peer.library}-{peer.quantization}"
