"""The stage `analyses`: the analyses of this package, on what the run has trained and measured."""

from collections.abc import Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pipeline.evaluation import analyses
from pipeline.evaluation.analyses.chart import png
from pipeline.evaluation.analyses.finding import Question
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.files import atomic_path, remove, write_json
from pipeline.params import Params


def analyse(params: Params, pictures: Path, report: Path) -> None:
    """Run every analysis of the papers that the settings name: the figures of all go into one file, and the picture of
    each into a folder.

    An analysis of a family that is not among the systems reports that it is not.

    Args:
        params: all of them.
        pictures: folder of a PNG per analysis; it is replaced as a whole or not at all.
        report: JSON, {analysis: its figures}.

    Raises:
        PipelineError: what an earlier stage writes is missing or damaged, or a family is of another kind than it
            should be.
    """
    # All contexts are opened before the first analysis runs: settings that do not fit are refused before any work.
    findings = {name: ask() for name, ask in find_questions(FinishedRun.open(params), params.analyses.papers).items()}
    with atomic_path(pictures) as folder:
        folder.mkdir()
        for name, finding in findings.items():
            (folder / f"{name}.png").write_bytes(png(finding.figure))
        remove(report)  # its pictures are replaced now
    write_json(report, {name: finding.metric for name, finding in findings.items()})


def find_questions(run: FinishedRun, papers: Iterable[str]) -> dict[str, Question]:
    """The analyses of some papers by name.

    A package in this folder is a paper. Its `context.py` has `open_context(run)`, which reads what the paper's analyses
    share. Each of its modules that has a function `ask(context)` is an analysis, and the module's name is its name.

    Raises:
        PipelineError: the settings do not fit the run.
    """
    questions: dict[str, Question] = {}
    for paper in papers:
        package = f"{analyses.__name__}.{paper}"
        context = import_module(f"{package}.context").open_context(run)
        for name in (one.name for one in iter_modules(import_module(package).__path__)):
            module = import_module(f"{package}.{name}")
            if hasattr(module, "ask"):
                questions[name] = partial(module.ask, context)
    return questions
