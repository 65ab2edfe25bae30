"""Where does the time of a draft and its verification go? (Table 15 of the paper.)

Searches are timed on the one clock, one sentence at a time, with a stopwatch around their drafter and their verifier.
The rest of the time, "others", is the loop's own: to choose and judge drafts, to extend prefixes and to move states.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.settings import Decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.drafting.context import DraftingContext
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.parts import Stopwatch, Watched, WatchedSearch, time_parts
from pipeline.evaluation.rows import Name
from pipeline.model.chained import ChainedTransformer

MEASURED = ("verifier_encoder", "drafter_encoder", "drafter", "verifier")
PARTS = (*MEASURED, "others")
METHODS = {"draft_memory": "drafter_encoder",
         **dict.fromkeys(("start", "propose", "draft_tokens", "continue_greedily", "head_states"), "drafter")}
"""The part to which the time of each method belongs, of a model that drafts for its `verifier`."""
_VERIFIER = {"encode": "verifier_encoder", "start": "verifier", "step": "verifier"}
_LABELS = ("verifier's encoder", "drafter's encoder", "drafter", "verifier", "others")


def ask(context: DraftingContext) -> Finding:
    """Of the entries whose networks draft, over some sentences of the test split."""
    drafters = {(one.family, one.decoder): (one.network, one.search) for one in context.entries
                if isinstance(one.network, ChainedTransformer)}
    if not drafters:
        return not_measured("no family of analyses.drafting.decoders that drafts is among the systems")
    return draft_breakdown(drafters, context.test_sentences()[1], repetitions=context.settings.repetitions,
                           warmup=context.run.params.speed.warmup, device=context.run.device)


def draft_breakdown(searches: Mapping[Name, tuple[Any, Decoder]], sentences: Sequence[Tensor], *,
                    repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Time the parts of every search.

    Args:
        searches: models that draft for their `verifier`, each under a decoder.
        sentences: (1, S) ids each, on the device.
        repetitions, warmup: see `speed.measure`.
        device: of the models.
    """
    metric: dict[str, Any] = {"sentences": len(sentences), "repetitions": repetitions, "device": device.type,
                              "threads": torch.get_num_threads()}
    seconds = time_parts([_watched(*one, device) for one in searches.values()], sentences, repetitions, warmup)
    parts = {name: dict(zip(PARTS, times, strict=True))
             for name, times in zip(searches, (1000 * seconds.mean(1)).tolist(), strict=True)}
    for (family, decoder), found in parts.items():
        total, steps = sum(found.values()), found["drafter"] + found["verifier"]
        metric.setdefault(family, {})[decoder] = {
            "milliseconds": total, **{f"{part}_milliseconds": time for part, time in found.items()},
            **{f"{part}_share": time / total for part, time in found.items()},
            "others_over_steps": found["others"] / steps}
    return Finding(metric, _draw(parts))


def _watched(model: Any, search: Decoder, device: torch.device) -> WatchedSearch:
    watch = Stopwatch(MEASURED, device)
    watched = Watched(model, watch, METHODS, Watched(model.verifier, watch, _VERIFIER))
    return WatchedSearch(partial(search, watched), watch)


def _draw(parts: Mapping[Name, Mapping[str, float]]) -> Figure:
    figure, (axes,) = chart.new_picture()
    names = [" ".join(name) for name in parts]
    left, longest = [0.0] * len(names), max(sum(found.values()) for found in parts.values())
    for part, label, colour in zip(PARTS, _LABELS, chart.COLOURS, strict=False):
        times = [found[part] for found in parts.values()]
        drawn = axes.barh(names, times, left=left, height=0.55, color=colour, label=label)
        shares = [f"{100 * time / sum(found.values()):.0f} %" if time > 0.05 * longest else ""
                  for time, found in zip(times, parts.values(), strict=True)]
        axes.bar_label(drawn, shares, label_type="center", fontsize=8, color=chart.THEME.paper)
        left = [before + time for before, time in zip(left, times, strict=True)]
    axes.grid(axis="y", visible=False)
    axes.set_ylim(max(len(names), 3) - 0.5, -0.5)  # bars as thick for one search as for three
    chart.name_axes(axes, "ms per sentence", "")
    chart.add_legend(figure, len(PARTS))
    return figure
