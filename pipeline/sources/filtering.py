"""Named filters over a stream of pairs, each with its count.

Train and the two evaluation splits must not share a source string. A setting decides which side loses it: the
evaluation splits of a corpus that we split ourselves, or train if the test set is published.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import normalise
from pipeline.sources.settings import FilterSettings
from pipeline.sources.splits import Entry

Keep = Callable[[str, str], bool]


class CorpusFilter:
    """Filters the splits of one corpus and counts what each filter drops.

    Apply it to the splits in `order`: the first ones decide which source strings the later ones lose.
    Memory: about 60 bytes per distinct pair of a split, and 60 per distinct source string that later ones lose.
    """

    def __init__(self, settings: FilterSettings) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.order = SPLITS if settings.evaluation else ("validation", "test", "train")
        self._settings = settings
        self._claimed: set[int] = set()  # source strings that later splits must not have

    def apply(self, split: str, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the entries of a split whose pair passes every filter, normalised, in their order."""
        counts = self.counts[split] = Counter()
        filters = self._filters(split)
        claims = self._claims(split)
        for entry in entries:
            counts["read"] += 1
            source, target, *further = (normalise(text, self._settings.unicode) for text in entry)
            dropped_by = next((name for name, keep in filters if not keep(source, target)), None)
            counts[dropped_by or "kept"] += 1
            if dropped_by is None:
                if claims:
                    self._claimed.add(_fingerprint(source))
                yield source, target, *further

    def _claims(self, split: str) -> bool:
        return (split == "train") == self._settings.evaluation

    def _filters(self, split: str) -> list[tuple[str, Keep]]:
        """Return the filters of a split, cheapest first; a dropped pair is counted for the first that drops it."""
        rules = self._settings
        if split != "train" and not rules.evaluation:
            return []
        filters: list[tuple[str, Keep]] = [
            ("empty", lambda source, target: bool(source and target)),
            ("too_short", lambda source, _: source.count(" ") + 1 >= rules.min_words),
            ("too_long", lambda source, _: source.count(" ") + 1 <= rules.max_words),
            ("length_ratio", lambda source, target: max(len(source), len(target)) / min(len(source), len(target))
             <= rules.max_length_ratio),
        ]
        if rules.drop_identical:
            filters.append(("identical", lambda source, target: source != target))
        if not self._claims(split):
            filters.append(("overlap", lambda source, _: _fingerprint(source) not in self._claimed))
        if rules.drop_duplicates:
            filters.append(("duplicate", _is_new(set())))
        return filters

    def report(self) -> dict[str, dict[str, int]]:
        """Return for each split the pairs read, dropped by each filter and kept.

        Raises:
            PipelineError: a split is empty.
        """
        report = {}
        for split in SPLITS:
            counts = self.counts[split]
            names = ["read", *(name for name, _ in self._filters(split)), "kept"]
            report[split] = {name: counts[name] for name in names}
            if not counts["kept"]:
                raise PipelineError(f"corpus: {_explain_empty(split, counts)}")
        return report


def _explain_empty(split: str, counts: Counter[str]) -> str:
    if not counts["read"]:
        return f"the {split} split is empty; give it at least one pair"
    worst, dropped = max(((name, count) for name, count in counts.items() if name != "read"),
                         key=lambda item: item[1])
    return (f"nothing is left of the {counts['read']} pairs of the {split} split: the filter '{worst}' "
            f"dropped {dropped}; check the languages or relax corpus.filters in params.yaml")


def _is_new(seen: set[int]) -> Keep:
    """Return a filter that keeps only the first occurrence of a pair."""
    def keep(source: str, target: str) -> bool:
        fingerprint = _fingerprint(f"{source}\n{target}")
        if fingerprint in seen:
            return False
        seen.add(fingerprint)
        return True
    return keep


def _fingerprint(text: str) -> int:
    """Return a hash of 60 bits, the widest integer that CPython stores in 32 bytes. The probability of any collision
    among 10 million strings is 1 in 20,000."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 4

