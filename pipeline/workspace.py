"""Profiles: presets merged into params.yaml, each run in a folder of its own, so that their outputs cannot collide.

A profile's folder, `profiles/NAME`, contains the merged params.yaml, dvc.yaml, and a link to the code. It is a further
pipeline of the same DVC project: dvc.yaml, params.yaml, dvc.lock and the metrics beside them are for git, so that
DVC's experiments, comparisons and remotes work in it as in the main folder. Paths of stages are relative to their
dvc.yaml and therefore the same in all profiles, so what two of them have in common is taken from DVC's cache.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import yaml

from pipeline import guard, layout
from pipeline.dvc_index import LOCK, PIPELINE
from pipeline.errors import PipelineError
from pipeline.evaluation.machine import describe_machine
from pipeline.evaluation.quality import check_scorers
from pipeline.evaluation.reference import check_baseline
from pipeline.family_facts import describe_decoders, describe_distillation, describe_training
from pipeline.files import atomic_path, remove, write_json, write_text
from pipeline.git import git
from pipeline.names import check_name
from pipeline.params import PARAMS, Params, load_params, parse_params
from pipeline.sources.inputs import describe_inputs
from pipeline.stages import REPRO, environment
from pipeline.strict_yaml import read_yaml
from pipeline.systems import TEACHER, check_preset, lay_over

PRESETS = Path("presets")
PROFILES = Path("profiles")
CODE = Path("pipeline")


def prepare(profile: str) -> Path:
    """Make or refresh the folder of a profile and return it.

    Args:
        profile: a file of `presets` without its ending.

    Raises:
        PipelineError: there is no such preset, the merged parameters are not valid, or the checkout lacks a file.
    """
    check_params(profile, _check_evaluation)
    preset = preset_of(profile)
    params = lay_over(read_yaml(PARAMS), preset)
    folder = PROFILES / profile
    if (folder / PARAMS).exists() and _differs(folder / PARAMS, params):
        print(f"{folder / PARAMS}: written anew from {PARAMS} and {preset}; write into the preset what is to stay of "
              "an experiment")
    _write(folder / PARAMS, yaml.safe_dump(params, sort_keys=False, allow_unicode=True))
    _write(folder / PIPELINE, _read(PIPELINE))
    _link(folder)
    return folder


def preset_of(profile: str) -> Path:
    """The preset of a profile.

    Raises:
        PipelineError: there is none of this name.
    """
    check_name(profile, "--profile")
    preset = PRESETS / f"{profile}.yaml"
    if not preset.exists():
        if not PRESETS.is_dir():
            raise PipelineError(f"--profile: there is no folder {PRESETS} here; run the command in the main folder")
        known = sorted(path.stem for path in PRESETS.glob("*.yaml"))
        raise PipelineError(f"--profile: {profile!r} is unknown; presets has {', '.join(known)}")
    return preset


def check_params(profile: str, check: Callable[[Params], object]) -> None:
    """Check the parameters of a profile.

    Args:
        profile: a file of `presets` without its ending.
        check: raises a PipelineError if it refuses such parameters.

    Raises:
        PipelineError: there is no such preset, or the parameters are refused; see `check_preset`.
    """
    check_preset(read_yaml(PARAMS), preset_of(profile), lambda content: check(parse_params(content)))


def write_facts(folder: Path) -> None:
    """Write the facts on which a run depends and that DVC cannot see by itself: the machine, the corpus's files, the
    settings of each training, and what the decoders of each system and of distillation are.

    The stage `facts` does this in every `dvc repro`; after it, `dvc status` shows whether anything has changed.

    Raises:
        PipelineError: params.yaml is not valid, asks for a score that nothing installed here computes, or has a
            baseline with which nothing can be compared; or this is a profile's folder that has a copy of the code, or
            an experiment in one that is not committed.
    """
    with chdir(folder):  # to which the paths of params.yaml are relative
        _check_profile()
        params = load_params()
        _check_evaluation(params)
        write_json(layout.MACHINE, describe_machine())
        write_json(layout.INPUTS, describe_inputs(params.corpus))
        write_json(layout.DISTILLATION, describe_distillation(params))
        for facts, families, describe in ((layout.TRAININGS, (TEACHER, *params.starts), describe_training),
                                          (layout.DECODERS, params.systems, describe_decoders)):
            with atomic_path(facts) as aside:
                for family in families:
                    write_json(aside / f"{family}.json", describe(params, family))


def reproduce(folder: Path, options: list[str]) -> int:
    """Run `dvc repro` in a folder and return its exit status."""
    return guard.run([*REPRO, *options], folder, environment())


def publish(folder: Path, out: Path) -> None:
    """Copy the figures and the lock of a profile's run from its folder to `out`, where the pages of the documentation
    find them: those that differ, and none before there is a lock.

    Those of `reports/quality` are also in `decoders.json`, and are left out, as are the hidden files of a killed run.
    """
    reports = folder / layout.REPORTS
    if not (folder / LOCK).exists():
        return
    copies = {name: path for path in reports.rglob("*") if path.is_file()
              for name in [path.relative_to(reports)]
              if name.parts[0] != "quality" and not any(part.startswith(".") for part in name.parts)}
    for name, path in {**copies, Path("lock.yaml"): folder / LOCK}.items():
        if not (out / name).exists() or (out / name).read_bytes() != path.read_bytes():
            with atomic_path(out / name) as aside:
                shutil.copyfile(path, aside)


def differs_from_commit(folder: Path) -> bool:
    """Whether git has anything to commit in a profile's folder; not outside of a repository."""
    return bool(git("status", "--porcelain", "--", str(folder)))


def _check_evaluation(params: Params) -> None:
    """Raise a PipelineError unless all that `params` ask for can be scored and compared."""
    check_scorers(params.evaluation)
    check_baseline(params)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(path) from None


def _missing(path: Path) -> PipelineError:
    return PipelineError(f"{path}: not found; a profile needs the complete checkout, so restore it (git checkout "
                         f"{path})")


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_bytes() != text.encode("utf-8"):
        write_text(path, text)


def _differs(path: Path, params: Any) -> bool:
    """Whether a file has other parameters than these, or none that can be read."""
    with suppress(PipelineError):
        return bool(read_yaml(path) != params)
    return True


def _check_profile() -> None:
    """Refuse what would run other code than the checkout's, or what DVC could not restore; outside of profiles nothing.

    Raises:
        PipelineError: see `write_facts`.
    """
    here = Path.cwd()
    main = here.parent.parent
    # A checkout, which has presets of its own, may be in any folder, also in one named profiles.
    if here.parent.name != PROFILES.name or PRESETS.is_dir() or not (main / PARAMS).is_file():
        return
    name = PROFILES / here.name
    if not CODE.is_symlink():
        raise PipelineError(f"{name / CODE}: a copy of the code, possibly an old one, and no link to it; "
                            f"`python -m pipeline repro --profile {here.name}` in the main folder puts the link back")
    baseline = os.environ.get("DVC_EXP_BASELINE_REV")  # DVC sets it for the stages of an experiment
    if baseline and git("cat-file", "-e", f"{baseline}:./{PARAMS}") is None:
        raise PipelineError(f"{name}: not committed, and DVC keeps experiments as changes of a commit; run git add "
                            f"{name} && git commit in the main folder, then the experiment again")


def _link(folder: Path) -> None:
    """Link the code into a profile's folder, relatively, so that the link also holds in a clone."""
    if not CODE.is_dir():
        raise _missing(CODE)
    link, target = folder / CODE, Path("../..") / CODE
    if not (link.is_symlink() and link.readlink() == target):
        if link.is_dir() and not link.is_symlink():  # earlier versions made it, or recorded it in an experiment
            print(f"{link}: was a copy of the code and is the link to it again")
        remove(link)
        link.symlink_to(target)
    remove(folder / ".dvc")  # likewise: they were DVC projects of their own
