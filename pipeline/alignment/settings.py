"""The `alignment` and `counts` blocks of params.yaml, checked when they are built."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pipeline.checks import Checked, Positive, ProperShare, Range, Share
from pipeline.errors import PipelineError

Method = Literal["forward", "reverse", "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
METHODS: tuple[Method, ...] = get_args(Method)
"""How the links of both directions are joined; see `pipeline.alignment.symmetrise`."""


@dataclass(frozen=True)
class AlignmentSettings(Checked):
    """Word alignment by the reparameterised IBM Model 2 (`pipeline.alignment.fast_align`)."""

    iterations: Positive = 5
    """Steps of expectation maximisation."""
    null_probability: ProperShare = 0.08
    """p0, prior probability that a target word has no source word."""
    tension: Annotated[float, Range(above=0, at_most=100)] = 4.0
    """lambda, how strongly the diagonal is preferred, before the first iteration."""
    optimise_tension: bool = True
    """Fit the tension to the corpus from the second iteration on."""
    alpha: Annotated[float, Range(at_least=0, at_most=100)] = 0.01
    """Dirichlet prior of each word's translations, for variational Bayes; 0: maximum likelihood."""
    symmetrise: Method = "grow-diag-final-and"
    """How the two directions are joined, one of `METHODS`."""
    memory: Positive = 256
    """Megabytes beside the table, which has 20 bytes per pair of words that occur together: look-ups are kept between
    iterations as far as they fit, and fewer threads work at once if their shards do not. The result does not depend on
    it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.alpha < 1e-4:
            raise PipelineError(f"alignment.alpha: {self.alpha} must be 0 or lie between 0.0001 and 100")


@dataclass(frozen=True)
class CountSettings(Checked):
    """The count model of the lattice (`pipeline.count_model.model`)."""

    top: Positive = 40
    """Words kept per P(y | x, offset), the most probable ones."""
    diagonal: Share = 0.0
    """The share in P(a | S, t) of the aligner's prior, which favours the diagonal; the counts have the rest. Few pairs
    of a small corpus have the lengths S and t. 0: none, as in the paper."""
