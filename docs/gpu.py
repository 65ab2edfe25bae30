"""The tables and the picture of `docs/gpu.md`, from the reports of `benchmarks.gpu` and, beside them, of two cores."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from docs import regimes
from docs.reports import NOT_MEASURED, exists, read
from docs.tables import table, when
from pipeline.evaluation.analyses import chart

REPORTS = {name: f"reports/gpu/{name}.json" for name in ("steps", "searches", "viterbi", "training")}
PICTURE = "reports/gpu/gpu.png"
WIDTH, PRECISION = 512, "bfloat16"
"""What the table of findings and the picture show."""
CORES = "float32"
"""The format of the same searches on a CPU, which has no faster products of two bytes."""
GREEDY = "ar greedy"


class Gain(NamedTuple):
    """One search over another."""

    what: str
    """A finding of the ledger, or in words."""
    search: str
    reference: str


GAINS = (
    Gain("two words per step", "interleaved greedy", GREEDY),
    Gain("two words per step", "double_token greedy", GREEDY),
    Gain("four words per step", "interleaved_sa greedy", GREEDY),
    Gain("four words per step", "multi_directional greedy", GREEDY),
    Gain("at least 1.9 with as many beams (9)", "interleaved beam4", "ar beam4"),
    Gain("faster with as many beams (3)", "double_token pair_beam4", "ar beam4"),
    Gain("GAD", "drafter gad_block", "ar beam5"),
    Gain("GAD, four tokens", "drafter gad", "ar beam5"),
    Gain("a small model's drafts", "speculative speculative", "ar beam5"),
    Gain("IAD, correction", "correction iad_whole", "ar beam5"),
    Gain("PGJ, translation", "ar pgj3", GREEDY),
    Gain("lattice", "lattice lattice32", "ar beam5"),
    Gain("lattice", "lattice lattice64", "ar beam5"))
_DRAWN = (GREEDY, "ar beam5", "interleaved greedy", "interleaved_sa greedy", "drafter gad", "speculative speculative",
          "correction iad_whole", "lattice lattice32")


def are_there() -> bool:
    """Whether all reports that are shown have been measured."""
    return all(map(exists, [*REPORTS.values(), regimes.REPORT]))


def gpu() -> str:
    """Steps, searches, the best path of a lattice, and training."""
    if not are_there():
        return NOT_MEASURED
    steps, searches, viterbi, training = map(read, REPORTS.values())
    trained = training["results"][0]
    return "\n\n".join((
        when(searches), "A step of greedy search, milliseconds:", _steps(steps),
        f"One search over another, d={WIDTH}, one sentence at a time:", _gains(searches),
        f"Speed over greedy search, d={WIDTH}, {PRECISION}, and milliseconds per sentence:", _batches(searches),
        "The best path of a lattice of 30 positions, milliseconds:", table(
            ["candidates", "one sentence, serial", "scan", "32 sentences, serial", "scan"],
            [[str(K), *(f"{row[key]:.1f}" for size in (1, 32) for row in viterbi["rows"]
                        if (row["candidates"], row["sentences"]) == (K, size) for key in ("serial_ms", "scan_ms"))]
             for K in dict.fromkeys(row["candidates"] for row in viterbi["rows"])]),
        f"Training of Transformer base in {trained['precision']}, batches of {training['batch_tokens']} target tokens: "
        + ", ".join(f"{name} {rate:,.0f} target tokens per second"
                    for name, rate in trained["tokens_per_second"].items()) + ".",
        f"![Milliseconds per sentence by batch](../{PICTURE})"))


def draw() -> bytes:
    """Steps computed and recorded, and the time of searches by batch size: a PNG."""
    figure, (left, right) = chart.new_picture(2)
    rows = [row for row in read(REPORTS["steps"])["rows"] if row["width"] == WIDTH and row["precision"] == PRECISION]
    sizes = [row["sentences"] for row in rows]
    for key, name, colour in zip(("eager_ms", "graph_ms"), ("one by one", "as one operation"), chart.COLOURS,
                                 strict=False):
        chart.curve(left, sizes, [row[key] for row in rows], colour)
        left.annotate(name, (sizes[0], rows[0][key]), textcoords="offset points",
                      xytext=(4, 8 if key == "graph_ms" else -16), color=colour)
    for name, colour in zip(_DRAWN, chart.COLOURS, strict=False):
        taken = _milliseconds(read(REPORTS["searches"]))
        points = [(size, taken[size, name]) for size in sizes if (size, name) in taken]
        chart.curve(right, [x for x, _ in points], [y for _, y in points], colour, label=name)
    for axes, title in ((left, "a step of greedy search"), (right, "a sentence")):
        chart.powers_of_two(axes, sizes)
        chart.logarithmic(axes)
        chart.name_axes(axes, "sentences at once", "milliseconds", f"{title}, d={WIDTH}, {PRECISION}")
    chart.add_legend(figure, 4)
    return chart.png(figure)


def _steps(report: Mapping[str, Any]) -> str:
    return table(["width", "format", "sentences", "kernels one by one", "one recorded operation", "share"], [
        [str(row["width"]), row["precision"], str(row["sentences"]), f"{row['eager_ms']:.2f}", f"{row['graph_ms']:.2f}",
         f"{row['graph_ms'] / row['eager_ms']:.2f}"] for row in report["rows"]], texts=3)


def _gains(report: Mapping[str, Any]) -> str:
    here = _over_greedy(report, PRECISION)
    cores = _over_greedy(read(regimes.REPORT), CORES)
    return table(["what", "search", "over", f"two cores, {CORES}", f"GPU, {PRECISION}"], [
        [gain.what, f"`{gain.search}`", f"`{gain.reference}`",
         *(f"{speeds[gain.search] / speeds[gain.reference]:.2f}" if gain.search in speeds else ""
           for speeds in (cores, here))] for gain in GAINS], texts=3)


def _over_greedy(report: Mapping[str, Any], precision: str) -> dict[str, float]:
    """The speed of each search over greedy search, with which it took turns, one sentence at a time."""
    return {row["search"]: row["over_greedy"][0] for block in report["results"]
            if (block["width"], block["precision"], block["sentences"]) == (WIDTH, precision, 1)
            for row in block["rows"]}


def _batches(report: Mapping[str, Any]) -> str:
    blocks = [block for block in report["results"] if (block["width"], block["precision"]) == (WIDTH, PRECISION)]
    cells = {(row["search"], block["sentences"]): f"{row['over_greedy'][0]:.2f} ({row['milliseconds']:.2f})"
             for block in blocks for row in block["rows"]}
    return table(["search", *(f"{block['sentences']} at once" for block in blocks)], [
        [f"`{row['search']}`", *(cells[row["search"], block["sentences"]] for block in blocks)]
        for row in blocks[0]["rows"]])


def _milliseconds(report: Mapping[str, Any]) -> dict[tuple[int, str], float]:
    """Per sentence, by how many there are at once and the search."""
    return {(block["sentences"], row["search"]): row["milliseconds"] for block in report["results"]
            if (block["width"], block["precision"]) == (WIDTH, PRECISION) for row in block["rows"]}
