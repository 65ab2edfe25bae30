"""Queries of the repository by git; None where there is no git, or no repository."""

import subprocess


def git(*arguments: str) -> str | None:
    """The output of a command of git; None if it fails, or there is no git."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
