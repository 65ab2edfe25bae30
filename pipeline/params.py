"""params.yaml: every number that a user may turn, read once and checked whole."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipeline.alignment.settings import AlignmentSettings, CountSettings
from pipeline.analysis_settings import AnalysesSettings
from pipeline.blocks import build, merge
from pipeline.checks import Amount, Checked, Natural, Positive, Seed
from pipeline.corpus.settings import BpeSettings, DataSettings
from pipeline.errors import PipelineError
from pipeline.families.settings import KINDS, MASKINGS, DraftingSettings, OptimisationSettings, TrainingSettings
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.names import Name
from pipeline.peer_settings import FAMILY as PEER
from pipeline.peer_settings import PeerSettings
from pipeline.sources.settings import CorpusSettings
from pipeline.strict_yaml import read_yaml

PARAMS = Path("params.yaml")
TEACHER = "teacher"


@dataclass(frozen=True)
class FamilySettings:
    """One trained model: a block of `families` laid over the blocks `network`, `training` and `optimisation`."""

    network: NetworkSettings
    training: TrainingSettings
    optimisation: OptimisationSettings
    kind: str = "ordered"
    """`ordered`: generates its target step by step; `masked`: a conditional masked language model (Mask-Predict);
    `lattice`: scores a lattice of candidates, all positions at once; `drafter`: proposes the next k tokens at once, for
    an ordered family to verify; `heads`: an ordered family with heads that guess the words behind its next one."""
    order: OrderSettings | None = None
    """In which an ordered family generates."""
    masking: str = "uniform"
    """Which target words a masked family learns to fill in: a `uniform` number of them (Mask-Predict) or `all`, always
    (vanilla non-autoregressive translation)."""
    drafting: DraftingSettings | None = None
    """What a drafter or heads draft, and for which family; a lattice may name a family whose drafts its candidates
    shall be."""
    data: DataSettings = field(default_factory=DataSettings)
    start: str = ""
    """The family after which, and from whose weights, a student is trained; empty: the teacher. Of drafters and heads
    their verifier. Where a run's `systems` name a student, `students` or `lattices` repeats this for dvc.yaml."""
    warm_start: bool = True
    """Whether a student takes over the weights of its `start` (what agrees in name and shape is copied), or begins with
    random ones."""
    decoders: tuple[str, ...] = ()
    """The entries of `decoders` to evaluate it under; empty: those of `default_decoders`."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PipelineError(f"families: kind {self.kind!r} is unknown; choose one of {', '.join(KINDS)}")
        if self.masking not in MASKINGS:
            raise PipelineError(f"families: masking {self.masking!r} is unknown; choose one of {', '.join(MASKINGS)}")
        if self.masking != "uniform" and self.kind != "masked":
            raise PipelineError(f"families: a family of kind {self.kind} must have no `masking`")
        if (self.kind == "ordered") != (self.order is not None):
            must = "name" if self.order is None else "have no"
            raise PipelineError(f"families: a family of kind {self.kind} must {must} `order`")
        if self.drafting is not None:
            self.drafting.check(self.kind)
        elif self.kind in ("drafter", "heads"):
            raise PipelineError(f"families: a family of kind {self.kind} must name `drafting`")
        if self.kind != "drafter" and not self.network.encoder_layers:
            raise PipelineError(f"families: network.encoder_layers: a family of kind {self.kind} needs at least 1")


@dataclass(frozen=True)
class LimitSettings(Checked):
    """The longest output: `ratio` * source pieces + `extra`."""

    ratio: Amount = 2.0
    extra: Natural = 10


@dataclass(frozen=True)
class DistillationSettings(Checked):
    """Sequence-level knowledge distillation (Kim and Rush 2016): the teacher translates the training source."""

    decoder: str = "beam5"
    """An entry of `decoders`."""
    shard_rows: Positive = 2048
    """Sentences a shard; a run that is cut short loses at most one shard a device."""
    batch_rows: Positive = 64
    """Sentences searched together."""
    sentences: Positive | None = None
    """How many training sentences to translate, the first ones; null: all. For runs whose students learn from the
    corpus alone."""


@dataclass(frozen=True)
class EvaluationSettings(Checked):
    """Translation quality on the test split."""

    batch_rows: Positive = 64
    """Sentences searched together."""
    bleu_tokenizer: str = "13a"
    """sacreBLEU's tokenizer: 13a, intl, zh, ja-mecab, ko-mecab, …"""
    bootstrap_samples: Positive = 1000
    """Of the paired test against the baseline."""
    metrics: tuple[Literal["edits", "gleu"], ...] = ()
    """Further ones, for correctors: precision, recall and F0.5 of edits, GLEU."""


@dataclass(frozen=True)
class SpeedSettings(Checked):
    """The one clock."""

    sentences: Positive = 60
    """Test sentences to time, evenly spaced over the lengths of their sources."""
    long_sentences: Natural = 40
    """Long test sentences to time, likewise; the ratios are over these."""
    repetitions: Positive = 3
    """Rounds over them; the median of a sentence counts."""
    warmup: Natural = 5
    """Sentences translated before the clock starts."""
    long_tokens: Natural = 20
    """A sentence is long if the baseline's greedy output has this many tokens."""
    device: str = "auto"
    """cpu, cuda or auto."""
    threads: Natural = 0
    """CPU threads; 0: all."""


@dataclass(frozen=True)
class Params(Checked):
    """All of params.yaml."""

    corpus: CorpusSettings
    bpe: BpeSettings
    families: dict[Name, FamilySettings]
    decoders: dict[Name, dict[str, Any]]
    default_decoders: tuple[str, ...]
    """The entries of `decoders` that a family is evaluated under unless it names its own."""
    students: dict[str, str]
    """Families that dvc.yaml trains after the teacher has distilled the data, each with its `start`: what the systems
    need (`with_students`)."""
    systems: tuple[str, ...]
    """Families that dvc.yaml evaluates, in the order of the table; `families` is the catalogue that they are from."""
    lattices: dict[str, str] = field(default_factory=dict)
    """Students that also need a count model, likewise."""
    baseline: str = "ar"
    """The family that all others are compared with."""
    peers: dict[Name, PeerSettings] = field(default_factory=dict)
    """Searches of other libraries with the baseline's weights."""
    seed: Seed = 1
    limit: LimitSettings = LimitSettings()
    distillation: DistillationSettings = DistillationSettings()
    alignment: AlignmentSettings = field(default_factory=AlignmentSettings)
    counts: CountSettings = field(default_factory=CountSettings)
    evaluation: EvaluationSettings = EvaluationSettings()
    speed: SpeedSettings = SpeedSettings()
    analyses: AnalysesSettings = field(default_factory=AnalysesSettings)

    # Defaults of every family, already laid under `families`.
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    optimisation: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.systems:
            self.family(name, "systems")
        for name in self.systems:
            if name not in (TEACHER, *self.starts):
                table = "lattices" if self.families[name].kind == "lattice" else "students"
                raise PipelineError(f"params.yaml: systems: {name} is not trained; add {name}: "
                                    f"{self.families[name].start or TEACHER} to {table}, which dvc.yaml reads")
        for stage, students in (("students", self.students), ("lattices", self.lattices)):
            for student in students:
                self._check_ancestors(student)
                kind = self.family(student, stage).kind
                if (kind == "lattice") != (stage == "lattices"):
                    raise PipelineError(f"params.yaml: {stage}.{student}: a family of kind {kind} does not belong "
                                        "there; `lattices` trains those of kind lattice, `students` all others")
        for student, start in self.starts.items():
            if self.families[student].start not in ("", start):
                raise PipelineError(f"params.yaml: families.{student}.start is {self.families[student].start!r}, but "
                                    f"students and lattices, which dvc.yaml reads, have {start!r}; make them agree")
            drafting = self.families[student].drafting
            if drafting is not None and drafting.verifier != start:
                raise PipelineError(f"params.yaml: families.{student}.drafting.verifier is {drafting.verifier!r}, but "
                                    f"students.{student} is {start!r}; a drafter starts from its verifier")
        if self.baseline not in self.systems:
            raise PipelineError(f"params.yaml: baseline: {self.baseline!r} is not among the systems, "
                                f"{', '.join(self.systems)}")
        if self.peers and PEER in self.families:
            raise PipelineError(f"params.yaml: families.{PEER}: the reports have that name for the searches of "
                                "`peers`; choose another one")
        if doubled := self.peers.keys() & self.decoders.keys():
            raise PipelineError(f"params.yaml: peers.{min(doubled)}: is the name of a decoder too; choose another one")
        for name, family in self.families.items():
            for decoder in family.decoders:
                self.decoder(decoder, f"families.{name}.decoders")
        for decoder in self.default_decoders:
            self.decoder(decoder, "default_decoders")
        self.decoder(self.distillation.decoder, "distillation.decoder")
        if self.analyses.lattice in self.systems:
            self.decoder(self.analyses.decoder, "analyses.decoder")
        for name, decoders in self.analyses.drafting.decoders.items():
            for decoder in decoders if name in self.systems else ():
                self.decoder(decoder, f"analyses.drafting.decoders.{name}")

    @property
    def starts(self) -> dict[str, str]:
        """Of every student, lattices included, the family whose weights it starts from."""
        return {**self.students, **self.lattices}

    def _check_ancestors(self, student: str) -> None:
        """Follow a student's warm starts to the teacher."""
        line = [student]
        while line[-1] != TEACHER:
            start = self.starts.get(line[-1])
            if start is None or start in line:
                stage = "lattices" if line[-1] in self.lattices else "students"
                raise PipelineError(f"params.yaml: {stage}.{line[-1]} starts from {start!r}; it must be {TEACHER} or "
                                    "a student that does not start from it")
            line.append(start)

    def family(self, name: str, where: str = "--family") -> FamilySettings:
        """The family of that name.

        Raises:
            PipelineError: there is none.
        """
        if name not in self.families:
            raise PipelineError(f"{where}: family {name!r} is unknown; params.yaml has {', '.join(self.families)}")
        return self.families[name]

    def decoder(self, name: str, where: str = "--decoder", joint: bool | None = None) -> dict[str, Any]:
        """The entry of `decoders` of that name.

        Args:
            name: of the entry.
            where: it is asked for, for error messages.
            joint: whether the model to be searched has one vocabulary for both sides; None: as `bpe` says.

        Raises:
            PipelineError: there is none, or it needs one vocabulary.
        """
        if name not in self.decoders:
            raise PipelineError(f"{where}: decoder {name!r} is unknown; params.yaml has {', '.join(self.decoders)}")
        if self.decoders[name].get("algorithm") == "iad" and not (self.bpe.joint if joint is None else joint):
            raise PipelineError(f"{where}: decoder {name!r} copies from the source, which needs one vocabulary; set "
                                "bpe.joint to true")
        return self.decoders[name]

    def decoders_of(self, family: str) -> tuple[str, ...]:
        """The decoders that a family is evaluated under."""
        return self.family(family).decoders or self.default_decoders

    def counterparts(self) -> dict[str, str]:
        """Of each decoder and peer, the baseline's decoder that it is compared with: the same one, or the first with as
        many beams (greedy search has one)."""
        theirs = {name: self._beams(name) for name in self.decoders_of(self.baseline)}
        found = {}
        for name, beams in [*((name, self._beams(name)) for name in self.decoders),
                            *((name, peer.beams) for name, peer in self.peers.items())]:
            alike = [other for other, width in theirs.items() if width is not None and width == beams]
            if name in theirs or alike:
                found[name] = name if name in theirs else alike[0]
        return found

    def _beams(self, decoder: str) -> int | None:
        block = self.decoders[decoder]
        return 1 if block.get("algorithm") == "greedy" else block.get("beams")


def parse_params(content: dict[str, Any]) -> Params:
    """Parameters from the content of params.yaml.

    Raises:
        PipelineError: an unknown, missing or impossible value.
    """
    defaults = {name: content.get(name, {}) for name in ("network", "training", "optimisation", "data")}
    families = content.get("families")
    if isinstance(families, dict):
        families = {name: merge(defaults, block) if isinstance(block, dict) else block
                    for name, block in families.items()}
    return build(Params, {**content, "families": families}, "params")


def lay_over(content: dict[str, Any], preset: Path) -> dict[str, Any]:
    """The content of params.yaml with a preset laid over it: what a profile's params.yaml holds.

    Raises:
        PipelineError: the preset cannot be read, or says what follows from its systems.
    """
    changes = read_yaml(preset)
    for table in ("students", "lattices"):
        if table in changes:
            raise PipelineError(f"{preset}: {table} follows from `systems`; remove it, and give each family of yours "
                                "that does not start from the teacher a `start`")
    return with_students(merge(content, changes))


def with_students(content: dict[str, Any]) -> dict[str, Any]:
    """The content of params.yaml with the `students` and `lattices` that its `systems` need, as dvc.yaml reads them.

    A system needs the family that it starts from, and that family its own start, up to the teacher.

    >>> families = {"teacher": {}, "ar": {}, "drafter": {"start": "ar"}, "lattice": {"kind": "lattice"}, "nat": {}}
    >>> chosen = with_students({"families": families, "systems": ["teacher", "drafter", "lattice"]})
    >>> chosen["students"], chosen["lattices"]
    ({'ar': 'teacher', 'drafter': 'ar'}, {'lattice': 'teacher'})
    """
    blocks, systems, starts = content.get("families"), content.get("systems"), dict[str, str]()
    if not (isinstance(blocks, dict) and isinstance(systems, list) and all(isinstance(name, str) for name in systems)):
        return content  # `parse_params` will refuse it

    def start_of(name: str) -> str:
        return blocks[name].get("start") or TEACHER

    for system in systems:
        chain = list[str]()
        while isinstance(blocks.get(system), dict) and system not in (TEACHER, *starts, *chain):
            chain.append(system)
            system = start_of(system)
        starts |= {name: start_of(name) for name in reversed(chain)}
    is_lattice = {name: blocks[name].get("kind") == "lattice" for name in starts}
    return {**content, "students": {name: start for name, start in starts.items() if not is_lattice[name]},
            "lattices": {name: start for name, start in starts.items() if is_lattice[name]}}


def load_params(path: Path = PARAMS) -> Params:
    """The parameters of the folder in which a command is run."""
    return parse_params(read_yaml(path))
