"""The `alignment` and `counts` blocks of params.yaml, checked when they are built."""

from dataclasses import dataclass

from pipeline.errors import PipelineError

METHODS = ("forward", "reverse", "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
"""What becomes of the links of both directions; see `pipeline.alignment.symmetrise`."""


@dataclass(frozen=True)
class AlignmentSettings:
    """Word alignment by the reparameterised IBM Model 2 (`pipeline.alignment.fast_align`)."""

    iterations: int = 5
    """Steps of expectation maximisation."""
    null_probability: float = 0.08
    """p0, prior probability that a target word belongs to no source word."""
    tension: float = 4.0
    """lambda, how strongly the diagonal is preferred, at the start."""
    optimise_tension: bool = True
    """Fit the tension to the corpus from the second iteration on."""
    alpha: float = 0.01
    """Dirichlet prior of each word's translations, for variational Bayes; 0: maximum likelihood."""
    symmetrise: str = "grow-diag-final-and"
    """How the two directions become one alignment."""

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise PipelineError(f"alignment.iterations: {self.iterations} must be at least 1")
        if not 0 <= self.null_probability < 1:
            raise PipelineError(f"alignment.null_probability: {self.null_probability} must be at least 0 and below 1")
        if not 0 < self.tension <= 100:
            raise PipelineError(f"alignment.tension: {self.tension} must be above 0 and at most 100")
        if not 0 <= self.alpha <= 100 or 0 < self.alpha < 1e-4:
            raise PipelineError(f"alignment.alpha: {self.alpha} must be 0 or lie between 0.0001 and 100")
        if self.symmetrise not in METHODS:
            raise PipelineError(f"alignment.symmetrise: {self.symmetrise!r} is unknown; choose one of "
                                f"{', '.join(METHODS)}")


@dataclass(frozen=True)
class CountSettings:
    """The count model of the lattice (`pipeline.alignment.counts`)."""

    top: int = 40
    """Words to keep of every P(y | x, offset)."""

    def __post_init__(self) -> None:
        if self.top < 1:
            raise PipelineError(f"counts.top: {self.top} must be at least 1")
