"""A peer as an object, which runs `worker` in a process, and the fastest setup of it."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import PipelineError
from pipeline.peer_settings import PeerSettings

_ROOT = Path(__file__).parents[3]
PAUSE = 0.02
"""Seconds before and after each turn: threads of GNU's OpenMP, used by PyTorch and CTranslate2, spin for some
milliseconds before they sleep."""
_ROUNDS = 3
PACKAGES = {"hf": "transformers", "ctranslate2": "ctranslate2"}


@dataclass(frozen=True)
class Setup:
    """Documented settings of a library that change its speed but not its result."""

    threads: int
    environment: Mapping[str, str] = field(default_factory=dict)
    parts: int = 1
    """Parts of a batch that are translated in parallel, each with `threads` (CTranslate2)."""


def setups(library: str, threads: int, rows: int) -> list[Setup]:
    """Return the setups to try for a library and batches of this many rows, with at most this many threads."""
    if library != "ctranslate2":
        return [Setup(count) for count in sorted({1, threads})]
    shares = sorted({(1, 1), (threads, 1), (1, min(threads, rows))})
    return [Setup(count, environment, parts) for count, parts in shares
            for environment in ({}, {"CT2_USE_MKL": "0"}, {"CT2_USE_MKL": "1"})]


class Answer(NamedTuple):
    seconds: float
    """Measured in the process, without the pipes."""
    words: list[list[int]]
    """Ids without symbols; one more than the limit if that cut a translation."""


class Peer(AbstractContextManager["Peer"]):
    """A process that answers requests until it is closed."""

    def __init__(self, name: str, folder: Path, settings: PeerSettings, setup: Setup, device: str = "cpu",
                 first: int | None = None) -> None:
        """Start the process.

        `folder` is an export for its library, or for `hf` any checkpoint; `device` is cpu or cuda, and `first` the
        first id of every translation (`hf` only).
        """
        self.name, self.settings, self.setup = name, settings, setup
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, it is open as long as the process runs
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.interop.peers.worker", str(folder.resolve()), json.dumps(asdict(settings)),
             str(setup.threads), str(setup.parts), device, *([] if first is None else [str(first)])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="utf-8",
            env={**os.environ, **setup.environment, "PYTHONPATH": os.pathsep.join(
                filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))})

    def translate(self, source: Sequence[Sequence[int]], words: int) -> Answer:
        """Translate rows of the checkpoint's ids with end symbols to at most this many words each.

        Raises:
            PipelineError: the process has ended; the message has the last line of its errors.
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
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            raise PipelineError(f"peers.{self.name}: its process ended: {lines[-1] if lines else 'no message'}; "
                                f"run pip install {PACKAGES[self.settings.library]} if that is missing, or take "
                                f"peers.{self.name} out of params.yaml")
        return Answer(**json.loads(answer))

    def close(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):  # it may have ended
            self._process.communicate()
        self._errors.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def fastest(peers: Sequence[Peer], batches: Sequence[Sequence[Sequence[int]]], words: int) -> Peer:
    """Return the fastest of one or several setups of a peer, on the same batches for `Peer.translate`."""
    for peer in peers:
        peer.translate(batches[0], words)  # warm-up: the first request also waits until the process has loaded
    seconds = [statistics.median(sum(_timed(peer, batch, words) for batch in batches) for _ in range(_ROUNDS))
               for peer in peers]
    return peers[seconds.index(min(seconds))]


def _timed(peer: Peer, batch: Sequence[Sequence[int]], words: int) -> float:
    """Return the seconds of a translation when the peer's threads sleep, as they do at every turn of the clock: without
    the pause, several threads would seem faster than they are."""
    time.sleep(PAUSE)
    return peer.translate(batch, words).seconds


def export(peers: Mapping[str, PeerSettings], network: Any, source_pieces: list[str], target_pieces: list[str],
           folder: Path) -> None:
    """Write a left-to-right Transformer in the formats of the peers, each in its `folder_of` below an existing folder.

    Pieces are the names of all ids.

    Raises:
        PipelineError: a library is not installed, or has no such architecture.
    """
    from pipeline.interop import export_ctranslate2, export_huggingface
    if peers and (network.order.name, network.order.width) != ("left_to_right", 1):
        raise PipelineError(f"peers: the baseline generates in the order {network.order.name}, and other libraries "
                            "have only left_to_right, one word per step; choose another baseline or leave `peers` out")
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
    """Return the folder that `export` writes for a peer."""
    return folder / f"{peer.library}-{peer.quantization}"
