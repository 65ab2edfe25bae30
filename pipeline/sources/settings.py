"""The `corpus` block of params.yaml, checked when it is built."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from pipeline.checks import Checked, Positive, Range, Seed, Share, SomeButNotAll
from pipeline.errors import PipelineError
from pipeline.lines import UnicodeForm

Source = Literal["home-assistant", "ua-gec", "files", "tsv", "po", "tmx", "huggingface"]
SplitUnit = Literal["file", "pair"]
UaGecLayer = Literal["gec-only", "gec-fluency"]


def _check_choice(key: str, value: str, choices: object) -> None:
    if value not in get_args(choices):
        raise PipelineError(f"params.yaml: {key} is '{value}'; choose one of {', '.join(get_args(choices))}")


def _check_shares(block: str, validation: float, test: float) -> None:
    if validation + test >= 1:
        raise PipelineError(f"params.yaml: {block}: validation_share {validation} and test_share {test} must leave "
                            "something for train")


def _check_sha256(key: str, value: str) -> None:
    if len(value) != 64 or set(value.lower()) - set("0123456789abcdef"):
        raise PipelineError(f"params.yaml: {key} is '{value}'; give the 64 hexadecimal digits of the wheel's SHA-256")


_FOUND_BY_LANGUAGE = ("home-assistant", "tmx", "huggingface")
"""Sources that look both texts up by their language codes. To the others the codes are labels, and a corpus of
corrections has the same on both sides."""


@dataclass(frozen=True)
class HomeAssistantSettings(Checked):
    """Interface strings of the `homeassistant` wheel (Apache-2.0), split by integration."""

    version: str
    """Release to download, for example `2026.11.0`."""
    sha256: str
    """Expected hash of the wheel, 64 hexadecimal digits."""
    validation_share: SomeButNotAll = 0.04
    """Share of the integrations whose strings become the validation split."""
    test_share: SomeButNotAll = 0.04
    """Share of the integrations whose strings become the test split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sha256("corpus.home_assistant.sha256", self.sha256)
        _check_shares("corpus.home_assistant", self.validation_share, self.test_share)


@dataclass(frozen=True)
class UaGecSettings(Checked):
    """Ukrainian texts with their corrections, the `ua-gec` wheel (CC-BY-4.0); test is the test of its publishers."""

    version: str
    """Release to download, for example `2.1.3`."""
    sha256: str
    """Expected hash of the wheel, 64 hexadecimal digits."""
    layer: UaGecLayer = "gec-only"
    """`gec-only`: errors are corrected; `gec-fluency`: what sounds unnatural is reworded besides."""
    validation_share: SomeButNotAll = 0.04
    """Share of the training documents that become the validation split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sha256("corpus.ua_gec.sha256", self.sha256)
        _check_choice("corpus.ua_gec.layer", self.layer, UaGecLayer)


@dataclass(frozen=True)
class FilesSettings:
    """Two aligned text files a split, one sentence a line, plain or .gz."""

    train: tuple[str, str]
    """Source file and target file."""
    validation: tuple[str, str]
    """Source file and target file."""
    test: tuple[str, str]
    """Source file and target file."""


@dataclass(frozen=True)
class TsvSettings:
    """One file a split with `source<TAB>target` on each line, plain or .gz."""

    train: str
    validation: str
    test: str


@dataclass(frozen=True)
class CatalogueSettings(Checked):
    """Files without splits of their own (.po, .tmx): the split of a pair follows from a hash."""

    files: tuple[str, ...]
    """Paths or glob patterns (`locale/**/de.po`)."""
    split_by: SplitUnit = "file"
    """`file`: all pairs of a file stay together; `pair`: all pairs of the same source string do."""
    validation_share: SomeButNotAll = 0.04
    """Share of the files or pairs that become the validation split."""
    test_share: SomeButNotAll = 0.04
    """Share of the files or pairs that become the test split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("corpus: split_by", self.split_by, SplitUnit)
        _check_shares("corpus", self.validation_share, self.test_share)


@dataclass(frozen=True)
class HuggingFaceSettings:
    """A data set that the `datasets` library can load."""

    name: str
    """Name on the hub or a local folder."""
    config: str | None = None
    """Configuration of the data set, for example `de-en`."""
    revision: str | None = None
    """Commit of the data set; name one to make the run repeatable."""
    train: str = "train"
    """Name of the data set's split to train on."""
    validation: str = "validation"
    """Name of the data set's split to validate on."""
    test: str = "test"
    """Name of the data set's split to test on."""
    field: str | None = "translation"
    """Column with a dictionary from language to text; null: the languages are columns themselves."""


@dataclass(frozen=True)
class FilterSettings(Checked):
    """Which pairs are kept. Lengths are measured after normalisation."""

    unicode: UnicodeForm = "NFC"
    """Unicode normalisation form: NFC, NFKC or none."""
    min_words: Positive = 3
    """Fewest white-space separated words of a source."""
    max_words: Positive = 60
    """Most white-space separated words of a source."""
    max_length_ratio: Annotated[float, Range(at_least=1)] = 4.0
    """Longer side over shorter side, in characters: words would not do for scripts without spaces."""
    drop_identical: bool = True
    """Drop pairs whose two sides are equal."""
    drop_duplicates: bool = True
    """Keep only the first of several equal pairs."""
    evaluation: bool = True
    """Filter validation and test like train, and drop from them the source strings of train. False: keep
    both whole, line for line (a published test set), and drop their source strings from train."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("corpus.filters.unicode", self.unicode, UnicodeForm)
        if self.min_words > self.max_words:
            raise PipelineError(f"params.yaml: corpus.filters: min_words {self.min_words} must not exceed max_words "
                                f"{self.max_words}")


@dataclass(frozen=True)
class KeepSettings(Checked):
    """How many pairs of each split to keep, the first ones; null: all. For quick trials."""

    train: Positive | None = None
    validation: Positive | None = None
    test: Positive | None = None


@dataclass(frozen=True)
class NoiseSettings(Checked):
    """Synthetic errors in the targets of train, from which to learn correction before the real ones (`noise.py`)."""

    copies: Positive = 2
    """Wrong versions of each sentence."""
    words: Share = 0.08
    """Share of the words that are replaced, left out, put in, swapped with the next one, given another case or followed
    by a mark that does not belong there. This share and the next two are means over sentences, which vary much."""
    characters: Share = 0.04
    """Share of the words that are misspelt."""
    marks: Share = 0.2
    """Share of the punctuation marks that are left out or changed into another."""
    seed: Seed = 1


@dataclass(frozen=True)
class CorpusSettings:
    """Where the sentence pairs come from and which are kept. Only the chosen source's block is needed."""

    source: Source
    """Kind of source."""
    source_language: str = "en"
    """Language code as the source writes it. In YAML quote codes such as "no"."""
    target_language: str = "de"
    """Language code as the source writes it."""
    home_assistant: HomeAssistantSettings | None = None
    ua_gec: UaGecSettings | None = None
    files: FilesSettings | None = None
    tsv: TsvSettings | None = None
    po: CatalogueSettings | None = None
    tmx: CatalogueSettings | None = None
    huggingface: HuggingFaceSettings | None = None
    filters: FilterSettings = field(default_factory=FilterSettings)
    keep: KeepSettings = field(default_factory=KeepSettings)
    noise: NoiseSettings | None = None
    """Null: no synthetic pairs."""

    def __post_init__(self) -> None:
        _check_choice("corpus.source", self.source, Source)
        block = self.source.replace("-", "_")
        if getattr(self, block) is None:
            raise PipelineError(f"params.yaml: corpus.source is '{self.source}' but the block corpus.{block} "
                                "is missing; add it")
        if self.source_language == self.target_language and self.source in _FOUND_BY_LANGUAGE:
            raise PipelineError(f"params.yaml: corpus.source_language and corpus.target_language are both "
                                f"'{self.source_language}'; choose two languages")
        if self.source_language != self.target_language and self.noise is not None:
            raise PipelineError(f"params.yaml: corpus.noise makes wrong {self.target_language} of right "
                                f"{self.target_language}, but corpus.source_language is '{self.source_language}'; make "
                                "both languages one, or remove corpus.noise")
