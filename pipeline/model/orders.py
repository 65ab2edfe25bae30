"""Generation orders: which target word is produced in which slot, at which position, seeing what, until when.

A target `y` of n words is generated in slots t = 0, 1, …; `Order.indices` names the word of every slot, and
everything else (arranging a target for training, restoring a hypothesis, positions, mask, step width, end)
follows from it. Slots are filled z = h·c at a time, h directions by c words (Zhang et al. 2020, section 4).
`docs/orders.md` draws every order.

Choices that the papers leave open:

* The slots behind the last word hold the end symbol, up to a whole number of steps and at least one. All of them
  are trained and scored, so every candidate of a step has z factors and candidates are comparable. In a double-token
  order these are the "one or two EOD tokens" of Imamura and Sumita (section 3.2).
* A hypothesis is complete once a step holds an end symbol ("any word hits [/s]", Zhang et al., section 4.2; "a pair
  contains EOD", Imamura and Sumita, section 3.1); it then holds it in all later slots of that step: a word behind
  the end has no place in the target, so search does not propose it.
* An odd word belongs to the left half (both papers draw even sentences only).
* With h > 2 a step holds the left words of all h/2 segments before the right ones, so that the words of an incomplete
  last step are dealt out evenly: the "roughly equal" segments (section 4.1) differ by one word at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.model.settings import OrderSettings
from pipeline.vocabulary import BOS, EOD, EOS, PAD

Indices = Callable[[Tensor, Tensor], Tensor]
Positions = Callable[[Tensor], Tensor]
Visible = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Order:
    """One generation order. All methods are pure and work on any device."""

    name: str
    directions: int
    """h, the ends from which words are generated at once."""
    words: int
    """c, the words that each direction produces a step."""
    indices: Indices = field(repr=False, compare=False)
    """Maps lengths (B, 1) and slots (1, T) to the target index of each slot (B, T); valid where slot < length."""
    positions: Positions = field(repr=False, compare=False)
    """Maps slots (T,) to word positions (T,), which may be negative."""
    starts: tuple[int, ...] = ()
    """The z start symbols, the inputs of the first step; BOS where nothing else is said."""
    end: int = EOS
    """The end symbol."""
    visible: Visible | None = field(default=None, repr=False, compare=False)
    """Narrows what a slot sees below M(h, c): maps slots (T, 1) and (1, T) to booleans (T, T); None: all of it."""
    direction_embeddings: bool = False
    """Whether a trainable vector of its direction is added to every slot (equation 10 of Zhang et al.)."""

    def __post_init__(self) -> None:
        if not self.starts:
            object.__setattr__(self, "starts", (BOS,) * self.width)

    @property
    def width(self) -> int:
        """z = h·c, the slots filled by one decoder call."""
        return self.directions * self.words

    def slots(self, length: int) -> int:
        """Slots that a target of `length` words takes, end symbols included.

        >>> order = make_order(OrderSettings("interleaved"))
        >>> [order.slots(n) for n in range(5)]
        [2, 2, 4, 4, 6]
        """
        return (length // self.width + 1) * self.width

    def arrange(self, target: Tensor, lengths: Tensor) -> Tensor:
        """Put targets in generation order.

        Args:
            target: (B, N) word ids, anything behind `lengths`.
            lengths: (B,) words a row.

        Returns:
            (B, T) with T the slots of the longest row; the end symbol fills a row's last step, PAD what is behind it.

        >>> order = make_order(OrderSettings("interleaved"))
        >>> order.arrange(torch.tensor([[11, 12, 13, 14, 15]]), torch.tensor([5])).tolist()
        [[11, 15, 12, 14, 13, 3]]
        """
        slots = torch.arange(self.slots(int(lengths.max())), device=target.device).unsqueeze(0)
        lengths = lengths.unsqueeze(1)
        if target.shape[1] == 0:
            words = slots.new_full((len(target), slots.shape[1]), self.end)
        else:
            words = target.gather(1, self.indices(lengths, slots).clamp(0, target.shape[1] - 1))
        ends = (lengths // self.width + 1) * self.width
        return words.masked_fill(slots >= lengths, self.end).masked_fill(slots >= ends, PAD)

    def restore(self, arranged: Tensor) -> tuple[Tensor, Tensor]:
        """Put generated slots back in reading order; the inverse of `arrange`.

        Args:
            arranged: (B, T) slots as generated. The words of a row are those before its first end symbol.

        Returns:
            (B, N) words padded with PAD, and their lengths (B,).

        >>> make_order(OrderSettings("interleaved")).restore(torch.tensor([[11, 15, 12, 14, 13, 3]]))[0].tolist()
        [[11, 12, 13, 14, 15]]
        """
        if len(arranged) == 1:
            # One sentence is searched so quickly that the operations below would be a tenth of the whole.
            row, = arranged.tolist()
            length = row.index(self.end) if self.end in row else len(row)
            return (arranged.index_select(1, _slots_of_words(self, length).to(arranged.device)),
                    arranged.new_tensor([length]))
        lengths = self.lengths(arranged)
        longest = int(lengths.max()) if len(lengths) else 0
        slots = torch.arange(longest, device=arranged.device).unsqueeze(0)
        inside = slots < lengths.unsqueeze(1)
        # Slots behind the end are written to a spare column, which is cut off.
        indices = self.indices(lengths.unsqueeze(1), slots).masked_fill(~inside, longest)
        words = arranged.new_full((len(arranged), longest + 1), PAD)
        words.scatter_(1, indices, arranged[:, :longest].masked_fill(~inside, PAD))
        return words[:, :longest], lengths

    def lengths(self, arranged: Tensor) -> Tensor:
        """Words before the first end symbol of each row of (B, T); T where there is none (cut at a length limit)."""
        return (arranged == self.end).cumsum(1).eq(0).sum(1)

    def mask(self, slots: int, device: torch.device | None = None) -> Tensor:
        """(T, T) booleans, true where the row may see the column: M(h, c) of equation 4, or less.

        In M(h, c) a slot sees its own step and all earlier ones.
        """
        rows, columns = torch.arange(slots, device=device).unsqueeze(1), torch.arange(slots, device=device).unsqueeze(0)
        mask = torch.div(rows, self.width, rounding_mode="floor") >= torch.div(columns, self.width,
                                                                               rounding_mode="floor")
        return mask if self.visible is None else mask & self.visible(rows, columns)


@lru_cache(maxsize=4096)
def _slots_of_words(order: Order, length: int) -> Tensor:
    """(N,) the slot of each word of a target so long."""
    return order.indices(torch.tensor([[length]]), torch.arange(length).unsqueeze(0))[0].argsort()


def _first_to_last(lengths: Tensor, slots: Tensor) -> Tensor:
    return slots.expand(len(lengths), -1)


def _last_to_first(lengths: Tensor, slots: Tensor) -> Tensor:
    return lengths - 1 - slots


def _from_both_ends(segments: int) -> Indices:
    """From the two ends of each segment at once (equations 6 and 9).

    Slot t belongs to direction d = t mod h and is its (t // h)-th word; d < h/2 is the left end of segment d, and
    d + h/2 its right end. Direction d gets n // h words, and one more if d < n mod h, because the words of the last
    step fill its first slots.
    """
    directions = 2 * segments

    def indices(lengths: Tensor, slots: Tensor) -> Tensor:
        place, direction = torch.div(slots, directions, rounding_mode="floor"), slots % directions
        share, rest = torch.div(lengths, directions, rounding_mode="floor"), lengths % directions
        segment = direction % segments
        # First words of this segment and of the next: every one before has twice the share and its part of the rest.
        first, behind = (2 * share * one + torch.minimum(one, rest) + torch.minimum(one, (rest - segments).clamp(min=0))
                         for one in (segment, segment + 1))
        return torch.where(direction < segments, first + place, behind - 1 - place)
    return indices


def _from_the_middle(lengths: Tensor, slots: Tensor) -> Tensor:
    """The two halves of the interleaved order, each from the middle outwards."""
    left, place = torch.div(lengths + 1, 2, rounding_mode="floor"), torch.div(slots, 2, rounding_mode="floor")
    return torch.where(slots % 2 == 0, left - 1 - place, left + place)


def _counted(slots: Tensor) -> Tensor:
    """0 1 2 … (equation 5)."""
    return slots


def _signed(slots: Tensor) -> Tensor:
    """1 -1 2 -2 …, so that neighbours of one direction are neighbours in position (equation 7)."""
    return torch.where(slots % 2 == 0, slots // 2 + 1, -(slots // 2) - 1)


def _stepped(directions: int) -> Positions:
    """The step in which a direction's word is produced (equation 10); its direction is told by an embedding."""
    return lambda slots: torch.div(slots, directions, rounding_mode="floor")


def _earlier(rows: Tensor, columns: Tensor) -> Tensor:
    """The vanilla mask, M(1, 1)."""
    return rows >= columns


def _same_direction(rows: Tensor, columns: Tensor) -> Tensor:
    return rows % 2 == columns % 2


def _one_direction(name: str, h: int, c: int) -> Order:
    indices = _first_to_last if name == "left_to_right" else _last_to_first
    return Order(name, h, c, indices, _counted)


def _interleaved(name: str, h: int, c: int) -> Order:
    return Order(name, h, c, _from_both_ends(1), _signed)


def _multi_directional(name: str, h: int, c: int) -> Order:
    return Order(name, h, c, _from_both_ends(h // 2), _stepped(h), direction_embeddings=True)


def _ablation(name: str, h: int, c: int) -> Order:
    """Table 2 of Zhang et al.: the interleaved order with one part taken out."""
    indices = _from_the_middle if name == "middle_to_side" else _from_both_ends(1)
    positions = _counted if name == "vanilla_positions" else _signed
    visible = {"vanilla_mask": _earlier, "independent_directions": _same_direction}.get(name)
    return Order(name, h, c, indices, positions, visible=visible)


def _double_token(name: str, h: int, c: int) -> Order:
    """Imamura and Sumita: left directions start from BOS and right ones from EOS, and EOD ends."""
    if name == "double_token":
        return Order(name, h, c, _from_both_ends(1), _signed, (BOS, EOS), EOD)
    if name == "double_token_l2r":
        return Order(name, h, c, _first_to_last, _counted, (BOS, BOS), EOD)
    return Order(name, h, c, _last_to_first, _counted, (EOS, EOS), EOD)


@dataclass(frozen=True)
class _Kind:
    """A named order: what makes it, and the h and c that it can have (None: any that its check allows)."""

    make: Callable[[str, int, int], Order]
    directions: int | None
    words: int | None = None


_KINDS = {
    "left_to_right": _Kind(_one_direction, 1),
    "right_to_left": _Kind(_one_direction, 1),
    "interleaved": _Kind(_interleaved, 2),
    "multi_directional": _Kind(_multi_directional, None),
    "double_token": _Kind(_double_token, 2, 1),
    "double_token_l2r": _Kind(_double_token, 1, 2),
    "double_token_r2l": _Kind(_double_token, 1, 2),
    "vanilla_mask": _Kind(_ablation, 2),
    "vanilla_positions": _Kind(_ablation, 2),
    "middle_to_side": _Kind(_ablation, 2),
    "independent_directions": _Kind(_ablation, 2),
}

ORDER_NAMES = tuple(_KINDS)


def make_order(settings: OrderSettings) -> Order:
    """The order that a block of params.yaml or a checkpoint describes.

    Raises:
        PipelineError: there is none of that name, or it cannot have these directions or words.
    """
    name, h, c = settings.name, settings.directions, settings.words
    if name not in _KINDS:
        raise PipelineError(f"order: {name!r} is unknown; choose one of {', '.join(_KINDS)}")
    kind = _KINDS[name]
    h = h if h is not None else kind.directions or 4
    c = c if c is not None else kind.words or 1
    if kind.directions is None and (h < 4 or h % 2):
        raise PipelineError(f"order: {name} with directions {h}: its segments have two directions each; choose an even "
                            "number above 2")
    if kind.directions not in (None, h):
        raise PipelineError(f"order: {name} has {kind.directions} directions, not {h}; remove `directions` or choose "
                            "multi_directional")
    if c < 1 or kind.words not in (None, c):
        raise PipelineError(f"order: {name} cannot produce {c} words a direction; "
                            f"{'choose 1 or more' if kind.words is None else f'it produces {kind.words}'}")
    return kind.make(name, h, c)
