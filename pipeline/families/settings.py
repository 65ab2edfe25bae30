"""What a family of any kind says in params.yaml, as plain numbers (no torch here).

What a kind of family says besides is in its file of `kinds`, which nothing lists.
"""

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pipeline import layout
from pipeline.blocks import convert
from pipeline.checks import Amount, Checked, Natural, Positive, ProperShare, Range, Share
from pipeline.corpus.settings import DataSettings
from pipeline.errors import PipelineError
from pipeline.model.settings import NetworkSettings, OrderSettings

KINDS = tuple(sorted((found.name for found in pkgutil.iter_modules([str(Path(__file__).parent / "kinds")])),
                     reverse=True))
"""The files of `kinds`; `ordered`, the default, is the first."""
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
    """What is drafted, and for whom: by a drafter, by heads, or by the candidates of a lattice."""

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


@dataclass(frozen=True)
class FamilySettings(Checked):
    """One trained model: a block of `families` laid over the blocks `network`, `training`, `optimisation` and `data`.

    A kind of family is a subclass, `Settings` in its file of `kinds`. It adds what its block may say besides, and
    answers what the rest of the pipeline asks of a family; nobody else asks for its kind.
    """

    network: NetworkSettings
    training: TrainingSettings
    optimisation: OptimisationSettings
    kind: str = "ordered"
    """The file of `kinds` that says the rest."""
    data: DataSettings = field(default_factory=DataSettings)
    start: str = ""
    """The family after which, and from whose weights, a student is trained; empty: the teacher. Where a run's `systems`
    name a student, `students` or `lattices` repeats this for dvc.yaml."""
    warm_start: bool = True
    """Whether a student takes over the weights of its `start` (what agrees in name and shape is copied), or begins with
    random ones."""
    decoders: tuple[str, ...] = ()
    """The entries of `decoders` to evaluate it under; empty: those of `default_decoders`."""

    table: ClassVar[str] = "students"
    """The table of params.yaml from which dvc.yaml trains it: `students`, or `lattices`, which need the counts too."""
    needs_encoder: ClassVar[bool] = True
    """Whether its network must have encoder layers of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_encoder and not self.network.encoder_layers:
            raise PipelineError(f"families: network.encoder_layers: a family of kind {self.kind} needs at least 1")

    @property
    def order(self) -> OrderSettings | None:
        """The order in which it generates; None where it has none to choose."""
        return None

    @property
    def verifier(self) -> str | None:
        """The family whose checkpoint its own holds, to verify its drafts; None where it drafts for nobody."""
        return None

    @property
    def takes_weights(self) -> bool:
        """Whether training begins by copying weights of its `start`."""
        return self.warm_start

    def arguments(self) -> dict[str, Any]:
        """What its LightningModule is told besides network, optimisation, vocabulary and seed, as plain YAML."""
        return {}

    def inputs(self) -> list[Path]:
        """The files that training reads besides its data and the weights of other families."""
        return []

    @classmethod
    def variant(cls, block: Mapping[str, Any], where: str) -> "type[FamilySettings]":
        """The subclass that a block of params.yaml is of; see `pipeline.blocks.build`.

        Raises:
            PipelineError: there is no such kind, or another kind has what this one says.
        """
        kind = convert(str, block.get("kind", cls.kind), f"{where}.kind")
        chosen = kind_settings(kind)
        known = {one.name for one in fields(chosen)}
        others = {one.name for other in KINDS for one in fields(kind_settings(other))}
        for key in block:
            if key not in known and key in others:
                raise PipelineError(f"families: a family of kind {kind} must have no `{key}`")
        return chosen


@cache
def kind_settings(kind: str) -> type[FamilySettings]:
    """The settings of a kind of family.

    Raises:
        PipelineError: there is no such kind.
    """
    if kind not in KINDS:
        raise PipelineError(f"families: kind {kind!r} is unknown; choose one of {', '.join(KINDS)}")
    found: type[FamilySettings] = importlib.import_module(f"pipeline.families.kinds.{kind}").Settings
    return found


@dataclass(frozen=True)
class DraftingFamily(FamilySettings):
    """What the kinds share that draft for a verifier."""

    drafting: DraftingSettings | None = None
    """What it drafts, and for which family. Its `start` is its verifier."""

    heeds: ClassVar[tuple[str, ...]] = tuple(one.name for one in fields(DraftingSettings))
    """What it may say in its block `drafting`."""
    must_draft: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.drafting is not None:
            plainest = DraftingSettings(self.drafting.verifier)
            for name, value in asdict(self.drafting).items():
                if name not in self.heeds and value != getattr(plainest, name):
                    raise PipelineError(f"families: a family of kind {self.kind} must have no `drafting.{name}`")
        elif self.must_draft:
            raise PipelineError(f"families: a family of kind {self.kind} must name `drafting`")
        super().__post_init__()

    @property
    def verifier(self) -> str | None:
        return self.drafting.verifier if self.drafting is not None else None

    def arguments(self) -> dict[str, Any]:
        if self.drafting is None:
            return {}
        said = {name: value for name, value in plain(self.drafting).items() if name in self.heeds}
        return {**said, "verifier": str(layout.checkpoint(self.drafting.verifier))}


def plain(settings: Any) -> dict[str, Any]:
    """A settings dataclass as YAML can hold it (no tuples)."""
    plainly: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return plainly
