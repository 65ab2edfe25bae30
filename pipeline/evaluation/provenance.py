"""The date and the code of a measurement."""

import subprocess
from datetime import UTC, datetime
from typing import Any

_CODE = ("pipeline", "presets", "params.yaml", "dvc.yaml", "constraints.txt")
"""The files that determine the figures of a run, relative to the repository."""


def made_now() -> dict[str, Any]:
    """The date (UTC) and the commit of the code: with `+` if files differ from it, None outside of a repository."""
    return {"date": datetime.now(UTC).date().isoformat(), "commit": _commit()}


def _commit() -> str | None:
    commit = _git("rev-parse", "--short=12", "HEAD")
    changed = commit and _git("status", "--porcelain", "--", *(f":(top){path}" for path in _CODE))
    return f"{commit}+" if changed else commit


def _git(*arguments: str) -> str | None:
    """The output of git; None where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
