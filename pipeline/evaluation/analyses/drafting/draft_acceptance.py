"""How many tokens does a call accept, and what does it cost? (Tables 6 and 7 of the paper.)

On the validation split: against k, the tokens of a draft, where every accepted token is greedy search's; and against
beta and tau, where almost as probable ones are also accepted (GAD++), with the k of the drafter. The paper's Table 6
has relaxed acceptance, and as it explains its peak by what a drafter of limited capacity can learn, probably a drafter
per k. Here one drafter is searched with several k; the fastest is chosen among those that it learnt.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from pipeline import layout
from pipeline.bleu import make_bleu
from pipeline.decoding import gad
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.prefix import Acceptance
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.drafting.context import DraftingContext
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.bootstrap import Floats, speed_ratio
from pipeline.evaluation.speed import Contestant, measure

_ROWS = 64
"""Sentences per batch where only quality is measured."""
Translate = Callable[[Tensor], Hypotheses]


class Validation(NamedTuple):
    """Sentences to translate with settings."""

    batches: Sequence[Tensor]
    """(B, S) ids."""
    bleu: Callable[[Sequence[Hypotheses]], float]
    """Scores the translations of the batches, in their order."""
    singles: Sequence[Tensor]
    """(1, S) ids of each sentence that is timed."""


def ask(context: DraftingContext) -> Finding:
    """Of the drafter, over the first sentences of the validation split."""
    network, settings, run = context.drafter, context.settings, context.run
    if network is None:
        return not_measured(f"family {settings.drafter!r} is not among the systems")
    limit = run.limit(network)

    def search_with(one: gad.Settings) -> Translate:
        return lambda source: gad.search(open_engine(network), source, limit, one)

    return draft_acceptance(search_with, network.block, _validation(context), context.references[0].contestant,
                            blocks=settings.blocks, betas=settings.betas, taus=settings.taus,
                            repetitions=settings.repetitions, warmup=run.params.speed.warmup, device=run.device)


def _validation(context: DraftingContext) -> Validation:
    """The first sentences of the validation split, longest first."""
    pairs = context.run.pairs("validation")[:context.settings.validation_sentences]
    order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][0]))
    sources = [pairs[row][0] for row in order]
    files = [layout.read_corpus(path) for path in layout.references("validation")]
    references = [[lines[row] for row in order] for lines in files]
    tokenizer = context.run.params.evaluation.bleu_tokenizer

    def bleu(found: Sequence[Hypotheses]) -> float:
        texts = [text for one in found for text in context.texts(one)]
        return float(make_bleu(tokenizer).corpus_score(texts, references).score)

    batches = [context.pad(sources[start:start + _ROWS]) for start in range(0, len(sources), _ROWS)]
    singles = context.run.spread_sources(sources, context.settings.sentences, context.longest)[1]
    return Validation(batches, bleu, singles)


def draft_acceptance(search_with: Callable[[gad.Settings], Translate], own_block: int, validation: Validation,
                     baseline: Contestant, *, blocks: Sequence[int], betas: Sequence[int], taus: Sequence[float],
                     repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Vary block and acceptance.

    Args:
        search_with: the drafter's search with the given settings.
        own_block: k that it was trained for.
        validation: the sentences.
        baseline: speeds are relative to it.
        blocks: values of k to try.
        betas, taus: to try in every combination.
        repetitions, warmup: see `speed.measure`.
        device: of the models.
    """
    by_block = {k: gad.Settings(k) for k in sorted({*blocks, own_block})}
    by_acceptance = {(beta, tau): gad.Settings(own_block, Acceptance(beta, tau))
                     for beta in sorted(betas) for tau in sorted(taus)}
    searches = {one: search_with(one) for one in dict.fromkeys([*by_block.values(), *by_acceptance.values()])}
    found, seconds = _measure(searches, validation, baseline, repetitions, warmup, device)
    exact = {k: found[one] for k, one in by_block.items()}
    relaxed = {pair: found[one] for pair, one in by_acceptance.items()}
    metric: dict[str, Any] = {
        "baseline": f"{baseline.family} {baseline.decoder}", "block": own_block, "device": device.type,
        "sentences": sum(map(len, validation.batches)), "timed_sentences": len(validation.singles),
        "exact": {f"block{k}": figures for k, figures in exact.items()},
        "fastest": _fastest({k: seconds[one] for k, one in by_block.items() if k <= own_block}),
        "relaxed": {f"beta{beta}_tau{tau:g}": figures for (beta, tau), figures in relaxed.items()}}
    return Finding(metric, _draw(exact, relaxed, own_block, metric["sentences"]))


@torch.inference_mode()
def _measure(searches: Mapping[gad.Settings, Translate], validation: Validation, baseline: Contestant,
             repetitions: int, warmup: int, device: torch.device) -> tuple[dict[gad.Settings, dict[str, float]],
                                                                           dict[gad.Settings, Floats]]:
    """Each search's figures, quality in batches and speed sentence by sentence, and its seconds per sentence."""
    contestants = [Contestant("drafter", str(one), search) for one, search in searches.items()]
    times = measure([baseline, *contestants], {1: validation.singles}, repetitions=repetitions, warmup=warmup,
                    device=device)[1].medians
    figures = {}
    for (settings, search), seconds in zip(searches.items(), times[1:], strict=True):
        translated = [search(batch) for batch in validation.batches]
        calls = sum(one.calls.sum().item() for one in translated)
        tokens = sum(one.lengths[:, 0].sum().item() + one.ended[:, 0].sum().item() for one in translated)
        speedup, low, high = speed_ratio(times[0], seconds)
        figures[settings] = {
            "accepted_per_call": tokens / calls, "calls": calls / sum(map(len, validation.batches)),
            "bleu": validation.bleu(translated), "speedup_vs_beam5": speedup, "speedup_low": low, "speedup_high": high}
    return figures, dict(zip(searches, times[1:], strict=True))


def _fastest(seconds: Mapping[int, Floats]) -> dict[str, Any]:
    """The k with the least time, and how many times as fast it is as every other one."""
    best = min(seconds, key=lambda k: float(seconds[k].sum()))
    return {"block": best, "against": {f"block{k}": speed_ratio(other, seconds[best]).named("speedup")
                                       for k, other in seconds.items() if k != best}}


def _draw(exact: Mapping[int, Mapping[str, float]], relaxed: Mapping[tuple[int, float], Mapping[str, float]],
          own_block: int, sentences: int) -> Figure:
    figure, (by_block, trade) = chart.new_picture(2)
    for key, label, colour in (("accepted_per_call", "tokens per call", chart.COLOURS[0]),
                               ("speedup_vs_beam5", "times as fast as beam 5", chart.COLOURS[1])):
        chart.curve(by_block, list(exact), [one[key] for one in exact.values()], colour, label=label,
                    intervals=[(one["speedup_low"], one["speedup_high"]) for one in exact.values()
                               ] if key == "speedup_vs_beam5" else ())
    by_block.xaxis.set_major_locator(MaxNLocator(integer=True))
    by_block.set_ylim(bottom=0)
    chart.name_axes(by_block, "k, tokens per draft", "tokens per call; times as fast", "exact acceptance")
    betas = list(dict.fromkeys(beta for beta, _ in relaxed))
    for beta, colour in zip(betas, chart.COLOURS[2:] * len(betas), strict=False):
        points = [(tau, one["accepted_per_call"], one["bleu"]) for (own, tau), one in relaxed.items() if own == beta]
        chart.curve(trade, [x for _, x, _ in points], [y for *_, y in points], colour, label=f"β = {beta}")
        for tau, x, y in points:
            trade.annotate(f"{tau:g}", (x, y), xytext=(4, 5), textcoords="offset points", fontsize=8, color=colour)
    own = exact[own_block]
    trade.plot(own["accepted_per_call"], own["bleu"], color=chart.THEME.ink, marker="s", markersize=6, linestyle="",
               label="exact")
    trade.margins(0.12)
    chart.name_axes(trade, "tokens per call", f"BLEU of {sentences} sentences",
                    f"relaxed acceptance, k = {own_block}; at the points: τ")
    chart.add_legend(figure, 5)
    return figure
