"""What the generated tables are made of: cells, rows, and where and when something was measured."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def when(content: Mapping[str, Any]) -> str:
    """When, by which code and on which machine something was measured, in a sentence."""
    made = content["made"]
    return (f"Measured on {made['date']} by commit `{made['commit'] or 'unknown'}`: "
            f"{described(content['machine'])}.")


def described(machine: Mapping[str, Any]) -> str:
    """A machine in words. Reports of earlier versions do not have all of them."""
    instructions = machine.get("instructions")
    return ", ".join([
        machine["processor"] + (f" ({' and '.join(instructions)})" if instructions else ""),
        f"{machine['cores']} cores",
        *([f"{machine['memory_gib']} GiB"] if machine.get("memory_gib") else []),
        *(machine["accelerators"] or ["no accelerator"]), machine["system"], f"Python {machine['python']}",
        f"PyTorch {machine['torch']}", *([f"machine `{machine['identity']}`"] if "identity" in machine else [])])


def number(value: float | None, form: str) -> str:
    """A cell; empty where nothing was measured."""
    return "" if value is None else format(value, form)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table of which the first columns are texts and the others numbers."""
    ruler = ["---" if column < texts else "---:" for column in range(len(titles))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, ruler, *rows))
