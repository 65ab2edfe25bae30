"""Drawings, read back as a reader would and held against the orders."""

from itertools import takewhile

import pytest
import torch
from orders import EVERY_ORDER

from docs.draw_orders import arrows, draw, draw_steps, page
from pipeline.model.orders import ORDER_NAMES
from pipeline.vocabulary import SPECIALS

Steps = list[list[str]]


def rows(drawing: str) -> list[tuple[str, Steps]]:
    """The label of each line, and the cells of each of its steps."""
    lines = [line.split("  ", 1) if "  " in line else [line, ""] for line in drawing.split("\n")]
    return [(label, [step.split() for step in rest.split("│")]) for label, rest in lines]


def flat(steps: Steps) -> list[str]:
    return [cell for step in steps for cell in step]


def ids(steps: Steps) -> torch.Tensor:
    """(1, T), y1 as 51."""
    return torch.tensor([[50 + int(cell[1:]) if cell[0] == "y" else SPECIALS.index(cell) for cell in flat(steps)]])


@pytest.mark.parametrize("words", [5, 6])
@pytest.mark.parametrize("label", EVERY_ORDER)
def test_a_drawing_shows_the_order(label: str, words: int) -> None:
    order = EVERY_ORDER[label]
    T, z = order.slots(words), order.width
    drawn = rows(draw(order, words))
    above = dict(takewhile(lambda row: row[0], drawn))
    below = drawn[len(above) + 1:]

    assert list(above) == ["step", "reads", "position", "direction", "writes"]
    assert above["step"] == [[str(step)] for step in range(1, T // z + 1)]
    assert all(len(step) == z for label, steps in drawn if label not in ("", "step") for step in steps)
    sentence = torch.arange(51, 51 + words).unsqueeze(0)
    assert torch.equal(ids(above["writes"]), order.arrange(sentence, torch.tensor([words])))
    assert above["reads"][0] == [SPECIALS[start] for start in order.starts]
    assert above["reads"][1:] == above["writes"][:-1]
    assert [int(place) for place in flat(above["position"])] == order.positions(torch.arange(T)).tolist()

    assert [label for label, _ in below] == [f"{before} → {after}" for before, after in
                                             zip(flat(above["reads"]), flat(above["writes"]), strict=True)]
    assert [[{"●": True, "·": False}[cell] for cell in flat(steps)] for _, steps in below] == order.mask(T).tolist()


@pytest.mark.parametrize(("label", "expected"), [
    ("left_to_right", "→"), ("right_to_left3", "←"), ("interleaved", "→ ←"), ("interleaved_sa2", "→ ←"),
    ("middle_to_side", "← →"), ("double_token_r2l", "←"), ("multi_directional4", "→0 →1 ←2 ←3"),
])
def test_arrows_point_where_a_direction_goes(label: str, expected: str) -> None:
    assert arrows(EVERY_ORDER[label]) == expected.split()


@pytest.mark.parametrize("label", EVERY_ORDER)
def test_columns_stand_below_each_other(label: str) -> None:
    lines = draw(EVERY_ORDER[label], 6).split("\n")
    bars = [[at for at, character in enumerate(line) if character == "│"] for line in lines if line]
    assert all(one == bars[0] for one in bars)
    ends = {len(line) for line in lines if line and not line.startswith("step")}
    assert len(ends) == 1
    assert not any(line.endswith(" ") for line in lines)


def test_steps_alone() -> None:
    assert draw_steps(EVERY_ORDER["interleaved"], 3).split("\n") == [
        "step       1      │    2",
        "writes    y1   y3 │   y2 </s>"]


def test_the_page_draws_every_order_of_the_code() -> None:
    assert {name for name in ORDER_NAMES if f"`order: {{name: {name}}}`" not in page()} == {"multi_directional"}
    for block in ("multi_directional, directions: 4", "left_to_right, words: 4", "interleaved, words: 2"):
        assert f"`order: {{name: {block}}}`" in page()
    assert max(map(len, page().split("\n"))) <= 120
