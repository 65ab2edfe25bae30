"""How a family is trained, as plain numbers (no torch here)."""

from dataclasses import asdict, dataclass
from typing import Annotated

from pipeline.checks import Amount, Checked, Natural, Positive, ProperShare, Range, Share
from pipeline.errors import PipelineError

MASKINGS = ("uniform", "all")
KINDS = ("ordered", "masked", "lattice", "drafter", "heads")
DRAFTING = {"drafter": ("verifier", "block", "prefix", "chained", "glancing", "stride"),
            "heads": ("verifier", "block", "chained"), "lattice": ("verifier",)}
"""Of the kinds that draft, what each may say in its block `drafting`."""
PREFIXES = ("causal", "bidirectional")
AVERAGES = ("last", "best")
SCHEDULES = ("inverse_square_root", "linear", "constant")

AboveZero = Annotated[float, Range(above=0)]


@dataclass(frozen=True)
class OptimisationSettings(Checked):
    """AdamW with a warm-up and one of the usual schedules."""

    learning_rate: AboveZero = 3e-3
    """Peak, reached at the end of the warm-up."""
    schedule: str = "linear"
    """`linear` falls to 0 at the last step; `inverse_square_root` as in Vaswani et al. (2017); `constant`."""
    warmup_steps: Natural = 150
    betas: tuple[ProperShare, ProperShare] = (0.9, 0.98)
    epsilon: AboveZero = 1e-9
    weight_decay: Amount = 0.01
    label_smoothing: ProperShare = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule not in SCHEDULES:
            raise PipelineError(f"training.schedule: {self.schedule!r} is unknown; "
                                f"choose one of {', '.join(SCHEDULES)}")

    def factor(self, step: int, steps: int) -> float:
        """The learning rate of a step as a fraction of its peak.

        Args:
            step: optimiser steps done.
            steps: of the whole run.

        >>> settings = OptimisationSettings(warmup_steps=4)
        >>> [settings.factor(step, 12) for step in (0, 3, 4, 8, 12)]
        [0.25, 1.0, 1.0, 0.5, 0.0]
        """
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        if self.schedule == "linear":
            return max(0.0, (steps - step) / max(1, steps - self.warmup_steps))
        if self.schedule == "inverse_square_root":
            return (max(1, self.warmup_steps) / max(1, step)) ** 0.5
        return 1.0


@dataclass(frozen=True)
class TrainingSettings(Checked):
    """How long, on what, and which weights are kept."""

    steps: Positive = 3000
    """Optimiser steps. A budget is steps, never minutes, so that a rerun is the same run."""
    accumulate: Positive = 1
    """Slices that a device works through before each step (`data.batch_tokens` is their sum)."""
    clip: Amount = 1.0
    """Largest norm of the gradient."""
    precision: str = "32-true"
    """As Lightning names it; for example bf16-mixed."""
    threads: Positive = 1
    """CPU threads. They decide how sums are rounded, hence the bits of the weights, so they are a part of what is
    trained and not of where: the environment does not change them. Two trainings at once with one thread each take a
    third more steps per second than one training with two; a training that nothing can run beside gains from more."""
    validate_every: Positive = 500
    """Steps between validations, checkpoints and candidates for the average."""
    validation_sentences: Positive = 500
    """Sentences of the validation split, the first ones, that a validation's loss and greedy BLEU are over."""
    patience: Natural = 0
    """Stop after this many validations without a better BLEU; 0: never."""
    average: Positive = 5
    """Candidates whose weights are averaged into the final model."""
    average_by: str = "last"
    """Which candidates: the `last` ones or the `best` by validation BLEU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average_by not in AVERAGES:
            raise PipelineError(f"training.average_by: {self.average_by!r} is unknown; "
                                f"choose one of {', '.join(AVERAGES)}")


@dataclass(frozen=True)
class DraftingSettings(Checked):
    """What is drafted, and for whom: by a drafter, by heads, or by the candidates of a lattice (`DRAFTING`)."""

    verifier: str
    """The family that verifies its drafts: an ordered one of one word a step. Its checkpoint becomes a part of this
    one's, and it is what `students` makes this family start from."""
    block: Positive = 8
    """k, tokens a draft; of heads the verifier's own token and one a head."""
    prefix: str = "causal"
    """How it reads what is accepted: `causal`, so that its states are kept, or `bidirectional`, as the paper's."""
    chained: bool = True
    """Whether a drafted token sees the one before it; else the tokens of a block are independent, as in the paper."""
    glancing: tuple[Share, Share] = (0.0, 0.0)
    """Which share of the tokens that it gets wrong is shown to it in training, at the first and at the last step."""
    stride: Positive = 3
    """Words from one prefix of a training sentence to the next (causal only)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prefix not in PREFIXES:
            raise PipelineError(f"drafting.prefix: {self.prefix!r} is unknown; choose one of {', '.join(PREFIXES)}")

    def check(self, kind: str) -> None:
        """Raise a PipelineError where this says what a family of that kind does not heed, or cannot be."""
        if kind not in DRAFTING:
            raise PipelineError(f"families: a family of kind {kind} must have no `drafting`")
        plainest = DraftingSettings(self.verifier)
        for name, value in asdict(self).items():
            if name not in DRAFTING[kind] and value != getattr(plainest, name):
                raise PipelineError(f"families: a family of kind {kind} must have no `drafting.{name}`")
        if kind == "heads" and self.block < 2:
            raise PipelineError(f"families: drafting.block: {self.block} leaves no word to guess; heads need 2 or more")
