"""The table of `docs/papers.md`: the papers' findings, and the verdict of each run."""

from docs.reports import BASE, CORRECTION_BASE, DRAFTERS, FULL, LATTICES, RUN, measured, read
from docs.tables import table
from pipeline.evaluation.claims.findings import FINDINGS

LEDGERS = {"default": RUN, "full": FULL, "papers": "reports/papers", "lattice": LATTICES, "drafting": DRAFTERS,
           "base": BASE, "gec_base": CORRECTION_BASE}
"""The runs whose verdicts are shown, by their titles."""


def claims() -> str:
    """The papers' findings that a run has measured, and the verdict of each run."""
    ledgers = {title: {one["finding"]: one for one in read(f"{run}/claims.json") if one["verdict"] != "not measured"}
               for title, run in LEDGERS.items()}
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
