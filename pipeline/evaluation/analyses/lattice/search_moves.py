"""How much does search change? (Figure 2 of the paper.)

Before search, the candidates of a position are ranked by their incoming edges: a candidate's score is that of the best
edge that leads to it, from the start symbol at the first position and elsewhere from any candidate of the previous
position, whether or not that candidate is on the path that search chooses. Rank 1 is the highest score; among equal
scores the candidate that is more probable by the count model comes first. The ranks of all words of the best path are
counted, in lattices of the predicted length only (D = 0), as in the paper.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.lattice import Settings, search
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import LatticeModel
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.lattice.context import ROWS, LatticeContext
from pipeline.evaluation.bootstrap import ratio_of_sums
from pipeline.vocabulary import PAD

_SHOWN = 16
"""Ranks that have their own bar; the others share one."""


def ask(context: LatticeContext) -> Finding:
    """Over the entire test split."""
    lattice = context.lattice
    if lattice is None:
        return context.not_measured()
    return search_moves(lattice, context.sources(lattice, ROWS), context.run.limit(lattice), context.k,
                        samples=context.run.params.evaluation.bootstrap_samples)


def search_moves(model: LatticeModel, sources: Sequence[Tensor], limit: LengthLimit, k: int, *,
                 samples: int) -> Finding:
    """Count the words of best paths by their rank before search.

    Args:
        model: a count model with a scorer.
        sources: batches (B, S) of ids, padded with PAD.
        limit: the longest output.
        k: candidates per position.
        samples: resamples of the bootstrap.
    """
    ranks = [ranks for source in sources for ranks in chosen_ranks(model, source, limit, k)]
    counts = np.bincount(torch.cat(ranks).numpy(), minlength=k + 1)[1:]
    share = counts / max(int(counts.sum()), 1)
    moved = ratio_of_sums(np.array([((one > 1).sum().item(), len(one)) for one in ranks], np.float64), samples)
    metric = {"candidates": k, "window": 0, "sentences": len(ranks), "words": int(counts.sum()),
              "moved_words": int(counts[1:].sum()), **moved.named("moved_share"),
              "share_by_rank": {str(rank): float(one) for rank, one in enumerate(share, 1)}}
    return Finding(metric, _draw(share, moved.value, k))


class LatticeRecorder:
    """A lattice model that records the last lattice that it scored."""

    kind = "lattice"

    def __init__(self, model: LatticeModel) -> None:
        self.verifier = model.verifier
        self.length, self.candidates, self.encode = model.length, model.candidates, model.encode
        self._edges = model.edges

    def edges(self, memory: Any, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.words, self.scores = candidates, self._edges(memory, candidates)
        return self.scores


@torch.inference_mode()
def chosen_ranks(model: LatticeModel, source: Tensor, limit: LengthLimit, k: int) -> tuple[Tensor, ...]:
    """The ranks before search, from 1, of the words of each best translation of a batch: (words,), on the CPU."""
    recorder = LatticeRecorder(model)
    chosen = search(recorder, source, limit, Settings(candidates=k, window=0)).tokens[:, 0]
    words, (first, inner, _) = recorder.words, recorder.scores
    absent = words == PAD
    inner = inner.masked_fill(absent[:, :-1].unsqueeze(3), -torch.inf)
    scores = torch.cat([first.unsqueeze(1), inner.amax(2)], 1).masked_fill(absent, -torch.inf)
    order = scores.argsort(dim=2, descending=True, stable=True)
    rank = (words.gather(2, order) == chosen.unsqueeze(2)).byte().argmax(2) + 1
    present = chosen != PAD
    return rank[present].cpu().split(present.sum(1).tolist())


def _draw(share: np.ndarray, moved: float, k: int) -> Figure:
    figure, (axes,) = chart.new_picture()
    shown = min(_SHOWN, k)
    bars = [*share[:shown], *([share[shown:].sum()] if k > shown else [])]
    names = [str(rank) for rank in range(1, shown + 1)] + ([f"{shown + 1}–{k}"] if k > shown else [])
    drawn = axes.bar(names, [100 * one for one in bars], color=chart.COLOURS[0])
    axes.bar_label(drawn, [f"{100 * one:.1f}" for one in bars], fontsize=8, color=chart.THEME.muted, padding=2)
    axes.grid(axis="x", visible=False)
    chart.name_axes(axes, f"rank by the best incoming edge, of {k} candidates", "words of the best path, %",
              f"search chooses another word than the one with the best edge at {100 * moved:.1f} % of all positions")
    return figure
