"""Other libraries' searches with the baseline's weights, scored like a family and timed like its decoders."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline import layout
from pipeline.checksums import record, summed_folder
from pipeline.corpus.batches import by_tokens
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import count_cut, pad_sources, report_cut
from pipeline.corpus.pairs import Pairs
from pipeline.decoding.limits import LengthLimit
from pipeline.evaluation.quality import HypothesisLine, figures_of, write_hypotheses
from pipeline.evaluation.speed import BATCH, Clock, Run, make_batches
from pipeline.files import remove, write_json
from pipeline.interop.peers.process import PACKAGES, PAUSE, Answer, Peer, Setup, export, fastest, folder_of, setups
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params
from pipeline.peer_settings import FAMILY, PeerSettings
from pipeline.vocabulary import PAD

_TRIED = 4
"""Setups are tried on one of so many batches."""


class Numbering(NamedTuple):
    """How a checkpoint numbers its tokens."""

    source_ids: Tensor
    """The checkpoint's id for each of this project's source ids."""
    first: int | None
    """The checkpoint's id of the token that every translation begins with."""


@dataclass(frozen=True)
class PeerContestant:
    """A peer among the contestants, timed by the clock of its own process."""

    single: Peer
    """The process that translates single sentences."""
    batched: Peer
    """The process that translates batches; it may be the same."""
    limit: LengthLimit
    ids: Tensor | None = None
    """The checkpoint's id for each of this project's source ids; None: they are the same."""

    family = FAMILY

    @property
    def decoder(self) -> str:
        return self.single.name

    def run(self, batch: Tensor, clock: Clock) -> Run:
        time.sleep(PAUSE)
        answer = translate(self.single if len(batch) == 1 else self.batched, batch, self.limit, self.ids)
        time.sleep(PAUSE)
        return Run(answer.seconds, sum(map(len, answer.words)), math.nan)


def translate(peer: Peer, batch: Tensor, limit: LengthLimit, ids: Tensor | None = None) -> Answer:
    """Translate a padded batch (B, S), and cut each row at its own limit: libraries have one limit per batch.

    A row that is cut has one token more than the limit, in place of the missing end symbol, as in our own search.
    """
    limits = limit.words(batch).tolist()
    found = peer.translate(rows_of(batch, ids), max(limits))
    return Answer(found.seconds, [row[:words + 1] for row, words in zip(found.words, limits, strict=True)])


def rows_of(batch: Tensor, ids: Tensor | None = None) -> list[list[int]]:
    """The rows of a padded batch (B, S) without padding, renumbered by `ids` where that is given."""
    numbered = (batch if ids is None else ids[batch]).tolist()
    return [row[:length] for row, length in zip(numbered, (batch != PAD).sum(1).tolist(), strict=True)]


@contextmanager
def timed_peers(peers: Mapping[str, PeerSettings], folder_of: Callable[[PeerSettings], Path], limit: LengthLimit,
                samples: Mapping[int, Sequence[Tensor]], warmup: int, device: torch.device,
                numbering: Numbering | None = None) -> Iterator[list[PeerContestant]]:
    """Each peer in its own processes, in its fastest setups for single sentences and for batches.

    Args:
        peers: by name.
        folder_of: gives the folder that a peer reads.
        limit: the longest output.
        samples: of 1 and of `BATCH`, see `speed.measure`; setups are tried on some of them.
        warmup: sentences that will be translated before they are timed.
        device: of the searches.
        numbering: of a checkpoint of another library.

    Raises:
        PipelineError: a process cannot run.
    """
    ids, first = numbering or (None, None)
    # The length of sentences decides what is fastest; the batches are ordered by it.
    tries = samples[1][:warmup + 1], make_batches(samples[BATCH], BATCH)[::_TRIED]
    requests = [[rows_of(batch, ids) for batch in batches] for batches in tries]
    longest = [max((int(limit.words(batch).max()) for batch in batches), default=0) for batches in tries]
    with ExitStack() as running:
        contestants = []
        for name, settings in peers.items():
            tried = [setups(settings.library, torch.get_num_threads(), len(rows[0])) if device.type == "cpu"
                     else [Setup(1)] for rows in requests]
            every = [*tried[0], *(setup for setup in tried[1] if setup not in tried[0])]
            started = [running.enter_context(Peer(name, folder_of(settings), settings, setup, device.type, first))
                       for setup in every]  # they load at the same time
            chosen = [fastest([peer for peer in started if peer.setup in those], rows, words)
                      for those, rows, words in zip(tried, requests, longest, strict=True)]
            for peer in started:
                if peer not in chosen:
                    peer.close()
            contestants.append(PeerContestant(chosen[0], chosen[1], limit, ids))
        yield contestants


def describe(contestants: list[PeerContestant]) -> dict[str, Any]:
    """Each peer's setups and the version of its library."""
    return {one.decoder: {one.single.settings.library: metadata.version(PACKAGES[one.single.settings.library]),
                          "single": asdict(one.single.setup), "batched": asdict(one.batched.setup)}
            for one in contestants}


def score_peers(params: Params) -> None:
    """Export the baseline, translate the test split by every peer, score it, and write all three.

    Raises:
        PipelineError: no such checkpoint; a library is not installed, or has no such architecture.
    """
    tokenizer = Tokenizer.load(layout.BPE)
    network, config = load_checkpoint(layout.checkpoint(params.baseline), tokenizer.digest,
                                      params.family(params.baseline).order)
    longest = network.settings.max_length
    limit = params.length_limit(longest)
    pairs = Pairs.open(layout.BPE / "test.pairs", tokenizer.digest)
    references = [layout.read_corpus(path) for path in layout.references("test")]
    sources = layout.read_corpus(layout.CORPUS / "test.source")
    folder, quality = layout.HYPOTHESES / FAMILY, {}
    report = layout.REPORTS / "quality" / f"{FAMILY}.json"
    for one in (report, folder):  # of the former run
        remove(one)
    folder.mkdir(parents=True)
    order = pairs.source_lengths.argsort(kind="stable")[::-1]
    batches = [order[run] for run in by_tokens(pairs.source_lengths[order] + 1, params.evaluation.batch_tokens)]
    with summed_folder(layout.PEERS) as aside:
        export(params.peers, network, tokenizer.source_pieces, tokenizer.target_pieces, aside)
    for name, settings in params.peers.items():
        lines: list[HypothesisLine] = []
        with Peer(name, folder_of(settings, layout.PEERS), settings, Setup(torch.get_num_threads())) as peer:
            for rows in batches:
                batch = pad_sources([pairs.source(int(row)) for row in rows], longest)
                found = translate(peer, batch, limit)
                texts = tokenizer.decode_targets(found.words)
                lines += [HypothesisLine(int(row), text, len(words), None, len(words) <= most)
                          for row, text, words, most
                          in zip(rows, texts, found.words, limit.words(batch).tolist(), strict=True)]
        write_hypotheses(folder / f"{name}.jsonl", lines, range(len(pairs)))
        record(folder, [f"{name}.jsonl"])
        lines.sort(key=lambda line: line.index)
        quality[name] = figures_of(lines, references, sources, params.evaluation)
        print(f"{FAMILY} {name}: " + "BLEU {bleu:.2f}, chrF {chrf:.2f}, TER {ter:.2f}".format(**quality[name]))
    cut = count_cut(pairs.source_lengths, longest)
    report_cut(cut, len(pairs), longest)
    write_json(report, {"family": FAMILY, "data": config["training"]["data"], "verifier": params.baseline,
                        "sources_cut": cut, "decoders": quality})
