"""YAML as users write it: what PyYAML takes silently, or dies of, is one line that names file and line."""

from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.params import load_params
from pipeline.strict_yaml import load_yaml, read_yaml


@pytest.mark.parametrize(("text", "message"), [
    ("seed: 1\ncorpus: {}\nseed: 2\n", "line 3: the key 'seed' is already in line 1; remove one of them"),
    ("a:\n  b:\n    x: 1\n    # why\n    x: 1\n", "line 5: the key 'x' is already in line 3"),
    ("a:\n  - b: 1\n    b: 2\n", "line 3: the key 'b' is already in line 2"),
    ("a:\n  5: 1\n  '5': 2\n", "line 3: the key '5' is already in line 2"),
    ("one: &one {x: 1}\ntwo:\n  <<: *one\n  <<: *one\n", "line 4: the key '<<' is already in line 3"),
    ("a: 1\nversion: 2024-13-45\n", "line 2: 2024-13-45 is read as a date; put it in quotes"),
    ("a: 1\nversion: 2024-11-05\n", "line 2: 2024-11-05 is read as a date; put it in quotes"),
    ("a: 0x_\n", "invalid literal"),
    ("a: " + "[" * 500, "recursion"),
])
def test_one_line_that_names_the_file_and_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(PipelineError) as caught:
        load_params(path)
    assert str(caught.value).startswith(f"{path}: not valid YAML: ") and message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_twice_in_one_line_is_found() -> None:
    with pytest.raises(Exception, match="line 1: the key 'x' is already in line 1"):
        load_yaml("a: {x: 1, x: 1}")


def test_anchors_and_merge_keys_go_on_working(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("raw: &raw {order: 1, steps: 8}\npairs: &pairs {<<: *raw, order: 2}\nmore: {<<: *pairs, order: 3}\n"
                    "both: {<<: [*pairs, *raw], width: 4}\nshared: *raw\nquoted: '2024-11-05'\n")
    assert read_yaml(path) == {
        "raw": {"order": 1, "steps": 8}, "pairs": {"order": 2, "steps": 8}, "more": {"order": 3, "steps": 8},
        "both": {"order": 2, "steps": 8, "width": 4}, "shared": {"order": 1, "steps": 8}, "quoted": "2024-11-05"}


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)
