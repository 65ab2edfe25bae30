"""The date and the code of a measurement."""

from datetime import UTC, datetime
from typing import Any

from pipeline.git import git

_CODE = ("pipeline", "presets", "params.yaml", "dvc.yaml", "constraints.txt")
"""The files that determine the figures of a run, relative to the repository."""


def made_now() -> dict[str, Any]:
    """The date (UTC) and the commit of the code: with `+` if files differ from it, None outside of a repository."""
    return {"date": datetime.now(UTC).date().isoformat(), "commit": _commit()}


def _commit() -> str | None:
    commit = git("rev-parse", "--short=12", "HEAD")
    changed = commit and git("status", "--porcelain", "--", *(f":(top){path}" for path in _CODE))
    return f"{commit}+" if changed else commit
