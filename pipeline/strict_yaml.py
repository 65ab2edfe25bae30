"""Reads users' YAML files and refuses duplicate keys and dates, which are valid YAML but mistakes here.

Of two equal keys PyYAML silently keeps the second. A date is a version number without quotes; DVC refuses dates
anywhere in params.yaml. A few lines of aliases can stand for billions of values, which is no mistake but an attack.
"""

from pathlib import Path
from typing import Any, NoReturn

import yaml

from pipeline.errors import PipelineError

_LARGEST = 100_000
"""Values in a file, those that stand for an alias counted every time."""


class _Loader(yaml.SafeLoader):
    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _size(node, {}) > _LARGEST:
            raise yaml.YAMLError(f"its aliases stand for more than {_LARGEST:,} values; write them out")
        return node

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        # The nodes, before merge keys (<<) add the keys of other blocks.
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in lines:
                    raise yaml.YAMLError(f"line {line}: the key {key.value!r} is already in line {lines[key.value]}; "
                                         "remove one of them")
                lines[key.value] = line
        return node


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """The values below a node, itself included; `known` has those of other nodes, 0 while they are being counted."""
    if known.get(node) == 0:
        raise yaml.YAMLError(f"line {node.start_mark.line + 1}: an alias within what it stands for; write it out")
    if node not in known:
        known[node] = 0
        parts = [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))] \
            if isinstance(node, yaml.CollectionNode) else []
        known[node] = 1 + sum(_size(part, known) for part in parts)
    return known[node]


def _refuse_date(loader: _Loader, node: yaml.ScalarNode) -> NoReturn:
    raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {node.value} is read as a date; put it in quotes")


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _refuse_date)


def load_yaml(text: str) -> Any:
    """Parse YAML.

    Raises:
        yaml.YAMLError: the text is not YAML, contains a key twice or a date, or has aliases without bounds.

    >>> load_yaml("a: &shared {x: 1}\\nb: {<<: *shared, x: 2}")
    {'a': {'x': 1}, 'b': {'x': 2}}
    """
    try:
        return yaml.load(text, _Loader)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        # A number such as 0x_, `!!int ""`, `!!bool perhaps`, or a thousand brackets.
        raise yaml.YAMLError(f"a value cannot be read ({type(error).__name__}: {error})") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file of keys.

    Raises:
        PipelineError: the file cannot be read, is not YAML, contains a key twice or a date, or is not a block of keys.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{path}: not found; run in the folder that holds params.yaml") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; check its permissions") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise PipelineError(f"{path}: must be a block of keys")
    return content
