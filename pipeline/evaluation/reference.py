"""The searches that all others are compared with. (No torch here: `facts` checks them before anything is trained.)"""

from pipeline.errors import PipelineError
from pipeline.interop.searchable import searchable
from pipeline.params import Params

REFERENCE_DECODERS = ("beam5", "greedy")
"""The baseline family's decoders that every speed is compared with: its best and its fastest."""


def check_baseline(params: Params) -> None:
    """Raise a PipelineError unless the baseline has the reference decoders, and any peers can search it."""
    name = params.baseline
    if absent := [one for one in REFERENCE_DECODERS if one not in params.decoders_of(name)]:
        raise PipelineError(f"params.yaml: families.{name}.decoders: the baseline lacks {', '.join(absent)}, with "
                            "which all others are compared; add it, or make another family the baseline")
    if params.peers and not searchable(params.family(name).order):
        raise PipelineError(f"params.yaml: baseline: {name!r} does not generate left to right, one token per step, as "
                            "other libraries require; choose another baseline, or set `peers` to {}")
