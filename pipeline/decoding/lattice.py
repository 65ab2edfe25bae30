"""Search in a lattice of candidates (Deng and Rush 2021): few words a position, all steps scored at once, Viterbi.

Translations of T words for all T from L - D to L + D, where L is the predicted length, are paths of one lattice that
stop behind different positions: neither the candidates nor the scores know T. The paper's padding symbol, which makes
them equally long, is therefore not needed.

What the paper leaves open, chosen here: lengths compete by the plain sum of log-probabilities, the end symbol's
included, unless a length penalty is asked for.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Natural, Positive
from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.chain import Edges, Paths, best_paths, viterbi
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.vocabulary import PAD

KIND = "lattice"
"""Of the models that it searches."""


@dataclass(frozen=True)
class Settings(Checked):
    """Search in a lattice."""

    candidates: Positive = 64
    """K, words a position at most."""
    window: Natural = 3
    """D, by how much a translation may be shorter or longer than predicted (the paper's delta L)."""
    nbest: Positive = 1
    """N, hypotheses to return, of all lengths together."""
    length_penalty: LengthPenalty = field(default_factory=lambda: LengthPenalty(alpha=0.0))
    """Ranks translations of different lengths; a translation of T words fills T + 1 slots."""
    associative: bool = False
    """Search in O(log N) steps instead of N, for devices with cores to spare."""


@torch.inference_mode()
def search(model: LatticeModel, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Translate with K candidates a position and lengths L - D to L + D.

    Args:
        model: a count model with a scorer.
        source: (B, S) ids, padded with PAD behind.
        limit: the longest output; where it is below L - D, all translations have that length.
        settings: candidates, window and hypotheses to return.

    Returns:
        Hypotheses that all have `ended`, in one call. Scores are the log-probabilities that the scorer gives to the
        words and the end symbol, divided by the length penalty. There is no hypothesis where no length is possible.

    Raises:
        PipelineError: the model's scores are not finite.
    """
    predicted = model.length(source)
    longest = torch.minimum(predicted + settings.window, limit.words(source))
    shortest = torch.minimum(predicted - settings.window, longest)
    N = int(longest.max()) if len(source) else 1

    memory = model.encode(source)
    words, _ = model.candidates(source, N, settings.candidates)
    edges = Edges(*model.edges(memory, words))
    calls = torch.ones_like(longest)
    lengths = torch.arange(1, N + 1, device=source.device)
    outside = (lengths < shortest.unsqueeze(1)) | (lengths > longest.unsqueeze(1))
    found = _paths(_possible(edges, words == PAD, outside), lengths + 1, settings)

    tokens = words.gather(2, found.states.transpose(1, 2)).transpose(1, 2)
    tokens = tokens.masked_fill(lengths > found.lengths.unsqueeze(2), PAD)
    return Hypotheses(tokens, found.lengths, found.scores, found.scores > -torch.inf, calls)


def _possible(edges: Edges, padding: Tensor, outside: Tensor) -> Edges:
    """Rule out candidates (B, N, K) that are none, and ends behind positions (B, N) outside the window."""
    first, inner, end = edges
    if bool(padding.any()):  # else every sentence would pay for a copy
        first = first.masked_fill(padding[:, 0], -torch.inf)
        inner = inner.masked_fill(padding[:, 1:].unsqueeze(2), -torch.inf)
    return Edges(first, inner, end.masked_fill(outside.unsqueeze(2), -torch.inf))


def _paths(edges: Edges, slots: Tensor, settings: Settings) -> Paths:
    divisors = settings.length_penalty(slots.to(edges.end.dtype)) if settings.length_penalty.alpha else None
    if settings.nbest == 1 and not settings.associative:
        return viterbi(edges, divisors)
    return best_paths(edges, settings.nbest, divisors, associative=settings.associative)
