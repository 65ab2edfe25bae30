"""Sampling, for every generation order: random translations, each word with the probability that the model gives it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.checks import AboveZero, Checked, Natural, Positive, Seed
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit, shortest_and_longest
from pipeline.decoding.protocol import Model
from pipeline.engine.waiting import on_device
from pipeline.vocabulary import PAD


@dataclass(frozen=True)
class Settings(Checked):
    """Sampling."""

    temperature: AboveZero = 1.0
    """Divides the logits: below 1 probable words become more probable."""
    top_k: Natural = 0
    """The number of most probable words to draw from; 0: all."""
    nbest: Positive = 1
    """N, translations per sentence."""
    seed: Seed = 1
    """The random numbers of a sentence depend only on this, on its source, on N and on the limit."""


@torch.inference_mode()
def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Draw N translations per sentence.

    The slots of a step are drawn independently of each other; an end symbol also fills the slots after it.

    Args:
        model: anything with the three methods.
        source: (B, S) ids, padded with PAD on the right.
        limit: the longest output.
        settings: the distribution, N and the seed.

    Returns:
        Hypotheses ordered by their scores, the sums of the model's own log-probabilities; some may be equal.
    """
    B, N, z, end = len(source), settings.nbest, model.order.width, model.order.end
    steps = limit.steps(source, model.order).repeat_interleave(N)
    _, longest = shortest_and_longest(steps)
    uniform = _uniform(source, settings, longest * z)
    state = model.start(model.encode(source), beams=N, capacity=longest * z)
    slots = source.new_full((B * N, longest * z), end)
    scores = torch.zeros(B * N, dtype=torch.float64, device=source.device)
    calls, ended = torch.zeros_like(steps), torch.zeros_like(steps, dtype=torch.bool)
    tokens = on_device(np.tile(model.order.starts, (B * N, 1)), source.device)
    for step in range(longest):
        going = ~ended & (steps > step)
        if not bool(going.any()):
            break
        log_probabilities = model.step(tokens, state).double().log_softmax(2)
        tokens = _drawn(log_probabilities, uniform[:, step * z:(step + 1) * z], settings)
        after_end = (tokens == end).cumsum(1) > 0
        tokens = tokens.masked_fill(after_end | ~going.unsqueeze(1), end)
        gained = log_probabilities.gather(2, tokens.unsqueeze(2)).squeeze(2).sum(1)
        scores += gained.masked_fill(~going, 0)
        slots[:, step * z:(step + 1) * z] = tokens
        calls += going
        ended |= going & after_end[:, -1]
    words, lengths = model.order.restore(slots)
    order = scores.view(B, N).argsort(dim=1, descending=True, stable=True)
    return Hypotheses(words.view(B, N, words.shape[1]).gather(1, order.unsqueeze(2).expand(-1, -1, words.shape[1])),
                      lengths.view(B, N).gather(1, order), scores.view(B, N).gather(1, order),
                      ended.view(B, N).gather(1, order), calls.view(B, N).amax(1))


def _uniform(source: Tensor, settings: Settings, slots: int) -> Tensor:
    """Random numbers (B * N, slots) from 0 to 1, those of a sentence from its own generator."""
    drawn = np.zeros((len(source), settings.nbest, slots))
    for row, ids in enumerate(source.tolist()):
        pieces = ids[:len(ids) - ids.count(PAD)]
        # Slot after slot, so that a longer limit of another sentence in the batch changes nothing.
        drawn[row] = np.random.default_rng([settings.seed, *pieces]).random((slots, settings.nbest)).T
    return torch.from_numpy(drawn).flatten(0, 1).to(source.device)


def _drawn(log_probabilities: Tensor, uniform: Tensor, settings: Settings) -> Tensor:
    """Words (R, z), drawn with numbers (R, z) from log-probabilities (R, z, V)."""
    kept, ids = (log_probabilities / settings.temperature).sort(dim=2, descending=True, stable=True)
    if settings.top_k:
        kept = kept[..., :settings.top_k]
    shares = kept.softmax(2).cumsum(2)
    # The number that all shares add up to may be just below 1.
    at = torch.searchsorted(shares, (uniform * shares[..., -1]).unsqueeze(2), right=True)
    return ids.gather(2, at.clamp(max=kept.shape[2] - 1)).squeeze(2)
