"""Profiles: presets merged into params.yaml, each run in a folder of its own, so that their outputs cannot collide.

A profile's workspace, `profiles/NAME`, contains all inputs of a run: the merged params.yaml, dvc.yaml, and a copy of
the code. It is a DVC project of its own that shares the cache of the outer one, so stages that two profiles have in
common are computed and stored once.
"""

import os
import shutil
from contextlib import chdir
from pathlib import Path

import yaml

from pipeline import guard, layout
from pipeline.dvc_index import PIPELINE
from pipeline.errors import PipelineError
from pipeline.evaluation.machine import describe_machine
from pipeline.files import atomic_path, write_json, write_text
from pipeline.names import check_name
from pipeline.params import PARAMS, load_params, parse_params
from pipeline.sources.inputs import describe_inputs
from pipeline.stages import DVC, ending_like_control_c, environment
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over

PRESETS = Path("presets")
PROFILES = Path("profiles")
IGNORED = Path(".dvcignore")


def prepare(profile: str, folder: Path | None = None) -> Path:
    """Make or refresh the workspace of a profile and return its folder.

    Args:
        profile: a file of `presets` without its ending.
        folder: where to make it; None: `profiles/PROFILE`.

    Raises:
        PipelineError: there is no such preset, the merged parameters are not valid, or the checkout lacks a file.
    """
    check_name(profile, "--profile")
    preset = PRESETS / f"{profile}.yaml"
    if not preset.exists():
        known = sorted(path.stem for path in PRESETS.glob("*.yaml"))
        raise PipelineError(f"--profile: {profile!r} is unknown; presets has {', '.join(known)}")
    params = lay_over(read_yaml(PARAMS), preset)
    parse_params(params)
    folder = folder or PROFILES / profile
    _write(folder / PARAMS, yaml.safe_dump(params, sort_keys=False, allow_unicode=True))
    for file in (PIPELINE, IGNORED):
        _write(folder / file, _read(file))
    cache = os.path.relpath(Path(".dvc/cache"), folder / ".dvc")
    _write(folder / ".dvc/config", f"[core]\n    analytics = false\n    no_scm = true\n[cache]\n    dir = {cache}\n")
    code = Path(__file__).parent
    with atomic_path(folder / code.name) as aside:
        shutil.copytree(code, aside, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def write_facts(folder: Path) -> None:
    """Write the facts on which a run depends and that DVC cannot see by itself: the machine, and the corpus's files.

    The stage `facts` does this in every `dvc repro`; after it, `dvc status` shows whether anything has changed.
    """
    with chdir(folder):  # to which the paths of params.yaml are relative
        write_json(layout.MACHINE, describe_machine())
        write_json(layout.INPUTS, describe_inputs(load_params().corpus))


def reproduce(folder: Path, options: list[str]) -> int:
    """Run `dvc repro` in a folder and return its exit status."""
    with ending_like_control_c():
        return guard.run([*DVC, "repro", *options], folder, environment())


def publish(folder: Path, out: Path) -> None:
    """Copy the figures of a profile's run from its folder, which git ignores, to `out`, which it does not ignore."""
    reports = folder / layout.REPORTS
    for path in sorted([*reports.glob("*"), *reports.glob("analyses/*")]):
        if path.is_file():
            with atomic_path(out / path.relative_to(reports)) as aside:
                shutil.copyfile(path, aside)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"{path}: not found; a profile needs the complete checkout, so restore it (git checkout "
                            f"{path})") from None


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
