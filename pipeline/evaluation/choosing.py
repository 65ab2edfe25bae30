"""The fastest decoder of a run on this machine, among those whose quality is within a budget of the best one's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.errors import PipelineError
from pipeline.evaluation.clock import clock_device, load_contestants
from pipeline.evaluation.speed import BATCH, measure
from pipeline.evaluation.validation import ValidationSample
from pipeline.params import Params
from pipeline.text_model import is_trained


@dataclass(frozen=True)
class Candidate:
    """A system under one of its decoders, on the validation split."""

    family: str
    decoder: str
    bleu: float
    milliseconds: float
    """Per sentence, one at a time."""
    milliseconds_in_batch: float
    """Per sentence, `BATCH` at a time, or all at once where there are fewer."""


def measure_candidates(params: Params, sentences: int | None) -> list[Candidate]:
    """The trained systems of a run under all their decoders, interleaved on one clock, best BLEU first.

    Args:
        params: of the folder that holds data/ and checkpoints/, with the clock's settings.
        sentences: see `ValidationSample`.

    Raises:
        PipelineError: no system is trained, or a checkpoint is damaged.
    """
    trained = [name for name in params.systems if is_trained(name)]
    if not trained:
        raise PipelineError(f"{layout.CHECKPOINTS}: none of the systems of params.yaml is trained; run `dvc repro`")
    device, tokenizer = clock_device(params.speed), Tokenizer.load(layout.BPE)
    longest = min(params.family(name).network.max_length for name in trained)
    sample = ValidationSample(params, tokenizer, device, sentences, longest)
    contestants = load_contestants(params, trained, tokenizer, device)
    timings = measure(contestants, {1: sample.sentences, BATCH: sample.sentences},
                      repetitions=params.speed.repetitions, warmup=params.speed.warmup, device=device)
    single, batched = (1000 * timings[size].medians.sum(1) / len(sample.sentences) for size in (1, BATCH))
    found = [Candidate(one.family, one.decoder, sample.bleu(one), float(single[at]), float(batched[at]))
             for at, one in enumerate(contestants)]
    return sorted(found, key=lambda one: (-one.bleu, one.milliseconds))


def choose(candidates: Sequence[Candidate], budget: float) -> tuple[Candidate, Candidate]:
    """The fastest candidates, one sentence at a time and in batches, that lose at most `budget` BLEU against the best.

    >>> best, quick = Candidate("ar", "beam5", 30.0, 9.0, 5.0), Candidate("ar", "greedy", 29.5, 3.0, 6.0)
    >>> choose([best, quick], 0.5) == (quick, best)
    True
    """
    floor = max(one.bleu for one in candidates) - budget
    good = [one for one in candidates if one.bleu >= floor or np.isclose(one.bleu, floor)]
    return min(good, key=lambda one: one.milliseconds), min(good, key=lambda one: one.milliseconds_in_batch)
