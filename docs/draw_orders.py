"""Generation orders drawn with characters, as in the papers' figures: `docs/orders.md`.

Slots, steps, positions, directions and masks come from the methods of `Order`; only the explanations are written by
hand.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import count
from textwrap import fill

import torch

from pipeline.model.orders import Order, make_order
from pipeline.model.settings import OrderSettings
from pipeline.vocabulary import SPECIALS

SIX, FIVE = 6, 5
"""Lengths of the drawn sentences in words: that of the papers' figures, and an odd one."""

_FIRST_WORD = len(SPECIALS)
_LabelledCells = tuple[str, Sequence[str]]


def draw(order: Order, words: int) -> str:
    """The slots of a sentence from left to right and, below, a row for each of them that marks the slots it sees.

    >>> print(draw(make_order(OrderSettings("double_token")), 2))
    step            1       │     2
    reads         <s>  </s> │    y1    y2
    position        1    -1 │     2    -2
    direction       →     ← │     →     ←
    writes         y1    y2 │ <eod> <eod>
    <BLANKLINE>
    <s> → y1        ●     ● │     ·     ·
    </s> → y2       ●     ● │     ·     ·
    y1 → <eod>      ●     ● │     ●     ●
    y2 → <eod>      ●     ● │     ●     ●
    """
    written = arranged(order, words)
    read = [*order.starts, *written][:len(written)]
    directions = arrows(order)
    rows: list[_LabelledCells] = [
        ("step", _steps(order, len(written))),
        ("reads", _symbols(read)),
        ("position", [str(place) for place in order.positions(torch.arange(len(written))).tolist()]),
        ("direction", [directions[slot % len(directions)] for slot in range(len(written))]),
        ("writes", _symbols(written)),
        ("", [])]
    rows += [(f"{before} → {after}", ["●" if seen else "·" for seen in sees]) for before, after, sees in
             zip(_symbols(read), _symbols(written), order.mask(len(written)).tolist(), strict=True)]
    return _grid(rows, order.width)


def draw_steps(order: Order, words: int) -> str:
    """The words that each step of a sentence writes."""
    written = arranged(order, words)
    return _grid([("step", _steps(order, len(written))), ("writes", _symbols(written))], order.width)


def arranged(order: Order, words: int) -> list[int]:
    """The slots of a sentence whose words have the ids after the special ones."""
    sentence = torch.arange(_FIRST_WORD, _FIRST_WORD + words).unsqueeze(0)
    return [int(token) for token in order.arrange(sentence, torch.tensor([words]))[0]]


def arrows(order: Order) -> list[str]:
    """An arrow for each direction, from its first two words; numbered where directions have embeddings.

    Directions that alternate one word per step are two, although a step fills a slot of only one of them.
    """
    words = arranged(order, 4 * order.directions)
    h = next(h for h in count(order.directions) if abs(words[h] - words[0]) == 1)
    return [("→" if words[d] < words[d + h] else "←") + (str(d) if order.direction_embeddings else "")
            for d in range(h)]


def _steps(order: Order, slots: int) -> list[str]:
    return [str(slot // order.width + 1) if slot % order.width == 0 else "" for slot in range(slots)]


def _symbols(tokens: Sequence[int]) -> list[str]:
    return [SPECIALS[token] if token < _FIRST_WORD else f"y{token - _FIRST_WORD + 1}" for token in tokens]


def _grid(rows: Sequence[_LabelledCells], z: int) -> str:
    """Rows of cells of equal width after their labels, with a bar between two steps."""
    label_width = max(len(label) for label, _ in rows)
    cell_width = max(len(cell) for _, cells in rows for cell in cells)
    lines = []
    for label, cells in rows:
        steps = [cells[start:start + z] for start in range(0, len(cells), z)]
        line = " │ ".join(" ".join(cell.rjust(cell_width) for cell in step) for step in steps)
        lines.append(f"{label:<{label_width}}  {line}".rstrip())
    return "\n".join(lines)


# The page.

_WIDTH = 112

_INTRODUCTION = """\
# Generation orders

`python -m docs.generate` draws this page from the methods of `Order` in `pipeline/model/orders.py`, and a test
compares the two. Figures and tables are those of Zhang, Titov and Sennrich (2020), *Fast Interleaved Bidirectional
Sequence Generation*, and of Imamura and Sumita (2020), *Transformer-based Double-token Bidirectional Autoregressive
Decoding in Neural Machine Translation*.

Each drawing shows a sentence of six words, `y1` to `y6`, with one column per slot. A slot **reads** a symbol (a start
symbol, or one that the previous step wrote) at a **position** and **writes** a word, in a **direction** of the
sentence. The slots between two bars are one step: one call of the decoder writes them at once. The rows below are the
mask of the self-attention: the slot of the row, whose label shows the symbols that it reads and writes, sees (●) or
does not see (·) the slot of the column. Where a step has several slots, a sentence of five words shows an odd length.
"""

_ORDERS = (
    (OrderSettings("left_to_right"),
     "Autoregressive decoding, one word per step (Imamura and Sumita, section 2.1, Figure 1a; Zhang et al., section "
     "3)."),
    (OrderSettings("right_to_left"),
     "The same from the last word to the first (Imamura and Sumita, section 2.1)."),
    (OrderSettings("left_to_right", words=2),
     "Vanilla semi-autoregressive decoding (Zhang et al., Figure 1b; Table 2, row 6): neighbours are written at once "
     "and are therefore independent of each other, given the words before."),
    (OrderSettings("left_to_right", words=4),
     "The same with four words per step (Zhang et al., Table 2, row 8)."),
    (OrderSettings("interleaved"),
     "IBDecoder (Zhang et al., section 4, equations 6 to 8, Figures 1a and 1c): from both ends to the middle. "
     "The middle word of an odd number belongs to the left direction. With signed positions, neighbours in a direction "
     "have neighbouring positions."),
    (OrderSettings("interleaved", words=2),
     "IBDecoder + SA (Zhang et al., section 4.1, equation 12, Figures 1e and 1f): the same sequence and positions, and "
     "steps of two words from each end."),
    (OrderSettings("multi_directional", directions=4),
     "IMDecoder (Zhang et al., section 4.1, equations 9 to 11, Figure 1d): each half of the sentence from both its "
     "ends. The position counts steps; a trainable vector per direction is added to what a slot reads, and directions "
     "are numbered here."),
    (OrderSettings("double_token"),
     "Double-token bidirectional decoding (Imamura and Sumita, section 3, Figures 1b and 2): the slots of the "
     "interleaved order, but each side has its own start symbol, and one or two `<eod>` end the sentence. The paper's "
     "positions are learned (`network: {positions: learned}`): every slot has its own vector, which starts from the "
     "sinusoid of the position drawn. The setting makes those of the encoder learned, too, which the paper leaves "
     "open."),
    (OrderSettings("double_token_l2r"),
     "Double-token decoding of two neighbours, for comparison (Imamura and Sumita, section 4.1)."),
    (OrderSettings("double_token_r2l"),
     "The same from the last word to the first (Imamura and Sumita, section 4.1)."),
    (OrderSettings("vanilla_mask"),
     "Ablation of the interleaved order (Zhang et al., Table 2, row 2): the mask of autoregressive decoding, in which "
     "the left slot of a step does not see the right one."),
    (OrderSettings("vanilla_positions"),
     "Ablation (Zhang et al., Table 2, row 3): the positions of autoregressive decoding (equation 5)."),
    (OrderSettings("middle_to_side"),
     "Ablation (Zhang et al., Table 2, row 4): from the middle of the sentence to both ends."),
    (OrderSettings("independent_directions"),
     "Ablation (Zhang et al., Table 2, row 5): no slot sees the other direction."),
    (OrderSettings("alternating"),
     "The autoregressive counterpart of the interleaved order (Zhang et al., Table 3, bidirectional with z = 1): the "
     "same sequence and positions, and steps of one word, so that the second word of a pair depends on the first."),
)

_MASK_PREDICT = """\
## `kind: masked`

Mask-Predict (Ghazvininejad et al. 2019; Imamura and Sumita, Table 2, compare it) has no order. The encoder predicts
the number of words. The decoder reads all words, hidden ones as `<mask>`, each at its own position; every slot sees all
slots and predicts the word at its own position. The first of T iterations predicts all words; each later one hides the
least certain words, fewer every time, and predicts those again.
"""


def page() -> str:
    """The text of `docs/orders.md`."""
    return "\n".join([_INTRODUCTION, *(_section(settings, text) for settings, text in _ORDERS), _MASK_PREDICT])


def _section(settings: OrderSettings, text: str) -> str:
    order = make_order(settings)
    block = ", ".join(f"{key}: {value}" for key, value in asdict(settings).items() if value is not None)
    h, c, z = order.directions, order.words, order.width
    counts = (f"Directions h = {h}, words per direction and step c = {c}, slots per step z = h · c = {z}: six words "
              f"take {order.slots(SIX) // z} steps.")
    lines = [f"## `order: {{{block}}}`", "", fill(text, _WIDTH), "", fill(counts, _WIDTH), "",
             "```text", draw(order, SIX), "```", ""]
    if z > 1:
        lines += ["```text", draw_steps(order, FIVE), "```", ""]
    return "\n".join(lines)
