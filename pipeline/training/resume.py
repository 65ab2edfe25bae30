"""Resumes an interrupted training if its parameters, data and code are unchanged and its files are undamaged."""

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch

from pipeline.errors import PipelineError
from pipeline.files import read_json, remove, write_json, write_text
from pipeline.training.candidates import Candidates

FINGERPRINT = "fingerprint.json"
RESUME, PREVIOUS = "resume.ckpt", "resume.previous.ckpt"
"""File names of the last two resume points."""
CURVE = "curve"
"""Key of the training curve in a resume point: its files by their paths."""


def begin(work: Path, fingerprint: dict[str, str], candidates: Candidates, curve: Path,
          trainer: lightning.Trainer) -> Path | None:
    """Prepare the work folder and the curve for a run and return the resume point to load; None: start at step 0.

    Args:
        work: folder of the family's unfinished work.
        fingerprint: hashes that must be unchanged for a run to continue.
        candidates: of the run, in the work folder.
        curve: folder of the training curve, which is restored to the resume point.
        trainer: of the run; only its first process writes and prints.
    """
    point, state, notices = _find(work, fingerprint, candidates)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        for notice in notices:
            print(notice)
        remove(curve)
        if point is None:
            remove(work / "candidates")
            remove(work / PREVIOUS)
        else:
            print(f"continuing from {point}")
            for name, text in state[CURVE].items():
                write_text(curve / name, text)
        if point != work / RESUME:
            remove(work / RESUME)
        write_json(work / FINGERPRINT, fingerprint)
    trainer.strategy.barrier()
    return point


def read_curve(folder: Path) -> dict[str, str]:
    """The files of a training curve by their paths in its folder."""
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*")) if path.is_file()}


def _find(work: Path, fingerprint: dict[str, str],
          candidates: Candidates) -> tuple[Path | None, dict[str, Any], list[str]]:
    """The resume point to continue from, its content, and notices about those that cannot be used."""
    points = [path for path in (work / RESUME, work / PREVIOUS) if path.exists()]
    if not points:
        return None, {}, []
    try:
        before = read_json(work / FINGERPRINT)
        changed = [part for part, value in fingerprint.items() if before[part] != value]
    except (PipelineError, KeyError, TypeError):
        return None, {}, [f"{work / FINGERPRINT}: missing or damaged; starting anew"]
    if changed:
        return None, {}, [f"{points[0]}: of a run with other {' and '.join(changed)}; starting anew"]
    damaged = candidates.damaged()
    if damaged is not None:
        return None, {}, [f"{damaged}: missing or damaged; starting anew"]
    notices = list[str]()
    for point in points:
        state = read_state(point)
        if state is not None and _is_curve(state.get(CURVE)):
            return point, state, notices
        notices.append(f"{point}: truncated or damaged" + "; starting anew" * (point == points[-1]))
    return None, {}, notices


def _is_curve(files: Any) -> bool:
    """Whether these are texts by paths that stay within a folder."""
    return isinstance(files, dict) and all(
        isinstance(path, str) and isinstance(text, str) and path.isprintable() and not Path(path).is_absolute()
        and ".." not in Path(path).parts for path, text in files.items())


def read_state(point: Path) -> dict[str, Any] | None:
    """The content of a checkpoint of Lightning's; None if it is damaged or has code. torch checks no checksums."""
    try:
        with zipfile.ZipFile(point) as archive:
            if archive.testzip() is not None:
                return None
        state = torch.load(point, map_location="cpu", weights_only=True)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ArithmeticError, AttributeError, LookupError,
            RuntimeError, TypeError, ValueError, pickle.UnpicklingError):  # a damaged pickle can raise any of them
        return None
    return state if isinstance(state, dict) else None
