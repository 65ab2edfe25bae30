"""The stages of a dvc.yaml as DVC sees them: which have changed, on which others they depend, and their outputs.

DVC's commands do not show all of this, and its library changes the process that loads it (it replaces standard
output). So this file is run as a separate process, which prints JSON.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

PIPELINE, LOCK = Path("dvc.yaml"), Path("dvc.lock")
DAMAGED = Path("dvc.lock.damaged")
_ALWAYS = "always changed"
"""DVC's status of a stage that runs every time and whose outputs have not changed."""


@dataclass(frozen=True)
class Stage:
    """A stage, or a file that `dvc add` tracks, which depends on nothing."""

    after: tuple[str, ...]
    """The stages whose outputs it reads, or from whose outputs a folder that it reads is made."""
    outputs: tuple[str, ...]
    """Paths as in dvc.yaml."""
    has_changed: bool
    """Whether any of its inputs and outputs differs from dvc.lock."""
    is_of_pipeline: bool
    """Whether dvc.yaml defines it."""


def read_stages(folder: Path) -> dict[str, Stage]:
    """The stages of a folder's dvc.yaml, and those of other files that they depend on.

    The names are those that `dvc repro` takes in that folder, in the order of dvc.yaml. Pipelines in other folders of
    the project, such as those of profiles, are left out.

    This waits for other DVC processes that hold the project's lock. DVC does not replace dvc.lock as a whole, so a
    killed one may leave the beginning of it, with which none of its commands works. Such a file is renamed to
    dvc.lock.damaged: what it described is in DVC's cache of runs.

    Raises:
        PipelineError: DVC cannot read the project, or a stage has changed and DVC's cache cannot be written.
    """
    from pipeline.errors import PipelineError  # the separate process does not see the package

    # -P: otherwise Python would look for its own modules among the files of this folder.
    done = subprocess.run([sys.executable, "-P", __file__], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PipelineError(f"{folder / PIPELINE}: {' '.join(done.stderr.split())}")
    found = json.loads(done.stdout)
    if found["damaged"]:
        print(f"{folder / LOCK}: DVC was killed while writing it, and what remained is {folder / DAMAGED} now; "
              "finished stages are taken from DVC's cache", flush=True)
    return {name: Stage(**{**stage, "after": tuple(stage["after"]), "outputs": tuple(stage["outputs"])})
            for name, stage in found["stages"].items()}


def _main() -> None:
    from dvc.exceptions import DvcException
    from dvc.repo import Repo, lock_repo

    try:
        with Repo(_wait_for_lock=True) as repo, lock_repo(repo):  # the index is kept while the lock is held
            damaged = _set_damaged_lock_aside()  # no other process of DVC is writing it now
            status = repo.status(targets=[str(PIPELINE)], with_deps=True)
            mine = set(repo.stage.collect(str(PIPELINE), with_deps=True))
            found = {stage.addressing: Stage(
                after=tuple(sorted(other.addressing for other in repo.index.graph.successors(stage))),
                outputs=tuple(output.def_path for output in stage.outs),
                has_changed=status.get(stage.addressing, [_ALWAYS]) != [_ALWAYS],
                is_of_pipeline=stage.relpath == str(PIPELINE)) for stage in repo.index.stages if stage in mine}
    except DvcException as error:
        sys.exit(f"{error} {error.__cause__ or ''}")
    if any(stage.has_changed for stage in found.values()):
        _check_cache(Path(repo.cache.local_cache_dir))
    print(json.dumps({"damaged": damaged, "stages": {name: asdict(stage) for name, stage in found.items()}}))


def _set_damaged_lock_aside() -> bool:
    """Rename dvc.lock if it is cut off, and return whether it was. One with conflicts of a merge is the user's."""
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from dvc.utils import strictyaml
    from dvc.utils.serialize import EncodingError  # of a letter that is cut in two

    if not LOCK.exists() or b"<<<<<<<" in LOCK.read_bytes():
        return False
    try:
        strictyaml.load(str(LOCK), COMPILED_LOCKFILE_SCHEMA)
    except (EncodingError, strictyaml.YAMLSyntaxError, strictyaml.YAMLValidationError):
        LOCK.replace(DAMAGED)
        return True
    return False


def _check_cache(cache: Path) -> None:
    """End this process if DVC could not keep what is about to be computed; it would notice after a whole training."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            pass
    except OSError as error:
        sys.exit(f"{cache}: DVC's cache cannot be written ({error.strerror}), and DVC needs to, even to restore; "
                 "check its permissions and its disk, or choose another: dvc cache dir --local FOLDER")


if __name__ == "__main__":
    _main()
