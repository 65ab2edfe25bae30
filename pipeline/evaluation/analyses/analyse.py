"""The stage `analyses`: every question of this package, on what the run has trained and measured."""

from pathlib import Path

import torch

from pipeline.evaluation.analyses.chart import png
from pipeline.evaluation.analyses.drafting.questions import draft_questions
from pipeline.evaluation.analyses.jacobi.questions import jacobi_questions
from pipeline.evaluation.analyses.lab import Lab
from pipeline.evaluation.analyses.lattice.questions import lattice_questions
from pipeline.files import atomic_path, remove, write_json
from pipeline.params import Params


def analyse(params: Params, pictures: Path, report: Path) -> None:
    """Answer every question: the figures of all go into one file, and the picture of each into a folder.

    A question about a family that is not among the systems is answered by saying so.

    Args:
        params: all of them.
        pictures: folder of a PNG per question; it is replaced whole or not at all.
        report: JSON, {question: its figures}.

    Raises:
        PipelineError: what an earlier stage writes is missing or damaged, or a family is of another kind than it
            should be.
    """
    if params.speed.threads:
        torch.set_num_threads(params.speed.threads)
    lab = Lab.open(params)
    # All are prepared before the first is asked: settings that do not fit are refused before any work is done.
    questions = {**lattice_questions(lab), **draft_questions(lab), **jacobi_questions(lab)}
    findings = {name: ask() for name, ask in questions.items()}
    with atomic_path(pictures) as folder:
        folder.mkdir()
        for name, finding in findings.items():
            (folder / f"{name}.png").write_bytes(png(finding.figure))
        remove(report)  # of what is replaced now
    write_json(report, {name: finding.metric for name, finding in findings.items()})
