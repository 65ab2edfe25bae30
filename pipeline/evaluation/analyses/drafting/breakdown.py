"""Where does the time of a draft and its verification go? (Table 15 of the paper.)

The search of the table itself is timed, on the one clock, one sentence at a time; its drafter and its verifier are
wrapped in a stopwatch. What is left of the whole, "others", is the loop's own: to choose and judge drafts, to extend
prefixes and to move states.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.decoding.settings import Decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.parts import Search, Stopwatch, Watched, time_parts
from pipeline.evaluation.rows import Name

MEASURED = ("verifier_encoder", "drafter_encoder", "drafter", "verifier")
PARTS = (*MEASURED, "others")
VERBS = {"draft_memory": "drafter_encoder",
         **dict.fromkeys(("start", "propose", "draft_tokens", "continue_greedily", "head_states"), "drafter")}
"""The part that the time of each verb belongs to, of a model that drafts for its `verifier`."""
_VERIFIER = {"encode": "verifier_encoder", "start": "verifier", "step": "verifier"}
_LABELS = ("verifier's encoder", "drafter's encoder", "drafter", "verifier", "others")


def draft_breakdown(searches: Mapping[Name, tuple[Any, Decoder]], sentences: Sequence[Tensor], *,
                    repetitions: int, warmup: int, device: torch.device) -> Finding:
    """Time the parts of every search.

    Args:
        searches: models that draft for their `verifier`, each under a decoder.
        sentences: (1, S) ids each, on the device.
        repetitions, warmup: see `speed.measure`.
        device: that the models are on.
    """
    metric: dict[str, Any] = {"sentences": len(sentences), "repetitions": repetitions, "device": device.type,
                              "threads": torch.get_num_threads()}
    seconds = time_parts([_watched(*one, device) for one in searches.values()], sentences, repetitions, warmup)
    parts = {name: dict(zip(PARTS, times, strict=True))
             for name, times in zip(searches, (1000 * seconds.mean(1)).tolist(), strict=True)}
    for (family, decoder), found in parts.items():
        whole, steps = sum(found.values()), found["drafter"] + found["verifier"]
        metric.setdefault(family, {})[decoder] = {
            "milliseconds": whole, **{f"{part}_milliseconds": time for part, time in found.items()},
            **{f"{part}_share": time / whole for part, time in found.items()},
            "others_over_steps": found["others"] / steps}
    return Finding(metric, _draw(parts))


def _watched(model: Any, search: Decoder, device: torch.device) -> Search:
    watch = Stopwatch(MEASURED, device)
    timed = Watched(model, watch, VERBS, Watched(model.verifier, watch, _VERIFIER))
    return Search(lambda source: search(timed, source), watch)


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
    chart.name_axes(axes, "ms a sentence", "")
    chart.add_legend(figure, len(PARTS))
    return figure
