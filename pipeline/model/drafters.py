"""The drafters by the way in which they read their prefix."""

from pipeline.model.bidirectional_drafter import BidirectionalDrafter
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.settings import NetworkSettings

_DRAFTERS: tuple[type[DrafterTransformer], ...] = (DrafterTransformer, BidirectionalDrafter)


def make_drafter(settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, block: int,
                 prefix: str, chained: bool) -> DrafterTransformer:
    """The drafter that reads its prefix in the given way: `causal` or `bidirectional`."""
    made = {one.prefix: one for one in _DRAFTERS}[prefix]
    return made(settings, source_vocabulary, target_vocabulary, block, chained)
