"""The papers' findings: the table of verdicts in `docs/papers.md`, and their figures, `docs/findings.md`."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from docs.reports import BASE, CORRECTION_BASE, DRAFTERS, FULL, LATTICES, RUN, measured, read
from docs.tables import table
from pipeline.evaluation.claims.findings import FINDINGS

LEDGERS = {"default": RUN, "full": FULL, "papers": "reports/papers", "lattice": LATTICES, "drafting": DRAFTERS,
           "base": BASE, "gec_base": CORRECTION_BASE}
"""The runs whose verdicts are shown, by their titles."""

_INTRODUCTION = """\
# The figures of the papers' findings

What each run measured for each part of a finding, and the verdict.
[The papers](papers.md#what-they-found-and-what-is-found-here) shows all verdicts side by side, describes how they are
judged, and explains those that contradict a paper.
"""


def claims() -> str:
    """The papers' findings that a run has measured, and the verdict of each run."""
    found = _found()
    rows = [[f"[{which}](findings.md#{which})", FINDINGS[which].statement, _source(which),
             *(_verdict(which, runs[title]) if title in runs else "" for title in LEDGERS)]
            for which, runs in found.items()]
    decided = sum(any(_verdict(which, one) in ("true", "false") for one in runs.values())
                  for which, runs in found.items())
    return "\n\n".join((
        *(f"{title}, [{run}](../{run}): {measured(f'{run}/speed.json')}" for title, run in LEDGERS.items()),
        table(["", "finding", "paper", *LEDGERS], rows, texts=3 + len(LEDGERS)),
        f"Together they decide {decided} of {len(FINDINGS)} findings, and measure {len(rows)}. "
        "†: the verdict of an earlier commit on another statement, or by another rule, which does not count."))


def page() -> str:
    """The text of `docs/findings.md`."""
    return "\n".join([_INTRODUCTION, *(_section(which, runs) for which, runs in _found().items())])


@cache
def _found() -> dict[int, dict[str, Mapping[str, Any]]]:
    """For each finding that a run has measured, what these runs' ledgers say of it, by their titles."""
    found = dict[int, dict[str, Mapping[str, Any]]]()
    for title, run in LEDGERS.items():
        for one in read(f"{run}/claims.json"):
            if one["verdict"] != "not measured":
                found.setdefault(one["finding"], {})[title] = one
    return dict(sorted(found.items()))


def _verdict(which: int, one: Mapping[str, Any]) -> str:
    """The verdict of a run's ledger, marked if it was made on another statement of the finding or by another rule."""
    now = FINDINGS[which]
    same = (one["statement"], one.get("revision", 1)) == (now.statement, now.revision)
    return one["verdict"] + ("" if same else " †")


def _section(which: int, runs: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"## {which}", "", f"**{FINDINGS[which].statement}** ({_source(which)}).", ""]
    for title, one in runs.items():
        lines += [f"- `{title}`: {_verdict(which, one)}", *(f"  - {line}" for line in _parts(one["parts"]))]
    return "\n".join([*lines, ""])


def _parts(parts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for part in parts:
        needed = {name.removesuffix("_to_decide").replace("_", " "): number for name, number in part["figures"].items()
                  if name.endswith("_to_decide")}
        yield f"{part['claim']}: {part['verdict']}. {part['why']}" + "".join(
            f" About {float(f'{number:.2g}'):,.0f} {of} would decide it." for of, number in needed.items() if number)


def _source(which: int) -> str:
    return f"{FINDINGS[which].paper}, {FINDINGS[which].where}"
