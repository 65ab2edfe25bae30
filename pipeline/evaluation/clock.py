"""The stage `speed`: every family under each of its decoders, and the peers, on one clock."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline import layout
from pipeline.checksums import check_folder
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Pairs
from pipeline.decoding.settings import make_decoder
from pipeline.device import pick_device
from pipeline.evaluation.machine import describe_machine
from pipeline.evaluation.peers import describe, timed_peers
from pipeline.evaluation.provenance import made_now
from pipeline.evaluation.quality import read_hypotheses
from pipeline.evaluation.reference import check_baseline
from pipeline.evaluation.speed import BATCH, Contestant, measure, speed_report
from pipeline.files import write_json
from pipeline.interop.peers.process import folder_of
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params, SpeedSettings


def time_all(params: Params, out: Path) -> None:
    """Time the teacher, the students and their decoders, and the peers, and write `speed.json`.

    Three samples of the test set are timed, each spread evenly over its source lengths: one of all sentences, one of
    the long ones, and a larger one in batches. The baseline's greedy hypotheses decide which are long, so they are the
    same for every contestant.

    Raises:
        PipelineError: a checkpoint or the baseline's hypotheses are missing; or nothing can be compared with it.
    """
    check_baseline(params)
    settings, device = params.speed, clock_device(params.speed)
    tokenizer = Tokenizer.load(layout.BPE)
    contestants = load_contestants(params, params.systems, tokenizer, device)
    pairs = Pairs.open(layout.BPE / "test.pairs", tokenizer.digest)
    written = read_hypotheses(layout.HYPOTHESES / params.baseline / "greedy.jsonl", len(pairs))
    is_long = np.array([line.tokens >= settings.long_tokens for line in written])
    of_all = spread(pairs.source_lengths, np.arange(len(pairs)), settings.sentences)
    of_long = spread(pairs.source_lengths, np.flatnonzero(is_long), settings.long_sentences)
    chosen = sorted({*of_all, *of_long})
    longest = min(params.family(family).network.max_length for family in params.systems)
    together = spread(pairs.source_lengths, np.arange(len(pairs)), settings.batched_sentences)
    samples = {size: [pad_sources([pairs.source(int(row))], longest).to(device) for row in rows]
               for size, rows in ((1, chosen), (BATCH, together))}
    limit = params.length_limit(params.family(params.baseline).network.max_length)
    check_folder(layout.PEERS)
    with timed_peers(params.peers, partial(folder_of, folder=layout.PEERS), limit, samples, settings.warmup,
                     device) as peers:
        timings = measure([*contestants, *peers], samples, repetitions=settings.repetitions, warmup=settings.warmup,
                          device=device)
        described = describe(peers)
    machine = {**describe_machine(), "device": device.type, "threads": torch.get_num_threads(), "peers": described}
    rule = f"greedy output of {params.baseline} has at least {settings.long_tokens} tokens"
    write_json(out, speed_report(timings, np.isin(chosen, of_all), np.isin(chosen, of_long), long_rule=rule,
                                 baseline=params.baseline, counterparts=params.counterparts(), machine=machine,
                                 made=made_now()))


def load_contestants(params: Params, families: Sequence[str], tokenizer: Tokenizer,
                     device: torch.device) -> list[Contestant]:
    """Trained families, each under all its decoders.

    Raises:
        PipelineError: a checkpoint is missing, damaged or of another vocabulary.
    """
    contestants = []
    for family in families:
        network, _ = load_checkpoint(layout.checkpoint(family), tokenizer.digest, params.family(family).order)
        network.to(device)
        limit = params.length_limit(network.settings.max_length)
        for name in params.decoders_of(family):
            decode = make_decoder(name, params.decoder(name), limit)
            contestants.append(Contestant(family, name, partial(decode, network)))
    return contestants


def clock_device(settings: SpeedSettings) -> torch.device:
    """The device to time searches on. Sets torch's number of threads, if the settings name one."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    return torch.device(pick_device(settings.device))


def spread(lengths: NDArray[np.int32], rows: NDArray[np.int64], count: int) -> list[int]:
    """At most `count` of the rows, evenly spaced over the ranks of their lengths, shortest first.

    >>> spread(np.array([5, 1, 9, 7, 3], dtype=np.int32), np.array([0, 1, 2, 4]), 3)
    [1, 0, 2]
    """
    ranked = rows[np.argsort(lengths[rows], kind="stable")]
    places = np.linspace(0, len(ranked) - 1, min(count, len(ranked))).round().astype(int)
    return [int(row) for row in ranked[places]]
