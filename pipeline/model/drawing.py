"""Generation orders drawn with characters, as in the papers' figures: `docs/orders.md`.

Slots, steps, positions, directions and masks are what the methods of `Order` return; only the sentences beside them
are written by hand.
"""

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill

import torch

from pipeline.model.orders import Order, make_order
from pipeline.model.settings import OrderSettings
from pipeline.vocabulary import SPECIALS

SIX, FIVE = 6, 5
"""Words of the drawn sentences: as many as in the papers' figures, and an odd number."""

_FIRST_WORD = len(SPECIALS)
_Row = tuple[str, Sequence[str]]


def draw(order: Order, words: int) -> str:
    """The slots of a sentence from left to right and, below, a row for each of them with the slots that it sees.

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
    ways = arrows(order)
    rows: list[_Row] = [
        ("step", _steps(order, len(written))),
        ("reads", _symbols(read)),
        ("position", [str(place) for place in order.positions(torch.arange(len(written))).tolist()]),
        ("direction", [ways[slot % order.directions] for slot in range(len(written))]),
        ("writes", _symbols(written)),
        ("", [])]
    rows += [(f"{before} → {after}", ["●" if seen else "·" for seen in sees]) for before, after, sees in
             zip(_symbols(read), _symbols(written), order.mask(len(written)).tolist(), strict=True)]
    return _grid(rows, order.width)


def draw_steps(order: Order, words: int) -> str:
    """What each step of a sentence writes."""
    written = arranged(order, words)
    return _grid([("step", _steps(order, len(written))), ("writes", _symbols(written))], order.width)


def arranged(order: Order, words: int) -> list[int]:
    """The slots of a sentence whose words have the ids behind the special ones."""
    sentence = torch.arange(_FIRST_WORD, _FIRST_WORD + words).unsqueeze(0)
    return [int(token) for token in order.arrange(sentence, torch.tensor([words]))[0]]


def arrows(order: Order) -> list[str]:
    """Where each direction goes, read off its first two words; numbered where an embedding tells directions apart."""
    h = order.directions
    words = arranged(order, 2 * h)
    forwards = [words[way] < words[way + h] for way in range(h)]
    return [("→" if forward else "←") + (str(way) if order.direction_embeddings else "")
            for way, forward in enumerate(forwards)]


def _steps(order: Order, slots: int) -> list[str]:
    return [str(slot // order.width + 1) if slot % order.width == 0 else "" for slot in range(slots)]


def _symbols(tokens: Sequence[int]) -> list[str]:
    return [SPECIALS[token] if token < _FIRST_WORD else f"y{token - _FIRST_WORD + 1}" for token in tokens]


def _grid(rows: Sequence[_Row], z: int) -> str:
    """Lines of cells of one width behind their labels, with a bar between two steps."""
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

`python -m pipeline orders` prints this page. It is computed from the methods of `Order` in `pipeline/model/orders.py`,
and a test compares the two. The figures and tables named are those of Zhang, Titov and Sennrich (2020), *Fast
Interleaved Bidirectional Sequence Generation*, and of Imamura and Sumita (2020), *Transformer-based Double-token
Bidirectional Autoregressive Decoding in Neural Machine Translation*.

Each drawing shows a sentence of six words, `y1` to `y6`, and a column a slot. A slot **reads** a symbol (a start
symbol, or what was written one step before) at a **position** and **writes** a word, for a **direction** of the
sentence. The slots between two bars are one step: they are written at once, by one call of the decoder. The rows below
are the mask of the self-attention: the slot that reads and writes what its label says sees (●) or does not see (·) the
slot of the column. Where a step has several slots, a sentence of five words shows what an odd length changes.
"""

_ORDERS = (
    (OrderSettings("left_to_right"),
     "Autoregressive decoding, one word a step (Imamura and Sumita, section 2.1, Figure 1a; Zhang et al., section 3)."),
    (OrderSettings("right_to_left"),
     "The same from the last word to the first (Imamura and Sumita, section 2.1)."),
    (OrderSettings("left_to_right", words=2),
     "Vanilla semi-autoregressive decoding (Zhang et al., Figure 1b; Table 2, row 6): neighbours are written at once, "
     "which makes them independent of each other given the words before."),
    (OrderSettings("left_to_right", words=4),
     "The same with four words a step (Zhang et al., Table 2, row 8)."),
    (OrderSettings("interleaved"),
     "IBDecoder (Zhang et al., section 4, equations 6 to 8, Figures 1a and 1c): from both ends to the middle. Of an "
     "odd number of words the one in the middle is the left direction's. Signed positions keep the neighbours in a "
     "direction neighbours in position."),
    (OrderSettings("interleaved", words=2),
     "IBDecoder + SA (Zhang et al., section 4.1, equation 12, Figures 1e and 1f): the same sequence and positions, and "
     "steps of two words from each end."),
    (OrderSettings("multi_directional", directions=4),
     "IMDecoder (Zhang et al., section 4.1, equations 9 to 11, Figure 1d): each half of the sentence from both its "
     "ends. The position counts steps; a trainable vector, added to what a slot reads, tells its direction, which is "
     "numbered here."),
    (OrderSettings("double_token"),
     "Double-token bidirectional decoding (Imamura and Sumita, section 3, Figures 1b and 2): folded like the "
     "interleaved order, but the two sides have start symbols of their own, and one or two `<eod>` end it. The paper's "
     "positions are learned (`network: {positions: learned}`): every slot has a vector of its own, which starts from "
     "the sinusoid of the position drawn."),
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
)

_MASK_PREDICT = """\
## `kind: masked`

Mask-Predict (Ghazvininejad et al. 2019; the comparison of Imamura and Sumita, Table 2) has no order. The encoder
predicts how many words there are; the decoder reads all of them, hidden ones as `<mask>`, each at its own position, and
every slot sees all slots and predicts the word in its own place. Of T iterations the first predicts every word; each
later one hides the least certain words, fewer every time, and predicts those again.
"""


def page() -> str:
    """The text of `docs/orders.md`."""
    return "\n".join([_INTRODUCTION, *(_section(settings, text) for settings, text in _ORDERS), _MASK_PREDICT])


def _section(settings: OrderSettings, text: str) -> str:
    order = make_order(settings)
    block = ", ".join(f"{key}: {value}" for key, value in asdict(settings).items() if value is not None)
    h, c, z = order.directions, order.words, order.width
    counts = (f"Directions h = {h}, words of each a step c = {c}, slots a step z = h · c = {z}: six words take "
              f"{order.slots(SIX) // z} steps.")
    lines = [f"## `order: {{{block}}}`", "", fill(text, _WIDTH), "", fill(counts, _WIDTH), "",
             "```text", draw(order, SIX), "```", ""]
    if z > 1:
        lines += ["```text", draw_steps(order, FIVE), "```", ""]
    return "\n".join(lines)
