"""Valid names of families, decoders, peers and profiles, which become parts of paths and of shell commands."""

import re
from typing import Annotated

from pipeline.errors import PipelineError

_LONGEST = 64
_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_+-]{{0,{_LONGEST - 1}}}")


class _Plain:
    """Excludes paths, options, what a shell interprets, and dots, by which DVC addresses parameters.

    >>> print(_Plain().fault("gad++_speed"))
    None
    """

    def fault(self, value: str) -> str | None:
        if _PATTERN.fullmatch(value):
            return None
        return (f"must be a name: up to {_LONGEST} letters (a to z), digits, _, + and -, the first of them a letter or "
                "a digit")


Name = Annotated[str, _Plain()]


def check_name(name: str, where: str) -> None:
    """Check a name that is used before the file in which it is looked up has been read.

    Raises:
        PipelineError: the name is not valid.
    """
    if (fault := _Plain().fault(name)) is not None:
        raise PipelineError(f"{where}: {name!r} {fault}")
