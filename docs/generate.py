"""Write what README and docs show of reports and orders: `python -m docs.generate`, in the root of the repository.

`docs/orders.md` and `docs/findings.md` are generated as a whole; in the other pages, it is what stands between
`<!-- generated: NAME -->` and `<!-- end of NAME -->`, a function of `BLOCKS` each, and all else is written by hand. A
test compares the pages with the reports.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from docs import benchmarks, draw_orders, findings, gpu, regimes, runs
from docs.curves import curves
from docs.distilled import distilled
from docs.growth import scale
from docs.levers import TABLES, levers, levers_data
from docs.pictures import pictures
from docs.reports import BASE, CORRECTION, CORRECTION_BASE, DRAFTERS, FULL, LATTICES, ROOT, exists

BLOCKS: dict[str, Callable[[], str]] = {
    "summary": runs.summary, "choice": runs.choice, "search": runs.search, "peers": runs.peers,
    "drafting": runs.drafting, "full": partial(runs.everything, FULL), "base": partial(runs.everything, BASE),
    "curves": partial(curves, FULL),
    "regimes": regimes.regimes, "correction": partial(runs.drafting, CORRECTION, runs.EDITS),
    "correction_base": partial(runs.corrections, CORRECTION_BASE), "lattices": partial(runs.search, LATTICES),
    "drafters": partial(runs.drafting, DRAFTERS), "engines": partial(benchmarks.engines, benchmarks.ENGINES),
    "engines_avx2": partial(benchmarks.engines, benchmarks.ENGINES_AVX2),
    "batches_avx2": partial(benchmarks.engines, benchmarks.BATCHES_AVX2),
    "opus_mt": partial(benchmarks.engines, benchmarks.OPUS_MT), "rounds": benchmarks.rounds,
    "alignment": benchmarks.alignment, "gpu": gpu.gpu, "claims": findings.claims, "pictures": pictures, "scale": scale,
    "service": benchmarks.service, **{preset: partial(levers, preset) for preset in TABLES},
    "levers_data": levers_data, "distilled": distilled, "faults": benchmarks.faults}
"""What stands between the marks of each name."""
_MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page that is generated, or with something generated, as it should be."""
    found = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
    return {path: _MARKED.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}\n{block[3]}", text)
            for path, text in found.items() if _MARKED.search(text)} | {
        ROOT / "docs/orders.md": draw_orders.page(), ROOT / "docs/findings.md": findings.page()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    if exists(regimes.REPORT):
        (ROOT / regimes.PICTURE).write_bytes(regimes.draw())
    if gpu.are_there():
        (ROOT / gpu.PICTURE).write_bytes(gpu.draw())
