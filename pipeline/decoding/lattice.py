"""Search in a lattice of candidates (Deng and Rush 2021): K words per position, all steps scored at once, Viterbi.

Translations of L - D to L + D words, where L is the predicted length, are paths of one lattice that end after different
positions, because candidates and scores do not depend on the length. The padding symbol with which the paper makes them
equally long is therefore not needed.

The paper does not specify how lengths compete. Here it is by the sum of log-probabilities, the end symbol's included,
divided by a length penalty if one is set. Its D is a number of words, which suits short sentences; `relative_window` is
for long ones, whose lengths are predicted less exactly.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Natural, Positive, Share
from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.chain import Edges, Paths, best_paths, viterbi
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.decoding.traits import Traits
from pipeline.engine.waiting import waits
from pipeline.vocabulary import PAD

TRAITS = Traits(kind="lattice", in_one_call=True, reads_at_once=True)
_POSITIONS = 8
"""On a GPU, lattices have a multiple of it, of which the last ones are out of reach."""


@dataclass(frozen=True)
class Settings(Checked):
    """Search in a lattice."""

    candidates: Positive = 64
    """K, the most words per position."""
    window: Natural = 3
    """D, by how many words a translation may be shorter or longer than predicted (the paper's delta L)."""
    nbest: Positive = 1
    """N, hypotheses to return, of all lengths together."""
    length_penalty: LengthPenalty = field(default_factory=lambda: LengthPenalty(alpha=0.0))
    """Ranks translations of different lengths; a translation of T words fills T + 1 slots."""
    associative: bool = False
    """Search in O(log N) steps instead of N, for devices with many cores."""
    relative_window: Share = 0.0
    """D is at least this share of the predicted length, rounded."""


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Translate with K candidates per position and lengths L - D to L + D, or the limit if that is below L - D.

    Returns:
        Hypotheses with one call, of which those that have `ended` have at least L - D words. Scores are the
        scorer's log-probabilities of the words and the end symbol, divided by the length penalty. A sentence without a
        possible path has no hypothesis.

    Raises:
        PipelineError: the model's scores are not finite.
    """
    words, edges, shortest = windowed(model, source, limit, settings.candidates, settings.window,
                                      settings.relative_window)
    lengths = torch.arange(1, words.shape[1] + 1, device=source.device)
    found = _paths(edges, lengths + 1, settings)
    calls = torch.ones(len(source), dtype=torch.long, device=source.device)

    tokens = words.gather(2, found.states.transpose(1, 2)).transpose(1, 2)
    tokens = tokens.masked_fill(lengths > found.lengths.unsqueeze(2), PAD)
    ended = (found.scores > -torch.inf) & (found.lengths >= shortest.unsqueeze(1))
    return Hypotheses(tokens, found.lengths, found.scores, ended, calls)


def windowed(model: LatticeModel, source: Tensor, limit: LengthLimit, candidates: int,
             window: int, relative: float = 0.0) -> tuple[Tensor, Edges, Tensor]:
    """The lattice of the translations of L - D to L + D words, or the limit if that is below L - D.

    Args:
        model: predicts L, chooses and scores candidates.
        source: (B, S) ids.
        limit: the greatest length of a translation.
        candidates: K.
        window: the least D.
        relative: the least share of L that D is.

    Returns:
        Candidates (B, N, K), PAD where there is none, and their scores in float32 at least: sums of N scores of two
        bytes would make different paths equal. What leads to or from PAD, and ends outside the window, are impossible.
        And L - D, (B,).
    """
    predicted = model.length(source)
    reach = half_width(predicted, window, relative)
    longest = torch.minimum(predicted + reach, limit.words(source)).unsqueeze(1)
    shortest = torch.minimum((predicted - reach).unsqueeze(1), longest)
    N = int(longest.max()) if len(source) else 1
    if waits(source.device):  # few shapes: see `engine.recorded`
        N = min(-(-N // _POSITIONS) * _POSITIONS, max(N, limit.longest))
    words, _ = model.candidates(source, N, candidates)
    edges = model.edges(model.encode(source), words)
    first, inner, end = (scores.to(torch.promote_types(scores.dtype, torch.float32)) for scores in edges)
    lengths, padding = torch.arange(1, N + 1, device=source.device), words == PAD
    outside = ((lengths < shortest) | (lengths > longest)).unsqueeze(2)
    if bool(padding.any()):  # otherwise the largest of them, `inner`, need not be copied
        first, outside = first.masked_fill(padding[:, 0], -torch.inf), outside | padding
        inner = inner.masked_fill(padding[:, :-1].unsqueeze(3) | padding[:, 1:].unsqueeze(2), -torch.inf)
    return words, Edges(first, inner, end.masked_fill(outside, -torch.inf)), predicted - reach


def half_width(predicted: Tensor, window: int, relative: float) -> Tensor:
    """D for each predicted length L: `window` words, or `relative` of L, rounded, if that is more."""
    return (predicted.double() * relative).round().long().clamp(min=window)


def _paths(edges: Edges, slots: Tensor, settings: Settings) -> Paths:
    divisors = settings.length_penalty(slots.to(edges.end.dtype)) if settings.length_penalty.alpha else None
    if settings.nbest == 1 and not settings.associative:
        return viterbi(edges, divisors)
    return best_paths(edges, settings.nbest, divisors, associative=settings.associative)
