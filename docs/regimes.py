"""The table and the picture of `docs/results.md` that show from which size on a decoder pays: from the report of
`benchmarks.regimes` and, for trained systems, from those of the runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.reports import NOT_MEASURED, exists, read
from docs.tables import table, when
from pipeline.evaluation.analyses import chart

REPORT, PICTURE = "benchmarks/results/regimes.json", "benchmarks/results/regimes.png"
PRECISIONS: Mapping[str, str] = {"float32": "", "int8": "_int8"}
"""Each with the end of its decoders' names."""
SENTENCES = (1, 32)
DRAWN = ("interleaved greedy", "double_token greedy", "interleaved_sa greedy", "multi_directional greedy",
         "lattice lattice32", "ar iad", "ar pgj3", "drafter gad", "speculative speculative", "blockwise blockwise")
_BASELINE = "ar greedy"
CORRECTORS: Mapping[int, str] = {512: "reports/gec_base/decoders.json"}
"""Reports of trained systems whose sources are nearly their targets, by width."""

Speeds = Mapping[tuple[str, int], float]
"""The speed over greedy search of the same precision, by search and number of sentences at once."""


def regimes() -> str:
    """Speed over greedy search of every decoder, by width and precision, on random weights and on trained ones."""
    if not exists(REPORT):
        return NOT_MEASURED
    report = read(REPORT)
    columns = list(_columns(report))
    names = dict.fromkeys(row["search"] for result in report["results"] for row in result["rows"])
    tokens = {row["search"]: f"{row['tokens_per_call']:.2f} ({_run(row['tokens_per_call_of'])})"
              for result in report["results"] if result["width"] == max(report["trained"].values())
              for row in result["rows"] if row["tokens_per_call"] is not None}
    return "\n\n".join((when(report), table(
        ["search", "tokens per call", *(title for title, _ in columns)],
        ([f"`{name}`", tokens.get(name, ""), *(_cell(speeds, name) for _, speeds in columns)]
         for name in names if name != _BASELINE)),
        f"![Speed over greedy search by the width of the model](../{PICTURE})"))


def draw() -> bytes:
    """The same as a picture: lines for random weights, stars for trained systems.

    Returns:
        A PNG of 1600 x 1000 pixels.
    """
    report = read(REPORT)
    figure, axes = chart.new_picture(len(PRECISIONS), above=0.5)
    panels = [(precision, size) for size in reversed(SENTENCES) for precision in PRECISIONS]
    for axis, (precision, size) in zip(axes, panels, strict=True):
        measured = {width: _random(report, width, precision) for width in _widths(report)}
        for name, colour in zip(DRAWN, chart.COLOURS, strict=False):
            points = [(width, speeds[name, size]) for width, speeds in measured.items() if (name, size) in speeds]
            chart.curve(axis, *_unzip(points), colour, label=name if axis is axes[0] else "")
            stars = [(width, speeds[name, size]) for run, width in report["trained"].items()
                     if (name, size) in (speeds := _trained(run, precision))]
            axis.plot(*_unzip(stars), "*", color=colour, markersize=10, markeredgecolor=chart.THEME.paper)
        if axis is axes[0]:
            axis.plot([], [], "*", color=chart.THEME.muted, markersize=10, label="trained")
        axis.axhline(1, color=chart.THEME.muted, linewidth=1)
        chart.powers_of_two(axis, list(measured))
        chart.logarithmic(axis, "x")
        lower = size != SENTENCES[0]
        chart.name_axes(axis, "width of the model" if lower else "", "speed over greedy search",
                        f"{precision}, {'one sentence' if not lower else f'{size} sentences'} at a time")
    chart.add_legend(figure, 4)
    return chart.png(figure)


def _run(report: str) -> str:
    """The run that a report is of, as the ledger names it.

    >>> _run("reports/decoders.json"), _run("reports/base/decoders.json")
    ('default', 'base')
    """
    folder = Path(report).parent
    return "default" if folder == Path("reports") else folder.name


def _columns(report: Mapping[str, Any]) -> Iterable[tuple[str, Speeds]]:
    for precision in PRECISIONS:
        for width in _widths(report):
            yield f"{precision}, d={width}", _random(report, width, precision)
        for run, width in report["trained"].items():
            if speeds := _trained(run, precision):
                yield f"{precision}, d={width}, trained", {**speeds, **_correcting(width, precision)}


def _cell(speeds: Speeds, name: str) -> str:
    found = [speeds.get((name, size)) for size in SENTENCES]
    return "" if found[0] is None else " / ".join("–" if speed is None else f"{speed:.2f}" for speed in found)


def _widths(report: Mapping[str, Any]) -> list[int]:
    return sorted({result["width"] for result in report["results"]})


def _random(report: Mapping[str, Any], width: int, precision: str) -> Speeds:
    return {(row["search"], result["sentences"]): row["over_greedy"][0] for result in report["results"]
            if (result["width"], result["precision"]) == (width, precision) for row in result["rows"]}


def _trained(run: str, precision: str) -> Speeds:
    if not exists(run):
        return {}
    rows = {f"{row['family']} {row['decoder']}": row for row in read(run)}
    end = PRECISIONS[precision]
    greedy = rows.get(_BASELINE + end)
    if greedy is None:
        return {}
    found = {name.removesuffix(end): row for name, row in rows.items() if name.endswith("_int8") == bool(end)}
    speeds = {name: (row["speedup_vs_greedy"], 1 / row["ms_per_sentence_batch32"]) for name, row in found.items()}
    mine = greedy["speedup_vs_greedy"], 1 / greedy["ms_per_sentence_batch32"]
    return {(name, size): speed / base for name, both in speeds.items()
            for size, speed, base in zip(SENTENCES, both, mine, strict=True) if speed is not None}


def _correcting(width: int, precision: str) -> Speeds:
    """The speeds of a trained corrector, by the names that its searches have in the benchmark."""
    family = _BASELINE.split()[0]
    found = _trained(CORRECTORS[width], precision) if width in CORRECTORS else {}
    return {(f"correction {name.removeprefix(f'{family} ')}", size): speed for (name, size), speed in found.items()
            if name.startswith(f"{family} ")}


def _unzip(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
