"""The tables of benchmarks that need no more than the rows of their results."""

from docs.reports import NOT_MEASURED, dated, exists, read
from docs.tables import number, table

ALIGNMENT, ROUNDS = "benchmarks/results/alignment.json", "benchmarks/results/drafting.json"
ENGINES, ENGINES_AVX2 = "benchmarks/results/marian.json", "benchmarks/results/marian_avx2.json"
BATCHES_AVX2, OPUS_MT = "benchmarks/results/marian_batch_avx2.json", "benchmarks/results/opus_mt.json"
FAULTS, SERVICE = "benchmarks/results/faults.json", "benchmarks/results/service.json"


def rounds() -> str:
    """What a round costs by the size of the draft, for every model that was timed."""
    results = read(ROUNDS)["results"]
    costs = [result["round_in_greedy_tokens"] for result in results]
    models = [f"d={network['width']}, {network['encoder_layers']}+{network['decoder_layers']} layers"
              for network in (result["network"] for result in results)]
    return dated(ROUNDS, table(
        ["drafter, tokens drafted", *models],
        ([name, *(number(cost[name][0], ".2f") for cost in costs)] for name in costs[0] if ", " in name)))


def engines(file: str) -> str:
    """Searches of one network on random weights by this project, Hugging Face transformers and CTranslate2."""
    return dated(file, table(
        ["search", "ms", "× transformers greedy", "× CTranslate2 greedy"],
        ([name, number(row["ms_per_sentence"], ".1f"),
          *("{:.2f} ({:.2f} to {:.2f})".format(*row[f"times_faster_than_{peer}"])
            for peer in ("transformers", "ctranslate2"))] for name, row in read(file)["engines"].items())))


def alignment() -> str:
    """Error rates and seconds of fast_align and of this project's aligner."""
    report = read(ALIGNMENT)
    sides = [report["quality"]["fast_align"], report["quality"]["pipeline"]]
    rates = [(f"alignment error rate, {title}, %", *(number(100 * side[name]["aer"], ".1f") if name in side else ""
                                                     for side in sides))
             for title, name in (("forward", "forward"), ("reverse", "reverse"),
                                 ("grow-diag-final-and, joined by the same code", "grow-diag-final-and"),
                                 ("symmetrised by the package", "as the package symmetrises"))]
    [times] = [one for one in report["times"] if one["text"] == "training pairs"]
    seconds = [(f"seconds, {times['pairs']:,} pairs, {title}, {report['threads']} threads",
                *(number(times[name][side]["median"], ".2f") for side in ("fast_align", "pipeline")))
               for title, name in (("forward", "forward"), ("both directions", "both_directions"))]
    return dated(ALIGNMENT, table(["", "fast_align", "this project"], [*rates, *seconds]))


def service() -> str:
    """Latencies of one client and of many at once, with and without batches."""
    if not exists(SERVICE):
        return NOT_MEASURED
    return dated(SERVICE, table(
        ["service", "decoder", "clients", "p50, ms", "p95, ms", "p99, ms", "sentences/s"],
        ([row["service"], f"`{row['decoder']}`", str(row["clients"]),
          *(number(row[name], ",.1f") for name in ("p50_ms", "p95_ms", "p99_ms")),
          number(row["sentences_per_second"], ",.0f")] for row in read(SERVICE)["rows"]), texts=2))


def faults() -> str:
    """Each kind of fault: how often it was tried, how often all was as promised, and one of the lines that it gave."""
    if not exists(FAULTS):
        return "It has not been run yet."
    rows, broken = [], list[str]()
    for kind in read(FAULTS).values():
        outcomes = kind["outcomes"]
        kept = [one for one in outcomes if one["passed"]]
        broken += [f"- {one['what']}: {one['happened']}" for one in outcomes if not one["passed"]]
        example = next((one for one in kept if "error: " in one["happened"]), kept[0] if kept else None)
        rows.append([kind["title"], "" if example is None else f"{example['what']}: {example['happened']}",
                     kind["made"]["commit"] or "unknown", str(len(outcomes)), str(len(kept)), f"{kind['seconds']:,}"])
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    found = table(["fault", "for example", "commit", "tried", "as promised", "seconds"], cells, texts=3)
    return "\n\n".join([found, *(["Not as promised:", "\n".join(broken)] if broken else [])])
