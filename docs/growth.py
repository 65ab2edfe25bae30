"""The tables of `docs/scale.md`: what grows with the corpus, from the report of `benchmarks.scale`."""

from collections.abc import Mapping

from docs.reports import NOT_MEASURED, exists, read
from docs.tables import number, table, when

REPORT = "benchmarks/results/scale.json"


def scale() -> str:
    """Time and memory of every stage by the size of the corpus, with projections, and what of them has a target."""
    if not exists(REPORT):
        return NOT_MEASURED
    report = read(REPORT)
    stages: Mapping[str, Mapping[str, Mapping[str, float]]] = report["stages"]
    sizes, projected = list(report["measured"]), ("40000000", "1000000000")

    def cell(name: str, pairs: str) -> str:
        usage = stages[name].get(pairs)
        return "" if usage is None else (f"{usage['seconds']:,.0f} s, {usage['processor_seconds']:,.0f} s, "
                                         f"{usage['anonymous_mb']:,.0f} MB")

    def law(name: str, pairs: str) -> str:
        laws = report["projected"][name]
        return "" if len(stages[name]) < 2 else (  # no line goes through one point
            f"{laws['processor_seconds'][pairs] / 3600:,.1f} h, {laws['anonymous_mb'][pairs] / 1000:,.1f} GB")

    def over(one: str, other: str, pairs: str, figure: str) -> str:
        both = [stages.get(name, {}).get(pairs) for name in (one, other)]
        return "" if None in both else f"{both[0][figure] / both[1][figure]:.2f}"  # type: ignore[index]

    def together(pairs: str) -> list[str]:
        main = [stages[name][pairs] for name in ("corpus", "bpe", "align", "counts") if pairs in stages.get(name, {})]
        return [number(sum(usage["seconds"] for usage in main) / 3600, ".2f"),
                number(sum(usage["processor_seconds"] for usage in main) / 3600, ".2f"),
                *(number(max(usage[memory] for usage in main), ",.0f") for memory in ("anonymous_mb", "peak_mb"))
                ] if len(main) == 4 else [""] * 4

    return "\n\n".join((
        *(f"{int(pairs):,} pairs, load {report['measured'][pairs]['machine']['load']:.1f} at the start: "
          f"{when(report['measured'][pairs])}" for pairs in sizes),
        table(["stage: time, processor time, memory", *(f"{int(pairs):,} pairs" for pairs in sizes),
               *(f"projected, {int(pairs):,}" for pairs in projected)],
              ([name, *(cell(name, pairs) for pairs in sizes), *(law(name, pairs) for pairs in projected)]
               for name in stages)),
        table(["pairs", "corpus to counts, hours", "of processors", "most memory, MB",
               "with mapped files", "fast_align / align text, time",
               "of processors", "memory", "1 thread / 2 ranks, time"],
              ([f"{int(pairs):,}", *together(pairs),
                *(over("fast_align", "align text", pairs, figure)
                  for figure in ("seconds", "processor_seconds", "anonymous_mb")),
                over("align, 1 thread", "align, 2 ranks", pairs, "seconds")] for pairs in sizes)),
        "![Processor time and memory over the number of pairs](../benchmarks/results/scale.png)"))
