"""What families, decoders, peers and profiles may be called: names become paths, and words of a shell's command."""

import re
from typing import Annotated

from pipeline.errors import PipelineError

_LONGEST = 64
_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_+-]{{0,{_LONGEST - 1}}}")


class _Plain:
    """No path, no option, nothing that a shell or DVC, which addresses parameters by dots, reads in another way.

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
        PipelineError: it is none.
    """
    if (fault := _Plain().fault(name)) is not None:
        raise PipelineError(f"{where}: {name!r} {fault}")
