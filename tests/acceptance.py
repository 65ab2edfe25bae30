"""How many calls of its verifier a drafter's sentences take: what losslessness does not show."""

from collections.abc import Callable

from drafters import unrounded
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD


def assert_rounding_costs_little(search: Callable[[Tensor], Hypotheses], network: Transformer, source: Tensor,
                                 least: float, more: float = 1.1) -> None:
    """Sentence by sentence, by weights of 8 bits, which one compiled call reads.

    Args:
        search: with drafts by `network`.
        network: a drafter, or a model with heads.
        source: (B, S) ids, padded with PAD.
        least: tokens that a call accepts on average, by rounded weights.
        more: calls by rounded weights for each that exact ones take.
    """
    def count() -> tuple[int, int]:
        network.clear_caches()
        found = [search(row[row != PAD].unsqueeze(0)) for row in source]
        return sum(int((one.lengths + one.ended).sum()) for one in found), sum(int(one.calls) for one in found)

    tokens, rounded = count()
    with unrounded():
        exact = count()[1]
    network.clear_caches()
    assert tokens / rounded >= least, (tokens, rounded, exact)
    assert rounded <= more * exact, (tokens, rounded, exact)
