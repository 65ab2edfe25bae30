"""Write a decoder and translate by it: `python examples/own_decoder.py FOLDER`, with a model folder of the family `ar`.

A decoder is a function from a model, padded ids (B, S) and the greatest length of a translation to hypotheses. It knows
nothing of the model but its order and three methods:

    encode(source) -> memory        reads the source
    start(memory) -> state          before the first step
    step(tokens, state) -> logits   reads the last tokens (B, 1), and returns (B, 1, V) for the next ones

This one draws every token from the model's distribution.
"""

import sys
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pipeline import Translator
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.vocabulary import BOS, MASK, PAD


@torch.inference_mode()
def sample(model: Any, source: Tensor, limit: LengthLimit, *, temperature: float, seed: int = 1) -> Hypotheses:
    """Draw translations by a model that generates one token per step.

    Args:
        model: opened by the Translator: its methods are compiled where they can be.
        source: (B, S) ids, padded on the right.
        limit: the greatest length of a translation.
        temperature: above 0; towards 0, the draws become those of greedy search.
        seed: of the draws.
    """
    generator, end = torch.Generator(source.device).manual_seed(seed), model.order.end
    steps = limit.steps(source, model.order)  # (B,)
    state = model.start(model.encode(source), capacity=int(steps.max()))
    slots = source.new_full((len(source), int(steps.max())), end)
    scores, calls = torch.zeros(len(source), device=source.device), torch.zeros_like(steps)
    ended = torch.zeros_like(steps, dtype=torch.bool)
    tokens = source.new_tensor(model.order.starts).repeat(len(source), 1)
    for step in range(slots.shape[1]):
        log_probabilities = model.step(tokens, state).squeeze(1).float().log_softmax(1)
        log_probabilities[:, [PAD, BOS, MASK]] = -torch.inf
        running = ~ended & (steps > step)
        if not running.any():
            break
        tokens = torch.multinomial((log_probabilities / temperature).softmax(1), 1, generator=generator)
        tokens[~running] = end
        slots[:, step:step + 1] = tokens
        scores += log_probabilities.gather(1, tokens).squeeze(1).where(running, 0.0)
        calls += running
        ended |= running & (tokens.squeeze(1) == end)
    words, lengths = model.order.restore(slots)
    return Hypotheses(words.unsqueeze(1), lengths.unsqueeze(1), scores.unsqueeze(1), ended.unsqueeze(1), calls)


def main(folder: str) -> None:
    for temperature in (0.01, 0.7):
        translator = Translator.from_pretrained(folder, decoder=partial(sample, temperature=temperature))
        print(f"temperature {temperature}: {translator.translate('The garage door is open.')}")


if __name__ == "__main__":
    main(*sys.argv[1:])
