"""The stage `analyses`: every question of this package, on what the run has trained and measured."""

from pathlib import Path

import torch

from pipeline.evaluation.analyses.drafting.questions import draft_questions
from pipeline.evaluation.analyses.finding import write_finding
from pipeline.evaluation.analyses.jacobi.questions import jacobi_questions
from pipeline.evaluation.analyses.lab import Lab
from pipeline.evaluation.analyses.lattice.questions import lattice_questions
from pipeline.files import atomic_path
from pipeline.params import Params


def analyse(params: Params, out: Path) -> None:
    """Answer every question and write `out`, all of it or nothing.

    A question about a family that is not among the systems is answered by saying so.

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
    with atomic_path(out) as folder:
        for name, finding in findings.items():
            write_finding(folder, name, finding)
