"""Blocks of params.yaml: every key known, every value of its type, or one line that says which is not."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.blocks import build, merge
from pipeline.checks import Checked
from pipeline.errors import PipelineError


@dataclass(frozen=True)
class Inner:
    size: int = 3


@dataclass(frozen=True)
class Block(Checked):
    name: str
    number: int = 1
    share: float = 0.5
    flag: bool = False
    kind: Literal["round", "square"] = "round"
    maybe: int | None = None
    pair: tuple[float, float] = (0.0, 1.0)
    names: tuple[str, ...] = ()
    inner: Inner = Inner()
    inners: dict[str, Inner] = field(default_factory=dict)
    anything: dict[str, Any] = field(default_factory=dict)


def test_every_kind_of_value() -> None:
    block = {"name": "x", "number": 2, "share": 1, "flag": True, "kind": "square", "maybe": None, "pair": [1, "2e-3"],
             "names": ["a", "b"], "inner": {"size": 4}, "inners": {"one": {"size": 5}, "two": {}},
             "anything": {"a": [1, {}]}}
    built = build(Block, block, "block")
    assert built == Block("x", 2, 1.0, True, "square", None, (1.0, 0.002), ("a", "b"), Inner(4),
                          {"one": Inner(5), "two": Inner()}, {"a": [1, {}]})
    assert isinstance(built.share, float) and isinstance(built.pair[0], float)
    assert build(Block, {"name": "x", "maybe": 7}, "block").maybe == 7
    assert build(Block, {"name": "x"}, "block") == Block("x")


def test_a_small_number_without_a_point_is_a_number() -> None:
    assert build(Block, {"name": "x", "share": "1e-9"}, "block").share == 1e-9  # YAML 1.1 reads it as a string


@pytest.mark.parametrize(("block", "message"), [
    ({}, "block.name is missing"),
    (None, "block must be a block of keys, not None"),
    (["name"], "block must be a block of keys"),
    ({"name": "x", "nubmer": 2}, r"block.nubmer is unknown; did you mean block.number\?"),
    ({"name": "x", "zzz": 2}, "block.zzz is unknown; choose among name, number, "),
    ({"name": "x", 5: 2}, "block.5 is unknown"),
    ({"name": 5}, "block.name is 5; it must be of type str"),
    ({"name": False}, "block.name is False; it must be of type str"),
    ({"name": None}, "block.name is None; it must be of type str"),
    ({"name": "x", "number": 2.0}, "block.number is 2.0; it must be of type int"),
    ({"name": "x", "number": True}, "block.number is True; it must be of type int"),
    ({"name": "x", "number": "2"}, "block.number is '2'; it must be of type int"),
    ({"name": "x", "share": "much"}, "block.share is 'much'; it must be of type float"),
    ({"name": "x", "share": 10 ** 400}, "block.share is 1000*; it must be of type float"),
    ({"name": "x", "share": False}, "block.share is False; it must be of type float"),
    ({"name": "x", "flag": 1}, "block.flag is 1; it must be of type bool"),
    ({"name": "x", "flag": "no"}, "block.flag is 'no'; it must be of type bool"),
    ({"name": "x", "kind": "oval"}, "block.kind is 'oval'; choose one of round, square"),
    ({"name": "x", "maybe": "x"}, "block.maybe is 'x'; it must be of type int"),
    ({"name": "x", "pair": [1]}, "block.pair must have 2 entries, not 1"),
    ({"name": "x", "pair": "ab"}, "block.pair must be a list, not 'ab'"),
    ({"name": "x", "pair": [1, "b"]}, r"block.pair\[1\] is 'b'; it must be of type float"),
    ({"name": "x", "names": ["a", 1]}, r"block.names\[1\] is 1; it must be of type str"),
    ({"name": "x", "names": "ab"}, "block.names must be a list, not 'ab'"),
    ({"name": "x", "inner": 3}, "block.inner must be a block of keys, not 3"),
    ({"name": "x", "inner": {"sise": 3}}, r"block.inner.sise is unknown; did you mean block.inner.size\?"),
    ({"name": "x", "inners": {"one": {"size": "3"}}}, "block.inners.one.size is '3'; it must be of type int"),
    ({"name": "x", "inners": ["one"]}, "block.inners must be a block of keys"),
    ({"name": "x", "inners": {7: {}}}, "block.inners: the name 7 is read as int, not as text; put it in quotes"),
])
def test_mistakes(block: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=rf"^params.yaml: {message}") as caught:
        build(Block, block, "block")
    assert "\n" not in str(caught.value)


trees = st.recursive(st.integers() | st.lists(st.integers(), max_size=2),
                     lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8)
blocks = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)
with_nulls = st.recursive(st.none() | st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner))


def look_up(tree: Any, path: list[str]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def leaves(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(tree, dict):
        return [(path, tree)]
    return [leaf for key, inner in tree.items() for leaf in leaves(inner, (*path, key))]


@given(base=blocks, overlay=blocks)
def test_merge(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    merged = merge(base, overlay)
    assert merge(merged, overlay) == merged  # laid over twice, it changes nothing more
    assert merge({}, base) == base == merge(base, {})
    assert merged.keys() == base.keys() | overlay.keys()
    for path, value in leaves(overlay):
        assert look_up(merged, list(path)) == value
    if not base.keys() & overlay.keys():
        assert merged == {**base, **overlay}


@given(base=blocks, overlay=st.dictionaries(st.sampled_from("abc"), with_nulls))
def test_a_null_removes_a_key_also_of_a_block_that_is_new(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    merged = merge(base, overlay)
    assert None not in [value for _, value in leaves(merged)]
    for path, value in leaves(overlay):
        *outer, key = path
        assert key not in look_up(merged, outer) if value is None else look_up(merged, list(path)) == value


def test_merge_changes_neither() -> None:
    base, overlay = {"a": {"x": 1}}, {"a": {"y": 2}}
    assert merge(base, overlay) == {"a": {"x": 1, "y": 2}}
    assert (base, overlay) == ({"a": {"x": 1}}, {"a": {"y": 2}})
