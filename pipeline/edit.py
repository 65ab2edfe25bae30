"""Change values in a YAML file and not a byte besides: comments, order and blanks stay as their author left them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline.blocks import merge
from pipeline.errors import PipelineError
from pipeline.files import write_text
from pipeline.strict_yaml import load_yaml

Changes = Mapping[str, Any]
"""Blocks within blocks, to be laid over those of a file."""


def edit_yaml(path: Path, changes: Changes) -> None:
    """Lay changes over a YAML file, whole or not at all.

    Args:
        path: of a file of blocks of keys.
        changes: new values; a key that the file does not have is added to its block, which must be there.

    Raises:
        PipelineError: the file cannot be read or written, or a value stands where it cannot be changed alone.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        edited = edited_yaml(text, changes)
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise PipelineError(f"{path}: cannot be edited in place ({' '.join(str(error).split())}); write into it "
                            f"yourself: {_flow(changes)}") from None
    write_text(path, edited)


def edited_yaml(text: str, changes: Changes) -> str:
    """The text of a YAML file with changes laid over it.

    Raises:
        ValueError: a value cannot be changed in place, for example because it is an alias that others share.

    >>> edited_yaml("a: {x: 1, y: 2}  # why\\nb: 3\\n", {"a": {"y": 5, "z": 0.5}})
    'a: {x: 1, y: 5, z: 0.5}  # why\\nb: 3\\n'
    """
    edited = text
    for path, value in _leaves(text, changes, ()):
        edited = _with(edited, path, value)
    if load_yaml(edited) != merge(load_yaml(text), changes):
        raise ValueError("another value would change with it")
    return edited


def _leaves(text: str, changes: Changes, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """The values to change and where they are; a block is taken apart where the text has it already."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in changes.items():
        inside = isinstance(value, Mapping) and isinstance(_find(text, (*path, key)), yaml.MappingNode)
        found += _leaves(text, value, (*path, key)) if inside else [((*path, key), value)]
    return found


def _with(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with one value in place of another, or behind the last one of its block."""
    node, block = _find(text, path), _find(text, path[:-1])
    if node is not None:
        if _ends_later(node):
            raise ValueError(f"{'.'.join(path)} is a block")
        return text[:node.start_mark.index] + _flow(value) + text[node.end_mark.index:]
    if not isinstance(block, yaml.MappingNode):
        raise ValueError(f"{'.'.join(path[:-1])} is no block")
    ends = [one.end_mark.index for _, one in block.value if not _ends_later(one)]
    if not ends:
        raise ValueError(f"{'.'.join(path)} has no place")
    if block.flow_style:
        return f"{text[:ends[-1]]}, {path[-1]}: {_flow(value)}{text[ends[-1]:]}"
    line = (text + "\n").index("\n", ends[-1])  # behind a comment
    return f"{text[:line]}\n{' ' * block.start_mark.column}{path[-1]}: {_flow(value)}{text[line:]}"


def _find(text: str, path: Sequence[str]) -> yaml.Node | None:
    """The node of a value, which knows where in the text it stands."""
    node = yaml.compose(text, yaml.SafeLoader)
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node


def _ends_later(node: yaml.Node) -> bool:
    """Whether a node's end mark is not its own end, but the beginning of what follows."""
    return node.style in ("|", ">") if isinstance(node, yaml.ScalarNode) else not node.flow_style


def _flow(value: Any) -> str:
    """A value in one line."""
    return yaml.safe_dump([value], default_flow_style=True, sort_keys=False, width=float("inf")).strip()[1:-1]
