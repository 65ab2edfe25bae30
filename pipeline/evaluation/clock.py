"""The `speed` stage: every family under each of its decoders on one clock."""

from pathlib import Path

import numpy as np
import torch

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import pad_sources
from pipeline.corpus.pairs import Pairs
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.quality import read_hypotheses
from pipeline.evaluation.speed import Contestant, measure, speed_report
from pipeline.files import read_json, write_json
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params
from pipeline.translation import pick_device


def time_all(params: Params, out: Path) -> None:
    """Time the teacher, the students and their decoders and write `speed.json`.

    The sentences are spread evenly over the test set sorted by source length; which of them are long is read off the
    baseline's greedy hypotheses, as the papers' sentences are long whatever a decoder makes of them.

    Raises:
        PipelineError: a checkpoint or the baseline's hypotheses are missing.
    """
    settings = params.speed
    device = torch.device(pick_device(settings.device))
    if settings.threads:
        torch.set_num_threads(settings.threads)
    tokenizer = Tokenizer.load(layout.BPE)
    contestants = []
    for family in params.systems:
        network, _ = load_checkpoint(layout.checkpoint(family), tokenizer.digest)
        network.to(device)
        limit = LengthLimit(params.limit.ratio, params.limit.extra, network.settings.max_length - 1)
        for name in params.decoders_of(family):
            decode = make_decoder(name, params.decoder(name), limit)
            contestants.append(Contestant(family, name, lambda source, d=decode, n=network: d(n, source)))  # type: ignore[misc]
    pairs = Pairs.open(layout.BPE / "test.pairs", tokenizer.digest)
    chosen = spread(pairs.source_lengths, settings.sentences)
    longest = min(params.family(family).network.max_length for family in params.systems)
    sentences = [pad_sources([pairs.source(int(row))], longest).to(device) for row in chosen]
    baseline = read_hypotheses(layout.HYPOTHESES / params.baseline / "greedy.jsonl")
    long = np.array([baseline[row].tokens >= settings.long_tokens for row in chosen])
    timings = measure(contestants, sentences, repetitions=settings.repetitions, warmup=settings.warmup, device=device,
                      batch_sizes=(1, settings.batch_rows))
    machine = {**read_json(layout.MACHINE), "device": device.type, "threads": torch.get_num_threads()}
    rule = f"greedy output of {params.baseline} has at least {settings.long_tokens} tokens"
    write_json(out, speed_report(timings, long, long_rule=rule, baseline=params.baseline, machine=machine))


def spread(lengths: np.ndarray[tuple[int], np.dtype[np.int32]], count: int) -> list[int]:
    """Rows evenly spaced over the ranks of their lengths, shortest first.

    >>> spread(np.array([5, 1, 9, 7, 3], dtype=np.int32), 3)
    [1, 0, 2]
    """
    ranked = np.argsort(lengths, kind="stable")
    places = np.linspace(0, len(ranked) - 1, min(count, len(ranked))).round().astype(int)
    return [int(row) for row in ranked[places]]
