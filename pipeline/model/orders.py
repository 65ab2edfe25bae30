"""Generation orders: which target word is produced in which slot, at which position, seeing what, until when.

A target `y` of n words is generated in slots t = 0, 1, …; `Order.indices` names the word of every slot, and
everything else (arranging a target for training, restoring a hypothesis, positions, mask, step width, end)
follows from it. Slots are filled z = h·c at a time, h directions by c words (Zhang et al. 2020, section 4).

Choices that the papers leave open:

* The slots behind the last word hold the end symbol, up to a whole number of steps and at least one. All of them
  are trained and scored, so every candidate of a step has z factors and candidates are comparable.
* A hypothesis is complete once a step holds an end symbol ("any word hits [/s]", section 4.2); it then holds it in
  all later slots of that step: a word behind the end has no place in the target, so search does not propose it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.errors import PipelineError
from pipeline.vocabulary import EOS, PAD

Indices = Callable[[Tensor, Tensor], Tensor]
Positions = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Order:
    """One generation order. All methods are pure and work on any device."""

    name: str
    directions: int
    """h, the ends from which words are generated at once."""
    words: int
    """c, the words that each direction produces a step."""
    indices: Indices = field(repr=False)
    """Maps lengths (B, 1) and slots (1, T) to the target index of each slot (B, T); valid where slot < length."""
    positions: Positions = field(repr=False)
    """Maps slots (T,) to word positions (T,), which may be negative."""

    @property
    def width(self) -> int:
        """z = h·c, the slots filled by one decoder call."""
        return self.directions * self.words

    def slots(self, length: int) -> int:
        """Slots that a target of `length` words takes, end symbols included.

        >>> [ORDERS["interleaved"].slots(n) for n in range(5)]
        [2, 2, 4, 4, 6]
        """
        return (length // self.width + 1) * self.width

    def arrange(self, target: Tensor, lengths: Tensor) -> Tensor:
        """Put targets in generation order.

        Args:
            target: (B, N) word ids, anything behind `lengths`.
            lengths: (B,) words a row.

        Returns:
            (B, T) with T the slots of the longest row; EOS fills a row's last step, PAD what is behind it.

        >>> ORDERS["interleaved"].arrange(torch.tensor([[11, 12, 13, 14, 15]]), torch.tensor([5])).tolist()
        [[11, 15, 12, 14, 13, 3]]
        """
        slots = torch.arange(self.slots(int(lengths.max())), device=target.device).unsqueeze(0)
        lengths = lengths.unsqueeze(1)
        if target.shape[1] == 0:
            words = slots.new_full((len(target), slots.shape[1]), EOS)
        else:
            words = target.gather(1, self.indices(lengths, slots).clamp(0, target.shape[1] - 1))
        ends = (lengths // self.width + 1) * self.width
        return words.masked_fill(slots >= lengths, EOS).masked_fill(slots >= ends, PAD)

    def restore(self, arranged: Tensor) -> tuple[Tensor, Tensor]:
        """Put generated slots back in reading order; the inverse of `arrange`.

        Args:
            arranged: (B, T) slots as generated. The words of a row are those before its first EOS.

        Returns:
            (B, N) words padded with PAD, and their lengths (B,).

        >>> ORDERS["interleaved"].restore(torch.tensor([[11, 15, 12, 14, 13, 3]]))[0].tolist()
        [[11, 12, 13, 14, 15]]
        """
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
        """Words before the first EOS of each row of (B, T); T where a row has none (cut at a length limit)."""
        return (arranged == EOS).cumsum(1).eq(0).sum(1)

    def mask(self, slots: int, device: torch.device | None = None) -> Tensor:
        """M(h, c) of equation 4: (T, T) booleans, true where the row may see the column.

        A slot sees its own step and all earlier ones.
        """
        step = torch.arange(slots, device=device) // self.width
        return step.unsqueeze(1) >= step.unsqueeze(0)


def _first_to_last(lengths: Tensor, slots: Tensor) -> Tensor:
    return slots.expand(lengths.shape[0], -1)


def _last_to_first(lengths: Tensor, slots: Tensor) -> Tensor:
    return lengths - 1 - slots


def _from_both_ends(lengths: Tensor, slots: Tensor) -> Tensor:
    """y1 yn y2 y(n-1) … (equation 6)."""
    half = slots // 2
    return torch.where(slots % 2 == 0, half, lengths - 1 - half)


def _counted(slots: Tensor) -> Tensor:
    """0 1 2 … (equation 5)."""
    return slots


def _signed(slots: Tensor) -> Tensor:
    """1 -1 2 -2 …, so that neighbours of one direction are neighbours in position (equation 7)."""
    return torch.where(slots % 2 == 0, slots // 2 + 1, -(slots // 2) - 1)


ORDERS: dict[str, Order] = {
    order.name: order
    for order in (
        Order("left_to_right", 1, 1, _first_to_last, _counted),
        Order("right_to_left", 1, 1, _last_to_first, _counted),
        Order("interleaved", 2, 1, _from_both_ends, _signed),
    )
}


def order_named(name: str) -> Order:
    """The order of that name.

    Raises:
        PipelineError: there is none.
    """
    if name not in ORDERS:
        raise PipelineError(f"order: {name!r} is unknown; choose one of {', '.join(ORDERS)}")
    return ORDERS[name]
