"""How many tokens does a call accept, and what does it cost? (Tables 6 and 7 of the paper.)

On the validation split: against k, the tokens of a draft, where every accepted token is greedy search's; and against
beta and tau, where almost as probable ones are accepted as well (GAD++), with the k of the drafter. The paper's Table 6
accepts relaxed; here k is varied alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from pipeline.decoding import gad
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.prefix import Acceptance
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.speed import Contestant, measure, speed_ratio

Search = Callable[[Tensor], Hypotheses]


class Accepted(NamedTuple):
    """What a setting brings."""

    tokens: float
    """A call of the verifier, the end symbol included."""
    calls: float
    """A sentence."""
    bleu: float
    speedup: float
    """Against the baseline's beam 5."""


class Validation(NamedTuple):
    """Sentences to search with settings."""

    batches: Sequence[Tensor]
    """(B, S) ids."""
    bleu: Callable[[Sequence[Hypotheses]], float]
    """Of what the batches were translated to, in their order."""
    singles: Sequence[Tensor]
    """(1, S) ids of those that are timed, alone."""


def draft_acceptance(search_with: Callable[[gad.Settings], Search], own_block: int, validation: Validation,
                     baseline: Contestant, *, blocks: Sequence[int], betas: Sequence[int], taus: Sequence[float],
                     repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Vary block and acceptance.

    Args:
        search_with: the drafter's search with the given settings.
        own_block: k that it was trained for.
        validation: the sentences.
        baseline: that speeds are against.
        blocks, betas, taus: to try; of betas and taus every pair.
        repetitions, warmup: see `speed.measure`.
        device: that the models are on.
    """
    by_block = {k: gad.Settings(k) for k in sorted(set(blocks) | {own_block})}
    by_acceptance = {(beta, tau): gad.Settings(own_block, Acceptance(beta, tau)) for beta in betas for tau in taus}
    settings = list(dict.fromkeys([*by_block.values(), *by_acceptance.values()]))
    searches = {one: search_with(one) for one in settings}
    found = dict(zip(settings, _try(searches, validation, baseline, repetitions, warmup, device), strict=True))
    metric: dict[str, Any] = {
        "baseline": f"{baseline.family} {baseline.decoder}", "block": own_block, "device": device.type,
        "sentences": sum(map(len, validation.batches)), "timed_sentences": len(validation.singles),
        "exact": {f"block{k}": _figures(found[one]) for k, one in by_block.items()},
        "relaxed": {f"beta{beta}_tau{tau:g}": _figures(found[one]) for (beta, tau), one in by_acceptance.items()}}
    relaxed = {beta: {tau: found[by_acceptance[beta, tau]] for tau in sorted(taus)} for beta in sorted(betas)}
    return Finding(metric, _draw({k: found[one] for k, one in by_block.items()}, relaxed, own_block))


@torch.inference_mode()
def _try(searches: Mapping[gad.Settings, Search], validation: Validation, baseline: Contestant, repetitions: int,
         warmup: int, device: torch.device) -> list[Accepted]:
    """Each search's figures: quality in batches, speed alone."""
    contestants = [Contestant("drafter", str(one), search) for one, search in searches.items()]
    times = measure([baseline, *contestants], validation.singles, repetitions=repetitions, warmup=warmup, device=device,
                    batch_sizes=(1,))[1].medians
    found = []
    for search, seconds in zip(searches.values(), times[1:], strict=True):
        translated = [search(batch) for batch in validation.batches]
        calls = sum(one.calls.sum().item() for one in translated)
        tokens = sum(one.lengths[:, 0].sum().item() + one.ended[:, 0].sum().item() for one in translated)
        found.append(Accepted(tokens / calls, calls / sum(map(len, validation.batches)), validation.bleu(translated),
                              speed_ratio(times[0], seconds)[0]))
    return found


def _figures(accepted: Accepted) -> dict[str, float]:
    return {"accepted_per_call": accepted.tokens, "calls": accepted.calls, "bleu": accepted.bleu,
            "speedup_vs_beam5": accepted.speedup}


def _draw(by_block: Mapping[int, Accepted], relaxed: Mapping[int, Mapping[float, Accepted]], own_block: int) -> Figure:
    figure, (exact, trade) = chart.new_picture(2)
    sizes, found = list(by_block), list(by_block.values())
    chart.curve(exact, sizes, [one.tokens for one in found], chart.COLOURS[0], label="tokens a call")
    chart.curve(exact, sizes, [one.speedup for one in found], chart.COLOURS[1], label="times as fast as beam 5")
    exact.xaxis.set_major_locator(MaxNLocator(integer=True))
    exact.set_ylim(bottom=0)
    chart.name_axes(exact, "k, tokens a draft", "", "exact acceptance")
    for (beta, by_tau), colour in zip(relaxed.items(), chart.COLOURS[2:] * len(relaxed), strict=False):
        values = list(by_tau.values())
        chart.curve(trade, [one.tokens for one in values], [one.bleu for one in values], colour,
                    label=f"β = {beta}")
        for tau, one in by_tau.items():
            trade.annotate(f"{tau:g}", (one.tokens, one.bleu), xytext=(4, 5), textcoords="offset points", fontsize=8,
                           color=colour)
    own = by_block[own_block]
    trade.plot(own.tokens, own.bleu, color=chart.THEME.ink, marker="s", markersize=6, linestyle="", label="exact")
    trade.margins(0.12)
    chart.name_axes(trade, "tokens a call", "BLEU", f"relaxed acceptance, k = {own_block}; at the points: τ")
    chart.add_legend(figure, 5)
    return figure
