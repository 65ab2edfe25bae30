"""Greedy search, for every generation order: the best step, one step after the other."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Bools
from pipeline.decoding.protocol import Model
from pipeline.decoding.rescoring import scored_later
from pipeline.decoding.traits import Traits
from pipeline.engine import sentence
from pipeline.engine.waiting import on_device
from pipeline.model.state import Ints
from pipeline.model.top import score_best

TRAITS = Traits(takes_shortlist=True, in_one_call=True, shares_calls=True)


@dataclass(frozen=True)
class Settings:
    """Greedy search has nothing to set."""


@torch.inference_mode()
def search(model: Model, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Take the most probable words at every step.

    An order of width z fills z slots per step, independently of each other given the past, so the best step is the
    best word of each slot. Only end symbols may follow an end symbol (see `model.orders`); where the slots break this
    rule, the best step that keeps it is taken (`engine.ending`). It is beam search with one beam. Sentences that have
    ended leave the batch.

    Args:
        model: anything with the three methods.
        source: (B, S) ids, padded with PAD on the right.
        limit: the longest output.
        settings: none.

    Returns:
        Hypotheses with N = 1; scores are sums of log-probabilities.
    """
    B, z, end = len(source), model.order.width, model.order.end
    steps = limit.steps(source, model.order).cpu().numpy()
    longest = int(steps.max(initial=0))
    state = model.start(model.encode(source), capacity=longest * z)
    if (found := sentence.greedy(model, state, steps)) is not None:
        return _in_one_call(model, source, *found)
    slots = source.new_full((B, longest * z), end)
    scores = torch.zeros(B, device=source.device, dtype=torch.float64)
    calls, ended = np.zeros(B, np.int64), np.zeros(B, np.bool_)

    # Of the rows that have not ended: their sentences, slots and scores.
    sentences = np.arange(B)
    filled, score = slots.clone(), scores
    tokens = on_device(np.tile(model.order.starts, (B, 1)), source.device)
    for step in range(longest):
        logits = model.step(tokens, state)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        tokens, gained = score_best(logits)
        ends: Bools = (tokens == end).cpu().numpy()  # what a step waits for
        if z > 1 and ends.any():
            log_probabilities = logits.log_softmax(2)
            tokens = _with_best_endings(log_probabilities, tokens, ends, end)
            gained = log_probabilities.gather(2, tokens.unsqueeze(2)).squeeze(2)
        filled[:, step * z:(step + 1) * z] = tokens
        score = score + gained.sum(1)
        has_ended = ends[:, -1]  # only end symbols follow an end symbol
        over: Bools = has_ended | (steps[sentences] == step + 1)
        if not over.any():
            continue
        done = sentences[over]
        at, rows = (on_device(places, source.device) for places in (done, over.nonzero()[0]))
        slots[at], scores[at] = filled[rows], score[rows]
        ended[done], calls[done] = has_ended[over], step + 1
        if over.all():
            break
        alive = on_device((~over).nonzero()[0], source.device)
        sentences, tokens, filled, score = sentences[~over], tokens[alive], filled[alive], score[alive]
        state.select(alive)
    words, lengths = model.order.restore(slots)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scores.unsqueeze(1),
                      on_device(ended, source.device).unsqueeze(1), on_device(calls, source.device))


def _in_one_call(model: Model, source: Tensor, steps: Ints, counts: Ints) -> Hypotheses:
    """The result of a compiled search, which has taken the first steps of (B, T, z), as many as `counts` (B,) has."""
    words, lengths = model.order.restore(torch.from_numpy(steps.reshape(len(steps), -1)))
    last = steps[np.arange(len(steps)), counts - 1, -1]  # only end symbols follow an end symbol
    taken = [each[:count] for each, count in zip(steps, counts, strict=True)]
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scored_later(model, source, taken),
                      torch.from_numpy(last == model.order.end).unsqueeze(1), torch.from_numpy(counts))


def _with_best_endings(log_probabilities: Tensor, tokens: Tensor, ends: Bools, end: int) -> Tensor:
    """Replace the steps in which a word follows an end symbol; see `engine.ending.slots_before_end`.

    Args:
        log_probabilities: (R, z, V).
        tokens: (R, z), the best word of each slot.
        ends: (R, z), whether it is the end symbol; changed with it.
        end: the end symbol.

    Returns:
        (R, z).
    """
    wrong = np.flatnonzero((ends[:, :-1] & ~ends[:, 1:]).any(1))
    if len(wrong) == 0:
        return tokens
    from pipeline.engine.ending import slots_before_end  # numba: half a second that few searches by torch need
    rows = on_device(wrong, tokens.device)
    steps = log_probabilities[rows]
    by_end = steps[..., end].clone()
    steps[..., end] = -torch.inf
    by_word, ids = steps.max(2)
    kept = [slots_before_end(*row) for row in torch.stack((by_word, by_end), 1).double().cpu().numpy()]
    ends[wrong] = np.arange(ends.shape[1]) >= np.array(kept)[:, None]
    return tokens.index_copy(0, rows, torch.where(on_device(ends[wrong], tokens.device), end, ids))
