"""What every source returns, and the splits of a corpus that has none, which never change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from pipeline.checks import Checked, Refused, SomeButNotAll
from pipeline.errors import PipelineError

Languages = tuple[str, str]  # codes of the source and the target language
Pair = tuple[str, str]  # source sentence, target sentence
Entry = tuple[str, ...]  # a pair and its further references; all entries of a split have the same number
Splits = Mapping[str, Iterable[Entry]]  # the three of `layout.SPLITS`; each may be read once, in any order


@dataclass(frozen=True, kw_only=True)
class ShareSettings(Checked):
    """How large the splits are. What is counted, files, groups or pairs, depends on the source."""

    validation_share: SomeButNotAll = 0.04
    test_share: SomeButNotAll = 0.04

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validation_share + self.test_share >= 1:
            raise Refused(f"validation_share: {self.validation_share} and test_share {self.test_share} must leave "
                          "something for train")


def assign_groups(names: Iterable[str], validation_share: float, test_share: float,
                  remedy: str = "give more files") -> dict[str, str]:
    """Assign each named group (a file, an integration) to a split, by the order of the names' hashes.

    The shares are exact up to rounding and each split has at least one group. The result depends only on the set of
    names, not on their order, the machine or Python's hash seed.

    Raises:
        PipelineError: fewer than three groups.
    """
    shuffled = sorted(set(names), key=lambda name: sha256(name.encode()).digest())
    if len(shuffled) < 3:
        raise PipelineError(f"corpus: {len(shuffled)} file(s) or group(s) cannot make the three splits "
                            f"train, validation and test; {remedy}")
    validation = min(max(1, round(validation_share * len(shuffled))), len(shuffled) - 2)
    test = min(max(1, round(test_share * len(shuffled))), len(shuffled) - validation - 1)
    return {name: "validation" if rank < validation else "test" if rank < validation + test else "train"
            for rank, name in enumerate(shuffled)}


def assign_string(text: str, validation_share: float, test_share: float) -> str:
    """Assign a string to a split; equal strings have the same one."""
    position = int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64
    if position < validation_share:
        return "validation"
    return "test" if position < validation_share + test_share else "train"
