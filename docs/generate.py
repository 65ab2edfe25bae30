"""Write what README and docs show of reports and orders: `python -m docs.generate`, in the root of the repository.

`docs/orders.md` is generated as a whole; in the other pages, it is what stands between `<!-- generated: NAME -->` and
`<!-- end of NAME -->`, a function of `BLOCKS` each, and all else is written by hand. A test compares the pages with the
reports.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from docs import gpu, regimes
from docs.distilled import distilled
from docs.draw_orders import page
from docs.growth import scale
from docs.levers import levers
from docs.tables import number, table, when
from pipeline.evaluation.claims.findings import FINDINGS
from pipeline.params import Params, parse_params
from pipeline.peer_settings import FAMILY as PEER
from pipeline.strict_yaml import read_yaml
from pipeline.systems import TEACHER, lay_over

ROOT = Path(__file__).parents[1]
RUN, FULL, BASE, LATTICES, DRAFTERS, CORRECTION, CORRECTION_BASE = (
    "reports", "reports/full", "reports/base", "reports/lattice", "reports/drafting", "reports/gec", "reports/gec_base")
"""Folders of the runs that are shown: the default one, and those of six presets."""
LEDGERS = {"default": RUN, "full": FULL, "papers": "reports/papers", "lattice": LATTICES, "drafting": DRAFTERS,
           "base": BASE, "gec_base": CORRECTION_BASE}
"""The runs whose verdicts on the papers' findings are shown, by their titles."""
ALIGNMENT, ROUNDS = "benchmarks/results/alignment.json", "benchmarks/results/drafting.json"
ENGINES, OPUS_MT = "benchmarks/results/marian.json", "benchmarks/results/opus_mt.json"
FAULTS, SERVICE = "benchmarks/results/faults.json", "benchmarks/results/service.json"

TOLERANCE = 0.5
"""BLEU that a decoder may be below the search whose quality is asked for."""

Row = Mapping[str, Any]

TRANSLATION = {"bleu": "BLEU"}
EDITS = {"precision": "precision", "recall": "recall", "f05": "F0.5", "gleu": "GLEU"}
"""Measures of quality of translations and of corrections, and their titles."""


def summary() -> str:
    """The README's first figures."""
    corpus = json.loads((ROOT / RUN / "corpus.json").read_text(encoding="utf-8"))
    greedy, beam = (find(RUN, baseline(), name) for name in ("greedy", "beam5"))
    others = [f"{title} {row['ms_per_sentence']:.1f} ms" for row in decoders(RUN)
              for name, title in (("hf_greedy", "Hugging Face transformers"), ("ctranslate2_greedy", "CTranslate2"))
              if row["decoder"] == name]
    return (f"Trained on {corpus['train']['kept']:,} pairs, the baseline `{baseline()}` takes "
            f"{greedy['ms_per_sentence']:.1f} ms per test sentence under greedy search (sacreBLEU "
            f"{greedy['bleu']:.1f}) and {beam['ms_per_sentence']:.1f} ms under beam search with five beams "
            f"({beam['bleu']:.1f}). Greedy search of the same weights by other libraries, in float32 and the fastest "
            f"of several numbers of threads: {', '.join(others)}. {measured(f'{RUN}/speed.json')}")


def choice() -> str:
    """Which decoder to use, by size and device: the fastest that keeps what is asked for."""
    def row(model: str, wish: str, found: Row) -> list[str]:
        quality = f"BLEU {found['bleu']:.1f}" if found["f05"] is None else f"F0.5 {found['f05']:.1f}"
        return [model, wish, f"`{found['family']}`", f"`{found['decoder']}`", quality,
                f"{found['speedup_vs_beam5']:.1f}", f"{found['speedup_vs_greedy']:.1f}"]

    def fastest(run: str, kept: Callable[[Row], bool]) -> Row:
        candidates = [one for one in decoders(run) if one["family"] != PEER and kept(one)]
        return max(candidates, key=lambda one: one["speedup_vs_greedy"] or 0.0)

    def nearly(run: str, decoder: str) -> Callable[[Row], bool]:
        least = find(run, baseline(), decoder)["bleu"] - TOLERANCE
        return lambda one: one["bleu"] >= least

    def exact(run: str) -> Callable[[Row], bool]:
        params, greedy = parameters(run), find(run, baseline(), "greedy")
        return lambda one: one == greedy or (one["family"] != TEACHER and drafts(one)
                                             and one["identical_to_greedy"] == 1
                                             and params.greedy_of(one["decoder"]) == "greedy")

    def as_right(run: str) -> Callable[[Row], bool]:
        least = find(run, baseline(), "greedy")["f05"] - TOLERANCE
        return lambda one: one["f05"] >= least

    task = "[correction](docs/results.md#grammatical-error-correction) (`PROFILE={}`)"
    wishes = [(model, wish, fastest(run, kept)) for model, run in (("d=128, CPU", RUN), ("d=512, CPU", BASE))
              for wish, kept in (("the shortest time", nearly(run, "greedy")),
                                 ("the text of greedy search", exact(run)),
                                 ("the quality of beam search", nearly(run, "beam5")))]
    return table(
        ["model, device", "you want", "family", "decoder", "quality", "× `beam5`", "× `greedy`"],
        [*(row(*wish) for wish in wishes),
         *(row(model, task.format(Path(run).name), fastest(run, as_right(run)))
           for model, run in (("d=128, CPU", CORRECTION), ("d=512, CPU", CORRECTION_BASE)))], texts=5)


def search(run: str = RUN) -> str:
    """Every search of a run that neither drafts nor is another library's."""
    rows = [row for row in decoders(run) if row["family"] != PEER and not drafts(row)]
    return dated(f"{run}/speed.json", table(
        ["family", "decoder", "data", "steps", "BLEU", "chrF", "ms", "ms, long", "× beam 5", "× same beam"],
        ([row["family"], f"`{row['decoder']}`", row["data"], f"{steps(run, row['family']):,}",
          number(row["bleu"], ".2f"), number(row["chrf"], ".1f"), number(row["ms_per_sentence"], ".1f"),
          number(row["ms_per_sentence_long"], ".1f"), number(row["speedup_vs_beam5"], ".2f"),
          number(row["ratio_vs_ar_same_decoder"], ".2f")] for row in rows), texts=3),
        f"`{rows[0]['bleu_signature']}`")


def peers(run: str = RUN, qualities: Mapping[str, str] = TRANSLATION) -> str:
    """The same weights in other libraries and here. The arguments are those of `drafting`."""
    ours = [(baseline(), "greedy"), (baseline(), "beam5"), ("speculative", "speculative"), (baseline(), "greedy_int8"),
            ("speculative", "speculative_int8")]
    return dated(f"{run}/speed.json", table(
        ["search", *qualities.values(), "ms", "ms, long", "× beam 5", "× greedy", "tokens/s", "tokens/s, 32 at once",
         "= greedy"],
        ([row["decoder"] if row["family"] == PEER else f"**{row['family']} {row['decoder']}**",
          *(number(row[key], ".2f") for key in qualities),
          number(row["ms_per_sentence"], ".1f"), number(row["ms_per_sentence_long"], ".1f"),
          number(row["speedup_vs_beam5"], ".2f"), number(row["speedup_vs_greedy"], ".2f"),
          number(row["tokens_per_second"], ",.0f"), number(row["tokens_per_second_batch32"], ",.0f"),
          number(row["identical_to_greedy"], ".1%")]
         for row in decoders(run) if row["family"] == PEER or (row["family"], row["decoder"]) in ours)))


def full() -> str:
    """The run of the whole catalogue: what is shown of the default run, in one block."""
    return everything(FULL)


def base() -> str:
    """The same of models of base size."""
    return everything(BASE)


def everything(run: str) -> str:
    """Searches of a run, draft and verify, and other libraries."""
    return "\n\n".join((search(run), "Draft and verify:", drafting(run), "Other libraries:", peers(run)))


def drafting(run: str = RUN, qualities: Mapping[str, str] = TRANSLATION) -> str:
    """Draft and verify beside greedy and beam search.

    Args:
        run: folder of a run's reports.
        qualities: its measures of quality, and their titles.
    """
    references = [(baseline(), "greedy"), (baseline(), "beam5")]
    together = find(run, *references[0])["tokens_per_second_batch32"]
    return dated(f"{run}/speed.json", table(
        ["family", "decoder", *qualities.values(), "accepted", "ms, long", "× beam 5", "× greedy",
         "× greedy, 32 at once", "= greedy", "ties"],
        ([row["family"], f"`{row['decoder']}`", *(number(row[key], ".2f") for key in qualities),
          number(row["accepted_per_call"], ".2f"), number(row["ms_per_sentence_long"], ".1f"),
          number(row["speedup_vs_beam5"], ".2f"), number(row["speedup_vs_greedy"], ".2f"),
          number(row["tokens_per_second_batch32"] / together, ".2f"), number(row["identical_to_greedy"], ".1%"),
          number(row["ties"], "d")]
         for row in decoders(run) if drafts(row) or (row["family"], row["decoder"]) in references), texts=2))


def correction(run: str = CORRECTION) -> str:
    """The same of grammatical error correction."""
    return drafting(run, EDITS)


def correction_base() -> str:
    """The same of correctors of base size, and of other libraries."""
    return "\n\n".join((correction(CORRECTION_BASE), "Other libraries:", peers(CORRECTION_BASE, EDITS)))


def lattices() -> str:
    """Searches of lattices and non-autoregressive models by layers and data."""
    return search(LATTICES)


def drafters() -> str:
    """Draft and verify by drafters of several sizes and kinds."""
    return drafting(DRAFTERS)


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


def claims() -> str:
    """The papers' findings that a run has measured, and the verdict of each run."""
    ledgers = {title: {one["finding"]: one for one in json.loads((ROOT / run / "claims.json").read_text(
        encoding="utf-8")) if one["verdict"] != "not measured"} for title, run in LEDGERS.items()}
    rows, decided = list[list[str]](), 0
    for which, finding in FINDINGS.items():
        found = {title: ledger[which] for title, ledger in ledgers.items() if which in ledger}
        decided += any(one["verdict"] in ("true", "false") for one in found.values())
        why = [f"*{title}:* {' '.join(part['why'] for part in one['parts'])}" for title, one in found.items()]
        if found:
            rows.append([str(which), finding.statement, f"{finding.paper}, {finding.where}",
                         *(found[title]["verdict"] if title in found else "" for title in ledgers), " ".join(why)])
    return "\n\n".join((
        *(f"{title}, [{run}](../{run}): {measured(f'{run}/speed.json')}" for title, run in LEDGERS.items()),
        table(["", "finding", "paper", *ledgers, "why"], rows, texts=4 + len(ledgers)),
        f"Together they decide {decided} of {len(FINDINGS)} findings, and measure {len(rows)}."))


def service() -> str:
    """Latencies of one client and of many at once, with and without batches."""
    if not (ROOT / SERVICE).exists():
        return "Not measured yet."
    return dated(SERVICE, table(
        ["service", "decoder", "clients", "p50, ms", "p95, ms", "p99, ms", "sentences/s"],
        ([row["service"], f"`{row['decoder']}`", str(row["clients"]),
          *(number(row[name], ",.1f") for name in ("p50_ms", "p95_ms", "p99_ms")),
          number(row["sentences_per_second"], ",.0f")] for row in read(SERVICE)["rows"]), texts=2))


def faults() -> str:
    """Each kind of fault: how often it was tried, how often all was as promised, and one of the lines that it gave."""
    if not (ROOT / FAULTS).exists():
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


def measured(report: str) -> str:
    """When, by which code and on which machine a report's times were measured, in a sentence."""
    return when(read(report))


def dated(report: str, *paragraphs: str) -> str:
    """What a report shows, and when and where it was measured."""
    return "\n\n".join((measured(report), *paragraphs))


@cache
def parameters(run: str = RUN) -> Params:
    """The parameters of a run: the default ones, under those of the preset that has the name of the run's folder."""
    content = read_yaml(ROOT / "params.yaml")
    return parse_params(content if run == RUN else lay_over(content, ROOT / "presets" / f"{Path(run).name}.yaml"))


def baseline() -> str:
    """The family that all others are compared with."""
    return parameters().baseline


def decoders(run: str) -> list[Row]:
    """The rows of a run."""
    rows: list[Row] = json.loads((ROOT / run / "decoders.json").read_text(encoding="utf-8"))
    return rows


def steps(run: str, family: str) -> int:
    """The steps of a family's own training, which may have ended before its ceiling."""
    last: int = read(f"{run}/training/{family}/metrics.json")["step"]  # from 0
    return last + 1


def find(run: str, family: str, decoder: str) -> Row:
    """The row of one decoder of a run."""
    return next(row for row in decoders(run) if (row["family"], row["decoder"]) == (family, decoder))


def drafts(row: Row) -> bool:
    """Whether a decoder drafts, with its drafts verified or not."""
    return row["accepted_per_call"] is not None or row["decoder"] == "draft"


def read(report: str) -> dict[str, Any]:
    """A report that is an object."""
    content: dict[str, Any] = json.loads((ROOT / report).read_text(encoding="utf-8"))
    return content


BLOCKS: dict[str, Callable[[], str]] = {
    "summary": summary, "choice": choice, "search": search, "peers": peers, "drafting": drafting, "full": full,
    "base": base, "regimes": regimes.regimes, "correction": correction, "correction_base": correction_base,
    "engines": partial(engines, ENGINES), "opus_mt": partial(engines, OPUS_MT), "lattices": lattices,
    "drafters": drafters, "rounds": rounds, "alignment": alignment, "gpu": gpu.gpu, "claims": claims, "scale": scale,
    "service": service, "levers": partial(levers, "levers"), "larger": partial(levers, "larger"),
    "distilled": distilled, "faults": faults}
"""What stands between the marks of each name."""
_MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page that is generated, or with something generated, as it should be."""
    found = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
    return {path: _MARKED.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}\n{block[3]}", text)
            for path, text in found.items() if _MARKED.search(text)} | {ROOT / "docs/orders.md": page()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    if regimes.REPORT.exists():
        regimes.PICTURE.write_bytes(regimes.draw())
    gpu.PICTURE.write_bytes(gpu.draw())
