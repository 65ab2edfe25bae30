"""Run the complete pipeline with DVC; unchanged stages are not run again.

With --profile NAME, presets/NAME.yaml is merged into params.yaml and everything runs in profiles/NAME, where DVC's
commands work as in the main folder; its figures are copied to reports/NAME. Independent students train, and are
evaluated, at the same time. Unknown options are passed on to `dvc repro`, for example --force or the name of a stage;
it then runs one stage after the other.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pipeline.params import Params

PASSES_ON = True
_ASK = "stages have no terminal to ask on, so run `dvc repro --interactive` in the folder of dvc.yaml"
_ELSEWHERE = "name the profile with --profile, or run `dvc repro` in the folder"
_REFUSED = {"interactive": _ASK, "cwd": _ELSEWHERE}
"""Options of `dvc repro`, whatever its version, that would fail or run something else than what is prepared, each with
what to do instead. Their short names are their first letters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default="", help="a file of presets/ without its ending (default: none)")
    parser.add_argument("--jobs", type=int, help="families to train or evaluate at once (default: one per GPU; "
                                                 "without a GPU as many as have cores for their threads)")


def run(arguments: argparse.Namespace, options: list[str]) -> None:
    import dvc  # noqa: F401  # if it is missing, this is reported before anything starts

    from pipeline.dvc_index import PIPELINE
    from pipeline.files import locked
    from pipeline.stages import ending_like_control_c
    from pipeline.workspace import PROFILES, preset_of

    if arguments.jobs is not None and arguments.jobs < 1:
        raise PipelineError(f"--jobs: {arguments.jobs} must be at least 1")
    for option in options:
        _check_option(option)
    if arguments.jobs is not None and options:
        raise PipelineError(f"--jobs: with {options[0]}, which is passed on to `dvc repro`, one stage runs after the "
                            "other; leave one of the two out")
    if arguments.profile:
        preset_of(arguments.profile)  # before a folder is made for it
    with locked((PROFILES / arguments.profile if arguments.profile else Path()) / PIPELINE), ending_like_control_c():
        _reproduce(arguments.profile, arguments.jobs, options)


def _check_option(option: str) -> None:
    """Refuse an option of `_REFUSED` as argparse understands it: with its value, shortened, or among short ones."""
    name = option.partition("=")[0]
    for refused, remedy in _REFUSED.items():
        if (len(name) > len("--") and f"--{refused}".startswith(name)) or re.match(rf"-\w*{refused[0]}", name):
            raise PipelineError(f"{option}: cannot be passed on to `dvc repro` from here; {remedy}")


def _reproduce(profile: str, jobs: int | None, options: list[str]) -> None:
    from pipeline.params import PARAMS, load_params
    from pipeline.stages import ask_dvc, default_jobs, reproduce_families
    from pipeline.workspace import check_params, prepare, reproduce, write_facts

    load_params()  # a mistake in params.yaml is reported before anything starts
    folder = prepare(profile) if profile else Path()
    write_facts(folder)
    stages = {} if options else ask_dvc(folder)
    if not options and not any(stage.has_changed for stage in stages.values()):
        print("Nothing has changed: data, models and reports are up to date.")
        _publish(profile, folder)  # which may have failed, or not followed a plain `dvc repro`
        return
    params = load_params(folder / PARAMS)
    if profile:
        check_params(profile, check_decoders)
    else:
        check_decoders(params)
    if not options:
        jobs = jobs or default_jobs(params)
        _announce(params, folder, jobs)
        if jobs > 1:
            reproduce_families(folder, stages, jobs)
    status = reproduce(folder, options)
    if status:
        sys.exit(status)
    _publish(profile, folder)


def _publish(profile: str, folder: Path) -> None:
    """Copy the figures of a profile's folder to `reports`; the default run's are there."""
    from pipeline import layout
    from pipeline.workspace import differs_from_commit, publish

    if not profile:
        return
    publish(folder, layout.REPORTS / profile)
    if differs_from_commit(folder):
        print(f"{folder}: not committed as it is; experiments in it and other clones start from what is committed: "
              f"git add {folder} && git commit")


def check_decoders(params: "Params") -> None:
    """Check the decoders of a run, which otherwise only the stages would do that search with them, after trainings.

    Raises:
        PipelineError: an entry of `decoders` is not valid, or does not suit the kind, the order or the verifier of a
            family that names it; or the decoder of distillation does not find as many hypotheses as it should, or has
            no length penalty of which one is asked for.
    """
    # PyTorch, which an unchanged run does not need
    from pipeline.decoding.settings import read_entry, with_nbest, with_penalty
    from pipeline.model.orders import make_order
    from pipeline.systems import TEACHER

    distilling, where = params.distillation, "params.yaml: distillation.hypotheses"
    with_nbest(distilling.decoder, params.decoder(distilling.decoder), distilling.hypotheses, where)
    named = [("distillation.decoder", TEACHER, distilling.decoder)]
    named += [(f"families.{name}.decoders", name, decoder) for name in params.systems
              for decoder in params.decoders_of(name)]
    for key, family, decoder in named:
        traits, settings = read_entry(decoder, params.decoder(decoder)).traits, params.family(family)
        fault = None
        if traits.kind != settings.kind:
            fault = f"{decoder} searches {traits.kind} models, and {family} is of kind {settings.kind}"
        elif traits.verifies and settings.verifier is None:
            fault = f"{decoder} returns what a verifier predicts, and families.{family}.drafting names none"
        elif traits.width is not None and settings.order is not None:
            width = make_order(settings.order).width
            if width != traits.width:
                fault = f"slots per step: {decoder} needs {traits.width}, and the order of {family} fills {width}"
        if fault is not None:
            raise PipelineError(f"params.yaml: {key}: {fault}; name another decoder there")
    for alpha in distilling.length_penalty:
        with_penalty(distilling.decoder, params.decoder(distilling.decoder), alpha)


def _announce(params: "Params", folder: Path, jobs: int) -> None:
    """Print how many steps the training of the families without a checkpoint has, and on a CPU how long it takes.

    There, also a precision that takes longer than 32-true.
    """
    import torch

    from pipeline.estimate import dear_precisions, training_time, untrained

    families = untrained(params, folder)
    if families:
        steps = sum(params.family(name).training.steps for name in families)
        # Steps are measured on the CPU, and do not predict those of an accelerator.
        accelerated = torch.accelerator.is_available()
        for precision, cost in ({} if accelerated else dear_precisions(params, families)).items():
            print(f"training.precision: {precision}: a product takes {cost:.1f} times as long as in 32-true on this "
                  "processor; set training.precision to 32-true in the preset or in params.yaml", flush=True)
        duration = "" if accelerated else f", about {training_time(params, families, jobs) / 60:.0f} minutes"
        together = f" with up to {jobs} students at once" if jobs > 1 else ""
        print(f"{len(families)} systems have no checkpoint in {folder / 'checkpoints'}: {steps:,} training steps"
              f"{duration}{together} unless DVC's cache has them; validation, evaluation and timing come on top. An "
              "interrupted run continues where it stopped.", flush=True)
