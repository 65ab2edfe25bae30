"""The settings of families of all kinds in params.yaml, without torch; `kinds` has those of single kinds."""

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pipeline import layout
from pipeline.blocks import convert
from pipeline.checks import AboveZero, Amount, Checked, Natural, Position, Positive, ProperShare, Refused, Share
from pipeline.corpus.settings import DataSettings
from pipeline.errors import PipelineError
from pipeline.model.settings import NetworkSettings, OrderSettings

KINDS = tuple(sorted((found.name for found in pkgutil.iter_modules([str(Path(__file__).parent / "kinds")])),
                     key=lambda name: (name != "ordered", name)))
"""The files of `kinds`, `ordered`, the default, before the others."""
PrefixReading = Literal["causal", "bidirectional"]
Labels = Literal["verifier", "data"]
Precision = Literal["32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true"]
"""Lightning's names of what a network's weights are and of what it computes in."""


@dataclass(frozen=True)
class OptimisationSettings(Checked):
    """AdamW with a warm-up and a schedule."""

    learning_rate: AboveZero = 3e-3
    """Peak, reached at the end of the warm-up."""
    schedule: Literal["inverse_square_root", "linear", "constant"] = "linear"
    """`linear` falls to 0 at the last step; `inverse_square_root` as in Vaswani et al. (2017); `constant`."""
    warmup_steps: Natural = 150
    betas: tuple[ProperShare, ProperShare] = (0.9, 0.98)
    epsilon: AboveZero = 1e-9
    weight_decay: Amount = 0.01
    label_smoothing: ProperShare = 0.1

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
    """The length of a training, its numerics, and which weights are kept."""

    steps: Positive = 3000
    """Optimiser steps. A budget is steps, never minutes, so that a rerun is the same run."""
    accumulate: Positive = 1
    """Slices that a device accumulates before each step (`data.batch_tokens` is for all of them)."""
    clip: Amount = 1.0
    """Largest norm of the gradient."""
    precision: Precision = "32-true"
    threads: Positive = 1
    """CPU threads. They decide how sums are rounded, hence the bits of the weights, so the environment does not change
    them. Two trainings at once with one thread each take a third more steps per second than one training with two; a
    training that runs by itself is faster with more threads."""
    validate_every: Positive = 500
    """Steps between validations, checkpoints and candidates for the average."""
    validation_sentences: Positive = 500
    """The number of validation sentences, from the first, over which loss and greedy BLEU are computed."""
    patience: Natural = 0
    """Stop after this many validations without a better one; 0: never. `steps` is then the ceiling. A validation is
    judged by its BLEU or, of families that draft, whose BLEU is their verifier's, by the accepted tokens per call."""
    patience_gain: Amount = 0.0
    """By how much a validation must exceed the best one to be better."""
    cooldown: Natural = 0
    """Steps over which the learning rate falls to 0 once patience has run out, before the training stops: what
    `schedule: linear` does before the ceiling."""
    average: Positive = 5
    """Candidates whose weights are averaged into the final model."""
    average_by: Literal["last", "best"] = "last"
    """Which candidates: the `last` ones or the `best` by validation; see `patience`."""


@dataclass(frozen=True)
class StartSettings(Checked):
    """What a student takes from its `start`, which may generate the other way round.

    A student that is wider than its start, by a multiple, or deeper, begins with the function of its start
    (`pipeline.model.start`).
    """

    family: str = ""
    """The family whose weights it copies, if not its `start`: one that its `start` began with, directly or not. A small
    drafter can so begin with the small model that its large verifier began with."""
    weights: Literal["all", "encoder"] = "all"
    """Which weights it copies: `all` that fit, or those of the `encoder` and the embeddings."""
    positions: tuple[Position, Position] | None = None
    """With learned positions: the word position of the target's first slot before training, and the step from each slot
    to the next, so that words begin where they are in `start`. [-1, -1] for an order from right to left is where
    `interleaved` has its right words; [-1, 1] for two neighbours per step is where `ar` has what they read. Null: those
    of the order."""


@dataclass(frozen=True)
class DraftingSettings(Checked):
    """Drafts by a drafter, by heads, or by the candidates of a lattice, and the family that verifies them."""

    verifier: str
    """The family that verifies its drafts, an ordered one that generates one token per step. Its checkpoint becomes a
    part of this family's, and this family starts from it (`students`)."""
    block: Positive = 8
    """k, tokens per draft; for heads, the verifier's own token and one per head."""
    prefix: PrefixReading = "causal"
    """How it reads accepted tokens: `causal`, so that it can keep its states, or `bidirectional`, as in the paper."""
    chained: bool = True
    """Whether a drafted token depends on the one before it; else those of a block are independent, as in the paper."""
    glancing: tuple[Share, Share] = (0.0, 0.0)
    """The share of its wrong tokens that is revealed to it in training, at the first and at the last step."""
    labels: Labels = "verifier"
    """What it learns to draft after the prefix of a training target: the predictions of its `verifier`, or the target's
    own tokens, as in the paper, where the targets are distilled (`data`)."""
    stride: Positive = 3
    """Tokens from one prefix of a training sentence to the next (causal only; else each sentence has one prefix)."""


@dataclass(frozen=True)
class FamilySettings(Checked):
    """One trained model: a block of `families` merged into the blocks `network`, `training`, `optimisation` and `data`.

    A kind of family is a subclass, `Settings` in its file of `kinds`. It adds further keys of its block and overrides
    the properties by which the rest of the pipeline distinguishes families, so that no other code asks for its kind.
    """

    network: NetworkSettings
    training: TrainingSettings
    optimisation: OptimisationSettings
    kind: str = "ordered"
    """The name of its file of `kinds`."""
    data: DataSettings = field(default_factory=DataSettings)
    start: str = ""
    """The family from whose weights a student's training starts; empty: the teacher. For the students that a run's
    `systems` need, `students` or `lattices` repeats this for dvc.yaml."""
    warm_start: bool = True
    """Whether a student copies the weights of its `start` that have the same name and shape, or begins with random
    ones."""
    start_with: StartSettings = StartSettings()
    decoders: tuple[str, ...] = ()
    """The entries of `decoders` under which it is evaluated; empty: those of `default_decoders`."""

    table: ClassVar[str] = "students"
    """The table of params.yaml from which dvc.yaml trains it: `students`, or `lattices`, which also need counts."""
    needs_encoder: ClassVar[bool] = True
    """Whether its network must have encoder layers of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_encoder and not self.network.encoder_layers:
            raise Refused(f"network.encoder_layers: a family of kind {self.kind} needs at least 1")
        if not self.takes_weights and self.start_with != StartSettings():
            raise Refused(f"start_with: a family of kind {self.kind} with warm_start {str(self.warm_start).lower()} "
                          "copies nothing from its start; remove start_with")
        positions = self.start_with.positions
        if positions is not None and self.network.positions != "learned":
            raise Refused(f"start_with.positions: {list(positions)} begins a table that is learned; set "
                          "network.positions to learned")

    @property
    def order(self) -> OrderSettings | None:
        """The order in which it generates; None for a kind without such a setting."""
        return None

    @property
    def verifier(self) -> str | None:
        """The family that verifies its drafts, whose checkpoint its own contains; None if it does not draft."""
        return None

    @property
    def takes_weights(self) -> bool:
        """Whether training begins with weights of its `start`."""
        return self.warm_start

    def arguments(self) -> dict[str, Any]:
        """Further arguments of its LightningModule, after network, optimisation, vocabulary and seed, as plain YAML."""
        return {}

    def inputs(self) -> list[Path]:
        """Further files that training reads, other than its data and the weights of other families."""
        return []

    @classmethod
    def variant(cls, block: Mapping[str, Any], where: str) -> "type[FamilySettings]":
        """The subclass for a block of params.yaml; see `pipeline.blocks.build`.

        Raises:
            PipelineError: there is no such kind, or the block has a key of another kind.
        """
        kind = convert(str, block.get("kind", cls.kind), f"{where}.kind")
        if kind not in KINDS:
            raise PipelineError(f"params.yaml: {where}.kind: {kind!r} is unknown; choose one of {', '.join(KINDS)}")
        chosen = kind_settings(kind)
        known = {one.name for one in fields(chosen)}
        others = {one.name for other in KINDS for one in fields(kind_settings(other))}
        for key in block:
            if key not in known and key in others:
                raise PipelineError(f"params.yaml: {where}.{key}: a family of kind {kind} has none; remove it, or "
                                    "choose another kind")
        return chosen


@cache
def kind_settings(kind: str) -> type[FamilySettings]:
    """The settings of one of the `KINDS` of families."""
    settings: type[FamilySettings] = importlib.import_module(f"pipeline.families.kinds.{kind}").Settings
    return settings


@dataclass(frozen=True)
class DraftingFamily(FamilySettings):
    """The base of the kinds that draft for a verifier."""

    drafting: DraftingSettings | None = None
    """Its drafts, and the family that verifies them, which is also its `start`."""

    drafting_keys: ClassVar[tuple[str, ...]] = tuple(one.name for one in fields(DraftingSettings))
    """The keys that its block `drafting` may have."""
    must_draft: ClassVar[bool] = True
    """Whether it must have a block `drafting`."""

    def __post_init__(self) -> None:
        if self.drafting is not None:
            default = DraftingSettings(self.drafting.verifier)
            for name, value in asdict(self.drafting).items():
                if name not in self.drafting_keys and value != getattr(default, name):
                    raise Refused(f"drafting.{name}: a family of kind {self.kind} has none; remove it")
        elif self.must_draft:
            raise Refused(f"drafting: is missing; a family of kind {self.kind} must name it")
        super().__post_init__()

    @property
    def verifier(self) -> str | None:
        return self.drafting.verifier if self.drafting is not None else None

    def arguments(self) -> dict[str, Any]:
        if self.drafting is None:
            return {}
        drafting = {name: value for name, value in plain(self.drafting).items() if name in self.drafting_keys}
        return {**drafting, "verifier": str(layout.checkpoint(self.drafting.verifier))}


def plain(settings: Any) -> dict[str, Any]:
    """A settings dataclass as plain YAML, without tuples."""
    converted: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return converted
