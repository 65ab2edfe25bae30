"""Search with the drafter only: block after block without verification (the "NAR drafter" of Ge et al. 2022).

This shows what verification costs and gains: it makes the fewest calls of all decoders of a drafter, and has the worst
quality. The engine has no compiled loop for it, so on a CPU it may take longer than a search that verifies.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.checks import Checked, Natural
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import DrafterModel
from pipeline.decoding.traits import Traits

TRAITS = Traits(kind="drafter")


@dataclass(frozen=True)
class Settings(Checked):
    """Search with the drafter only."""

    block: Natural = 0
    """k, tokens per call; 0: as many as the drafter was trained for."""


@torch.inference_mode()
def search(model: DrafterModel, source: Tensor, limit: LengthLimit, settings: Settings = Settings()) -> Hypotheses:
    """Accept every drafted block up to its first end symbol. Sentences that have ended leave the batch.

    Of the verifier, at most its encoder is used.

    Returns:
        Hypotheses with N = 1. Scores are sums of the drafter's log-probabilities; calls are the drafter's.
    """
    order, block = model.verifier.order, settings.block or model.block
    B, end = len(source), order.end
    steps = limit.steps(source, order)
    longest = int(steps.max()) if B else 0
    state = model.start(model.draft_memory(source), capacity=longest + block)
    slots = source.new_full((B, longest), end)
    scores = torch.zeros(B, device=source.device, dtype=torch.float64)
    calls = torch.zeros_like(steps)
    ended = torch.zeros(B, dtype=torch.bool, device=source.device)

    # The unfinished rows, which have one length: their sentences, tokens and scores.
    sentences, score, length = torch.arange(B, device=source.device), scores, 1
    tokens = source.new_full((B, 1 + longest), end)
    tokens[:, 0] = order.starts[0]
    while len(sentences):
        states = model.propose(tokens, length, min(block, 1 + longest - length), state)
        last = tokens[:, length - 1]
        drafted = model.draft_tokens(states, last)
        previous = torch.cat((last.unsqueeze(1), drafted[:, :-1]), 1)
        logits = model.draft_logits(states.flatten(0, 1), previous.flatten()).view(*drafted.shape, -1)
        ends, places = drafted == end, torch.arange(length, length + drafted.shape[1], device=source.device)
        inside = (ends.cumsum(1) - ends.long() == 0) & (places <= steps[sentences].unsqueeze(1))
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_probabilities = logits.gather(2, drafted.unsqueeze(2)).squeeze(2) - logits.logsumexp(2)
        score = score + log_probabilities.masked_fill(~inside, 0).sum(1)
        tokens[:, places] = drafted.masked_fill(~inside, end)
        length += drafted.shape[1]
        calls[sentences] += 1
        has_ended = (ends & inside).any(1)
        over = has_ended | (steps[sentences] < length)
        if not bool(over.any()):
            continue
        done, alive = sentences[over], (~over).nonzero().squeeze(1)
        slots[done], scores[done], ended[done] = tokens[over, 1:], score[over], has_ended[over]
        sentences, tokens, score = sentences[alive], tokens[alive], score[alive]
        state.select(alive)
    words, lengths = order.restore(slots)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scores.unsqueeze(1), ended.unsqueeze(1), calls)
