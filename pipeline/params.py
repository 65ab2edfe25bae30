"""All parameters of params.yaml, read once and fully checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.alignment.settings import AlignmentSettings, CountSettings
from pipeline.analysis_settings import AnalysesSettings
from pipeline.blocks import build, merge, mistakes_in
from pipeline.checks import Amount, Checked, Natural, Positive, Seed
from pipeline.corpus.settings import BpeSettings
from pipeline.errors import PipelineError
from pipeline.families.settings import FamilySettings
from pipeline.names import Name
from pipeline.peer_settings import FAMILY as PEER
from pipeline.peer_settings import PeerSettings
from pipeline.sources.settings import CorpusSettings
from pipeline.strict_yaml import read_yaml
from pipeline.systems import TEACHER, check_sides, check_systems, find_family

if TYPE_CHECKING:
    from pipeline.decoding.limits import LengthLimit

PARAMS = Path("params.yaml")

_UNSPACED = {"zh": "zh", "ja": "char, or to ja-mecab after pip install 'sacrebleu[ja]'",
             **dict.fromkeys(("th", "lo", "km", "my"), "char")}
"""Languages without spaces between words, and the BLEU tokenizers that suit them."""


@dataclass(frozen=True)
class LimitSettings(Checked):
    """The longest output, `ratio` * source pieces + `extra` tokens."""

    ratio: Amount = 2.0
    extra: Natural = 10

    def within(self, positions: int) -> "LengthLimit":
        """The limit of translations by a model with some positions, one of which is the start symbol's."""
        from pipeline.decoding.limits import LengthLimit  # torch, which parameters do not need

        return LengthLimit(self.ratio, self.extra, positions - 1)


@dataclass(frozen=True)
class DistillationSettings(Checked):
    """Sequence-level knowledge distillation (Kim and Rush 2016): the teacher translates the training source."""

    decoder: str = "beam5"
    """An entry of `decoders`."""
    shard_rows: Positive = 2048
    """Sentences per shard; an interrupted run loses at most one shard per device."""
    batch_tokens: Positive = 1024
    """Source tokens searched together, padding included, or one sentence that has more."""
    sentences: Positive | None = None
    """The number of training sentences to translate, from the first; null: all. For runs whose students learn only
    from the corpus."""
    hypotheses: Positive = 1
    """The number of translations per sentence, the best ones of a beam search or drawn by sampling; each is a pair."""
    length_penalty: tuple[Amount, ...] = ()
    """Exponents of the decoder's length penalty (`alpha`): the one with the best validation BLEU is taken; empty: the
    decoder's own."""
    validation_sentences: Positive = 500
    """The number of validation sentences, from the first, on which it is chosen."""
    extra_sources: bool = False
    """Whether source sentences that the corpus has without a translation are translated too."""


@dataclass(frozen=True)
class EvaluationSettings(Checked):
    """Translation quality on the test split."""

    batch_tokens: Positive = 1024
    """Source tokens searched together, padding included, or one sentence that has more."""
    bleu_tokenizer: str = "13a"
    """sacreBLEU's tokenizer: 13a, intl, zh, char, ja-mecab, ko-mecab, …"""
    bootstrap_samples: Positive = 1000
    """Samples of the paired test against the baseline."""
    metrics: tuple[Literal["edits", "errant", "gleu", "sari", "rouge"], ...] = ()
    """Further metrics. For correctors: precision, recall and F0.5 of edits, as found by `edits` (any language) or
    `errant` (English), and GLEU; for simplification SARI; for summaries ROUGE-L."""
    moses: str | None = None
    """The language, such as de, by whose rules Moses tokenises for BLEU as `multi-bleu.perl` computes it, which stands
    beside sacreBLEU's; null: not computed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if {"edits", "errant"} <= set(self.metrics):
            raise PipelineError("params.yaml: evaluation.metrics: edits and errant both give precision, recall and "
                                "F0.5; choose one of them")


@dataclass(frozen=True)
class SpeedSettings(Checked):
    """How all decoders are timed in one process."""

    sentences: Positive = 60
    """Test sentences to time, evenly spaced over the lengths of their sources."""
    long_sentences: Natural = 40
    """Long test sentences to time, also evenly spaced; the ratios are over these."""
    batched_sentences: Positive = 256
    """Test sentences to time 32 at once, also evenly spaced; fewer than 256 are too few batches for an interval."""
    repetitions: Positive = 3
    """Rounds over the sentences; the median per sentence counts."""
    warmup: Natural = 5
    """Sentences, or batches, translated before the clock starts."""
    long_tokens: Natural = 20
    """A sentence is long if the baseline's greedy output has at least this many tokens."""
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
    """Families that dvc.yaml trains after the teacher has distilled the data because the systems need them, each with
    its `start` (`systems.with_students`)."""
    systems: tuple[str, ...]
    """Families that dvc.yaml evaluates, in the order of the table; `families` is the catalogue of all."""
    lattices: dict[str, str] = field(default_factory=dict)
    """Students that also need a count model, each with its `start`."""
    baseline: str = "ar"
    """The family with which all others are compared."""
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

    # Defaults of every family, already merged into `families`.
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    optimisation: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_systems(self.systems, self.families, {"students": self.students, "lattices": self.lattices})
        check_sides((TEACHER, *self.starts), self.families, self.distillation.sentences,
                    self.corpus.noise is not None)
        if "errant" in self.evaluation.metrics and self.corpus.target_language != "en":
            raise PipelineError("params.yaml: evaluation.metrics: 'errant' knows only English (en), but corpus."
                                f"target_language is {self.corpus.target_language!r}; choose 'edits'")
        tokenizer, target = self.evaluation.bleu_tokenizer, self.corpus.target_language
        suited = _UNSPACED.get(target.replace("_", "-").partition("-")[0].lower())
        if suited and tokenizer in ("13a", "intl"):
            raise PipelineError(f"params.yaml: evaluation.bleu_tokenizer: {tokenizer!r} finds words by spaces, but "
                                f"corpus.target_language is {target!r}; set it to {suited}")
        if self.baseline not in self.systems:
            raise PipelineError(f"params.yaml: baseline: {self.baseline!r} is not among the systems, "
                                f"{', '.join(self.systems)}")
        if self.peers and PEER in self.families:
            raise PipelineError(f"params.yaml: families.{PEER}: the reports use that name for the searches of "
                                "`peers`; choose another one")
        if doubled := self.peers.keys() & self.decoders.keys():
            raise PipelineError(f"params.yaml: peers.{min(doubled)}: is also the name of a decoder; choose another one")
        for name, family in self.families.items():
            for decoder in family.decoders:
                self.decoder(decoder, f"families.{name}.decoders")
        for decoder in self.default_decoders:
            self.decoder(decoder, "default_decoders")
        self._check_distillation()
        if self.analyses.lattice in self.systems:
            self.decoder(self.analyses.decoder, "analyses.decoder")
        for name, decoders in self.analyses.drafting.decoders.items():
            for decoder in decoders if name in self.systems else ():
                self.decoder(decoder, f"analyses.drafting.decoders.{name}")

    def _check_distillation(self) -> None:
        """Raise a PipelineError unless the decoder and the corpus can do what distillation asks of them."""
        settings = self.distillation
        self.decoder(settings.decoder, "distillation.decoder")
        if settings.extra_sources and not hasattr(self.corpus.reader, "read_monolingual"):
            raise PipelineError(f"params.yaml: distillation.extra_sources: the corpus source {self.corpus.source} has "
                                "no sentences without translations; set extra_sources to false")

    @property
    def languages(self) -> tuple[str, str]:
        """Of the corpus's sources and of its targets, which are those of all families."""
        return self.corpus.source_language, self.corpus.target_language

    @property
    def starts(self) -> dict[str, str]:
        """The family that must be trained before each student, lattices included: its `start`."""
        return {**self.students, **self.lattices}

    def start_of(self, name: str) -> str | None:
        """The family whose weights a family's training copies at first, whatever the systems are; None: it copies none.

        Raises:
            PipelineError: there is no such family.
        """
        family = self.family(name)
        if name == TEACHER or not family.takes_weights:
            return None
        return family.start_with.family or self.starts.get(name) or family.start or TEACHER

    def length_limit(self, positions: int) -> "LengthLimit":
        """The limit of translations by a model with some positions; see `LimitSettings.within`."""
        return self.limit.within(positions)

    def family(self, name: str, where: str = "--family") -> FamilySettings:
        """The family of that name; see `find_family`."""
        return find_family(name, self.families, where)

    def decoder(self, name: str, where: str = "--decoder", joint: bool | None = None) -> dict[str, Any]:
        """The entry of `decoders` of that name.

        Args:
            name: of the entry.
            where: the option or key that names it, for error messages.
            joint: whether the model to be searched has one vocabulary for both sides; None: `bpe.joint`.

        Raises:
            PipelineError: there is no such entry, or it needs one vocabulary.
        """
        if name not in self.decoders:
            raise PipelineError(f"{where}: decoder {name!r} is unknown; params.yaml has {', '.join(self.decoders)}")
        if self.decoders[name].get("algorithm") == "iad" and not (self.bpe.joint if joint is None else joint):
            raise PipelineError(f"{where}: decoder {name!r} copies from the source, which needs one vocabulary; set "
                                "bpe.joint to true")
        return self.decoders[name]

    def decoders_of(self, family: str) -> tuple[str, ...]:
        """The decoders under which a family is evaluated."""
        return self.family(family).decoders or self.default_decoders

    def quantization_of(self, decoder: str) -> str:
        """The format in which a decoder's model is searched; see `pipeline.model.formats.FORMATS`."""
        return str(self.decoders[decoder].get("quantization", "float32")) if decoder in self.decoders else "float32"

    def greedy_of(self, decoder: str) -> str | None:
        """The greedy search by the same model as a decoder's, if there is one: a quantised model is a model of its own.
        """
        own = self.quantization_of(decoder)
        searches = (name for name, block in self.decoders.items() if block.get("algorithm") == "greedy"
                    and "deduplicate" not in block and self.quantization_of(name) == own)
        return "greedy" if own == "float32" else next(searches, None)

    def counterparts(self) -> dict[str, str]:
        """The baseline's decoder with which each decoder and peer is compared: the same one, or the first with as many
        beams (greedy search has one). Neither is quantised."""
        beams = {name: 1 if block.get("algorithm") == "greedy" else block.get("beams")
                 for name, block in self.decoders.items()} | {name: peer.beams for name, peer in self.peers.items()}
        counterparts = dict[str, str]()
        own = [name for name in self.decoders_of(self.baseline) if self.quantization_of(name) == "float32"]
        for baseline in reversed(own):
            if beams[baseline] is not None:
                counterparts |= {name: baseline for name, width in beams.items() if width == beams[baseline]}
        return counterparts | {name: name for name in own}


def parse_params(content: dict[str, Any], file: Path = PARAMS) -> Params:
    """Parameters from the content of params.yaml.

    Args:
        content: the parsed YAML.
        file: which it is from, for error messages.

    Raises:
        PipelineError: an unknown, missing or impossible value.
    """
    defaults = {name: content.get(name, {}) for name in ("network", "training", "optimisation", "data")}
    families = content.get("families")
    if isinstance(families, dict):
        families = {name: merge(defaults, block) if isinstance(block, dict) else block
                    for name, block in families.items()}
    with mistakes_in(file):
        return build(Params, {**content, "families": families})


def load_params(path: Path = PARAMS) -> Params:
    """The parameters of the folder in which a command is run."""
    return parse_params(read_yaml(path), path)
