"""Values in a YAML file change; its comments, order and blanks do not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.blocks import merge
from pipeline.edit import edit_yaml, edited_yaml
from pipeline.errors import PipelineError

TEXT = """\
# Colours of the lantern.
lantern:
    wick:  'long'   # quoted, on purpose
    colours: {red: 1.0e-3,  pale: [1,2]}  # flow
    shelf:
      height: 3   # steps

teapot: yes
"""


def test_one_value_and_not_a_byte_besides() -> None:
    edited = edited_yaml(TEXT, {"lantern": {"colours": {"red": 0.5, "pale": [3]}, "shelf": {"height": 4}}})
    assert edited == TEXT.replace("1.0e-3", "0.5").replace("[1,2]", "[3]").replace("height: 3", "height: 4")


def test_a_new_key_stands_behind_the_others_of_its_block() -> None:
    edited = edited_yaml(TEXT, {"lantern": {"colours": {"blue": 2}, "shelf": {"wood": {"oak": 1.0}}}})
    assert edited == TEXT.replace("[1,2]}", "[1,2], blue: 2}").replace(
        "# steps\n", "# steps\n      wood: {oak: 1.0}\n")


def test_the_last_line_need_not_end() -> None:
    assert edited_yaml("a:\n  b: 1", {"a": {"b": 22, "c": 3}}) == "a:\n  b: 22\n  c: 3"


SCALARS = st.integers() | st.booleans() | st.floats(-9, 9) | st.text("xyz:#{ ", max_size=5)
BLOCKS = st.recursive(SCALARS, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
                      max_leaves=6)
DICTIONARIES = st.dictionaries(st.sampled_from("abcd"), BLOCKS, min_size=1, max_size=4)


@settings(max_examples=40)
@given(DICTIONARIES, DICTIONARIES, st.booleans())
def test_it_merges_or_says_that_it_cannot(before: dict[str, Any], changes: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(before, default_flow_style=flow)
    try:
        edited = edited_yaml(text, changes)
    except ValueError:
        assert not flow  # where every value shows its end, all can be changed
        return
    assert yaml.safe_load(edited) == merge(before, changes)


@pytest.mark.parametrize(("text", "changes"), [
    ("a: &shared {x: 1}\nb: *shared\n", {"b": {"x": 2}}),  # would change a
    ("a:\n  x: 1\n", {"a": 2}),
    ("a: 1\n", {"a": None}),
    ("a: [1\n", {"a": 2}),
], ids=["alias", "block", "removal", "no YAML"])
def test_what_cannot_be_edited_is_left_as_it_is(tmp_path: Path, text: str, changes: dict[str, Any]) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(text)
    with pytest.raises(PipelineError, match=r"some\.yaml: cannot be edited in place .*; write into it yourself: \{"):
        edit_yaml(path, changes)
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"absent\.yaml: cannot be read: No such file"):
        edit_yaml(tmp_path / "absent.yaml", {"a": 1})


def test_carriage_returns_stay(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_bytes(b"a: 1\r\nb: 2  # why\r\n")
    edit_yaml(path, {"a": 3})
    assert path.read_bytes() == b"a: 3\r\nb: 2  # why\r\n"
