"""The checkpoints that --ckpt_path names by `last` and `best`: of Lightning's ModelCheckpoint, in a run's folder."""

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.training.resume import read_state

WORDS = ("last", "best")
_BY = "ModelCheckpoint"
"""How the names begin under which a checkpoint holds the states of these callbacks."""


def last(folders: Iterable[Path], without: Path | None = None) -> Path | None:
    """The newest checkpoint in some folders and the folders within; None: there is none.

    Args:
        folders: that may be absent.
        without: a folder whose checkpoints do not count.
    """
    return next((path for path in _newest_first(folders) if without is None or without not in path.parents), None)


def best(folders: Iterable[Path]) -> Path | None:
    """The best checkpoint of the newest training that chose one by a metric; None: there is none.

    Raises:
        PipelineError: ModelCheckpoint took part, and had no metric to choose by.
    """
    blind = None
    for path in _newest_first(folders):
        callbacks = (read_state(path) or {}).get("callbacks", {})
        for state in (state for name, state in callbacks.items() if name.startswith(_BY) and state["best_model_path"]):
            named = Path(state["best_model_path"])
            found = next((one for one in (path.parent / named.name, named) if one.is_file()), None)  # it may have moved
            if state["monitor"] is not None and found is not None:
                return found
            blind = blind or (path if state["monitor"] is None else None)
    if blind is not None:
        raise PipelineError(f"--ckpt_path best: {blind}: its ModelCheckpoint had no metric to choose by; train with "
                            "--trainer.callbacks.monitor=validation_bleu --trainer.callbacks.mode=max, or take `last`")
    return None


def _newest_first(folders: Iterable[Path]) -> list[Path]:
    files = {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*.ckpt") if path.is_file()}
    return sorted(files, key=lambda path: (files[path], path), reverse=True)
