"""Generation orders: which target word is generated in which slot, at which position, seeing which other slots.

A target y of n words is generated in slots t = 0, 1, …; `Order.indices` maps slots to words. Each step fills
z = h · c slots, c words in each of h directions (Zhang et al. 2020, section 4). `docs/orders.md` draws every order.

Choices that the papers leave open:

* At least one slot after the last word, up to a multiple of z slots, holds the end symbol. All of them are trained and
  scored, so every candidate of a step has z factors and candidates are comparable. In a double-token order these are
  the "one or two EOD tokens" of Imamura and Sumita (section 3.2).
* A hypothesis is complete once a step holds an end symbol ("any word hits [/s]", Zhang et al., section 4.2; "a pair
  contains EOD", Imamura and Sumita, section 3.1). All later slots of that step then hold it too: a word after the end
  has no index in the target, so search does not propose it.
* The middle word of an odd number belongs to the left half (both papers draw even numbers only).
* With h > 2 a step holds the left words of all h/2 segments before the right ones, which distributes the words of an
  incomplete last step evenly: the "roughly equal" segments (section 4.1) differ by at most one word.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.model.settings import OrderSettings
from pipeline.vocabulary import BOS, EOD, EOS, PAD

SlotIndices = Callable[[Tensor, Tensor], Tensor]
SlotPositions = Callable[[Tensor], Tensor]
SlotVisibility = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Order:
    """One generation order. All methods are pure, and those of tensors work on any device."""

    name: str
    directions: int
    """h, the ends from which words are generated at once."""
    words: int
    """c, the words that each direction generates per step."""
    indices: SlotIndices = field(repr=False, compare=False)
    """Maps lengths (B, 1) and slots (1, T) to the target index of each slot (B, T); valid where slot < length."""
    positions: SlotPositions = field(repr=False, compare=False)
    """Maps slots (T,) to word positions (T,), which may be negative."""
    starts: tuple[int, ...] = ()
    """The z start symbols, which are the inputs of the first step; BOS by default."""
    end: int = EOS
    """The end symbol."""
    visible: SlotVisibility | None = field(default=None, repr=False, compare=False)
    """Restricts the mask M(h, c): maps slots (T, 1) and (1, T) to booleans (T, T); None: no restriction."""
    direction_embeddings: bool = False
    """Whether every slot has a trainable vector of its direction (equation 10 of Zhang et al.)."""

    def __post_init__(self) -> None:
        if not self.starts:
            object.__setattr__(self, "starts", (BOS,) * self.width)

    @property
    def width(self) -> int:
        """z = h·c, the slots filled by one decoder call."""
        return self.directions * self.words

    @property
    def left_to_right(self) -> bool:
        """Whether slots hold words in reading order."""
        return self.indices is _first_to_last

    def slots(self, length: int) -> int:
        """The number of slots of a target of `length` words, end symbols included.

        >>> order = make_order(OrderSettings("interleaved"))
        >>> [order.slots(n) for n in range(5)]
        [2, 2, 4, 4, 6]
        """
        return (length // self.width + 1) * self.width

    def arrange(self, target: Tensor, lengths: Tensor) -> Tensor:
        """Put targets in generation order.

        Args:
            target: (B, N) word ids, anything after `lengths`.
            lengths: (B,) words per row.

        Returns:
            (B, T) with T the slots of the longest row; end symbols fill a row's last step and PAD all steps after it.

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
            arranged: (B, T) slots as generated. A row's words are those before its first end symbol.

        Returns:
            (B, N) words padded with PAD, and their lengths (B,).

        >>> make_order(OrderSettings("interleaved")).restore(torch.tensor([[11, 15, 12, 14, 13, 3]]))[0].tolist()
        [[11, 12, 13, 14, 15]]
        """
        if len(arranged) == 1:
            # The operations below would be a tenth of the time of searching a single sentence.
            row, = arranged.tolist()
            length = row.index(self.end) if self.end in row else len(row)
            return (arranged.index_select(1, _slots_of_words(self, length).to(arranged.device)),
                    arranged.new_tensor([length]))
        lengths = (arranged == self.end).cumsum(1).eq(0).sum(1)  # words before the first end symbol
        longest = int(lengths.max()) if len(lengths) else 0
        slots = torch.arange(longest, device=arranged.device).unsqueeze(0)
        inside = slots < lengths.unsqueeze(1)
        # Slots after the end are written to an extra column, which is cut off.
        indices = self.indices(lengths.unsqueeze(1), slots).masked_fill(~inside, longest)
        words = arranged.new_full((len(arranged), longest + 1), PAD)
        words.scatter_(1, indices, arranged[:, :longest].masked_fill(~inside, PAD))
        return words[:, :longest], lengths

    def mask(self, slots: int) -> Tensor:
        """(T, T) booleans, true where the row sees the column: M(h, c) of equation 4, or less.

        In M(h, c) a slot sees its own step and all earlier ones.
        """
        columns = torch.arange(slots).unsqueeze(0)
        rows = columns.t()
        mask = rows // self.width >= columns // self.width
        return mask if self.visible is None else mask & self.visible(rows, columns)


@lru_cache(maxsize=4096)
def _slots_of_words(order: Order, length: int) -> Tensor:
    """The slot of each word (N,) of a target of N words."""
    return order.indices(torch.tensor([[length]]), torch.arange(length).unsqueeze(0))[0].argsort()


def _first_to_last(lengths: Tensor, slots: Tensor) -> Tensor:
    return slots.expand(len(lengths), -1)


def _last_to_first(lengths: Tensor, slots: Tensor) -> Tensor:
    return lengths - 1 - slots


def _from_both_ends(segments: int) -> SlotIndices:
    """From the two ends of each segment at once (equations 6 and 9).

    Slot t is the (t // h)-th word of direction d = t mod h. Direction d < h/2 starts at the left end of segment d,
    direction d + h/2 at its right end. Direction d has n // h words, and one more if d < n mod h, because the words of
    the last step fill its first slots.
    """
    directions = 2 * segments

    def indices(lengths: Tensor, slots: Tensor) -> Tensor:
        place, direction = slots // directions, slots % directions
        share, rest = lengths // directions, lengths % directions
        segment = direction % segments
        # First words of this segment and of the next: each one before has twice the share, and part of the rest.
        first, after = (2 * share * one + torch.minimum(one, rest) + torch.minimum(one, (rest - segments).clamp(min=0))
                        for one in (segment, segment + 1))
        return torch.where(direction < segments, first + place, after - 1 - place)
    return indices


def _from_the_middle(lengths: Tensor, slots: Tensor) -> Tensor:
    """The two halves of the interleaved order, each from the middle outwards."""
    left, place = (lengths + 1) // 2, slots // 2
    return torch.where(slots % 2 == 0, left - 1 - place, left + place)


def _counted(slots: Tensor) -> Tensor:
    """0 1 2 … (equation 5)."""
    return slots


def _signed(slots: Tensor) -> Tensor:
    """1 -1 2 -2 …, so that neighbours of one direction are neighbours in position (equation 7)."""
    return torch.where(slots % 2 == 0, slots // 2 + 1, -(slots // 2) - 1)


def _stepped(directions: int) -> SlotPositions:
    """The step in which a word is generated (equation 10); an embedding encodes its direction."""
    return lambda slots: slots // directions


def _earlier(rows: Tensor, columns: Tensor) -> Tensor:
    """The vanilla mask, M(1, 1)."""
    return rows >= columns


def _same_direction(rows: Tensor, columns: Tensor) -> Tensor:
    return rows % 2 == columns % 2


@dataclass(frozen=True)
class _Kind:
    """A named order. By default it goes from both ends, with signed positions."""

    directions: int | None
    """h; None: a setting. The directions then have embeddings, and the positions count steps."""
    words: int | None = None
    """c; None: a setting."""
    indices: SlotIndices | None = None
    positions: SlotPositions = _signed
    starts: tuple[int, ...] = ()
    end: int = EOS
    visible: SlotVisibility | None = None


_KINDS = {
    "left_to_right": _Kind(1, None, _first_to_last, _counted),
    "right_to_left": _Kind(1, None, _last_to_first, _counted),
    "interleaved": _Kind(2),
    "multi_directional": _Kind(None),
    # Imamura and Sumita: left directions start from BOS and right ones from EOS, and EOD is the end symbol.
    "double_token": _Kind(2, 1, starts=(BOS, EOS), end=EOD),
    "double_token_l2r": _Kind(1, 2, _first_to_last, _counted, (BOS, BOS), EOD),
    "double_token_r2l": _Kind(1, 2, _last_to_first, _counted, (EOS, EOS), EOD),
    # Table 2 of Zhang et al.: the interleaved order with one part replaced.
    "vanilla_mask": _Kind(2, visible=_earlier),
    "vanilla_positions": _Kind(2, positions=_counted),
    "middle_to_side": _Kind(2, indices=_from_the_middle),
    "independent_directions": _Kind(2, visible=_same_direction),
    # Table 3: the interleaved order, one word per step, so that the second word of a pair sees the first.
    "alternating": _Kind(1, 1, _from_both_ends(1)),
}

ORDER_NAMES = tuple(_KINDS)


def make_order(settings: OrderSettings) -> Order:
    """The order that a block of params.yaml or a checkpoint describes.

    Raises:
        PipelineError: no order has that name, or it cannot have these directions or words.
    """
    name = settings.name
    if name not in _KINDS:
        raise PipelineError(f"order: {name!r} is unknown; choose one of {', '.join(_KINDS)}")
    kind = _KINDS[name]
    h, c = settings.directions or kind.directions or 4, settings.words or kind.words or 1
    if kind.directions is None and (h < 4 or h % 2):
        raise PipelineError(f"order: {name} with directions {h}: its segments have two directions each; choose an even "
                            "number above 2")
    if kind.directions not in (None, h):
        raise PipelineError(f"order: {name} has {kind.directions} directions, not {h}; remove `directions` or choose "
                            "multi_directional")
    if kind.words not in (None, c):
        raise PipelineError(f"order: {name} cannot produce {c} words per direction; it produces {kind.words}")
    return Order(name, h, c, kind.indices or _from_both_ends(h // 2),
                 _stepped(h) if kind.directions is None else kind.positions, kind.starts, kind.end, kind.visible,
                 direction_embeddings=kind.directions is None)
