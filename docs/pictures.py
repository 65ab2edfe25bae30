"""The table of analyses in `docs/papers.md`: what each asks, whose figure or table it repeats, and its picture."""

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from docs.findings import LEDGERS
from docs.reports import read
from docs.tables import table
from pipeline.evaluation import analyses
from pipeline.evaluation.claims.findings import DENG, GE, IMAMURA, SANTILLI, ZHANG

PAPERS = {"double_token": IMAMURA, "interleaved": ZHANG, "drafting": GE, "jacobi": SANTILLI, "lattice": DENG}
"""Of each package of analyses."""
_QUESTION = re.compile(r"(.*?\?) \(([^)]*)\)", re.DOTALL)
"""The first paragraph of an analysis: a question, and where the paper asks it."""


def pictures() -> str:
    """Every analysis, with the picture of the first run that has measured it."""
    return table(["analysis", "question", "paper", "where"], _rows(), texts=4)


def _rows() -> Iterator[list[str]]:
    for package, paper in PAPERS.items():
        folder = f"{analyses.__name__}.{package}"
        for name in (one.name for one in iter_modules(import_module(folder).__path__)):
            module = import_module(f"{folder}.{name}")
            if hasattr(module, "ask"):
                found = _QUESTION.match(str(module.__doc__))
                assert found is not None, f"{module.__name__}: begins with no question (and where the paper asks it)"
                question, where = (" ".join(part.split()) for part in found.groups())
                yield [_picture(name), question, paper, where.replace(" of the paper", "").rstrip(".")]


def _picture(name: str) -> str:
    run = next((run for run in LEDGERS.values() if "not_measured" not in read(f"{run}/analyses.json").get(
        name, {"not_measured": ""})), None)
    return f"`{name}`" if run is None else f"[`{name}`](../{run}/analyses/{name}.png)"
