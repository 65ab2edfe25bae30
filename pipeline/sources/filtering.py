"""Named filters over a stream of pairs, each with its count.

Train and the two evaluation splits must not share a source string. A setting decides which side loses it: the
evaluation splits of a corpus that we split ourselves, or train if the test set is published.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress, islice
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.lines import normalise
from pipeline.sources.digests import DigestSet, digests
from pipeline.sources.settings import FilterSettings
from pipeline.sources.splits import Entry

Keep = Callable[[str, str], bool]

_CHUNK = 1 << 14  # entries filtered at once


class CorpusFilter:
    """Filters the splits of one corpus and counts what each filter drops.

    Apply it to the splits in `order`: the first ones decide which source strings the later ones lose. Texts that were
    seen are remembered by their digests, most of them in temporary files, so memory does not grow with the corpus.
    """

    def __init__(self, settings: FilterSettings, folder: Path) -> None:
        """`folder` is for temporary files, which have no names: 16 bytes per pair."""
        self.counts: dict[str, Counter[str]] = {}
        self.order = SPLITS if settings.evaluation else ("validation", "test", "train")
        self._settings = settings
        self._folder = folder
        self._claimed = DigestSet(folder)  # source strings that later splits must not have

    def apply(self, split: str, entries: Iterable[Entry], most: int | None = None) -> Iterator[Entry]:
        """Yield the entries of a split whose pair passes every filter, normalised, in their order.

        `most` ends it after so many; no entry after the last one is read.
        """
        self.counts[split] = Counter()
        seen = DigestSet(self._folder)
        entries = iter(entries)
        remaining = sys.maxsize if most is None else most
        # As many entries as may still be kept are read at once.
        while chunk := list(islice(entries, min(_CHUNK, remaining))):
            kept = self._filter(split, chunk, seen)
            remaining -= len(kept)
            yield from kept
        seen.close()

    def _filter(self, split: str, chunk: list[Entry], seen: DigestSet) -> list[Entry]:
        """Return the entries that are kept, and count all of them by the first filter that drops them."""
        counts, rules = self.counts[split], self._rules(split)
        counts["read"] += len(chunk)
        kept: list[Entry] = []
        for entry in chunk:
            source, target, *further = (normalise(text, self._settings.unicode) for text in entry)
            dropped_by = next((name for name, keep in rules if not keep(source, target)), None)
            if dropped_by is None:
                kept.append((source, target, *further))
            else:
                counts[dropped_by] += 1
        memories = {"overlap": lambda: ~self._claimed.has(digests(source for source, *_ in kept)),
                    "duplicate": lambda: seen.add(digests(f"{source}\n{target}" for source, target, *_ in kept))}
        for name in self._memories(split):
            fresh = memories[name]().tolist()
            counts[name] += len(kept) - sum(fresh)
            kept = list(compress(kept, fresh))
        counts["kept"] += len(kept)
        if self._claims(split):
            self._claimed.add(digests(source for source, *_ in kept))
        return kept

    def _claims(self, split: str) -> bool:
        return (split == "train") == self._settings.evaluation

    def _is_filtered(self, split: str) -> bool:
        return split == "train" or self._settings.evaluation

    def _rules(self, split: str) -> list[tuple[str, Keep]]:
        """Return the filters of a split that look at one pair, cheapest first."""
        rules = self._settings
        if not self._is_filtered(split):
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
        return filters

    def _memories(self, split: str) -> list[str]:
        """Return the filters of a split that compare a pair with earlier ones, in the order in which they apply."""
        if not self._is_filtered(split):
            return []
        overlap = [] if self._claims(split) else ["overlap"]
        return [*overlap, "duplicate"] if self._settings.drop_duplicates else overlap

    def report(self) -> dict[str, dict[str, int]]:
        """Return for each split the pairs read, dropped by each filter and kept.

        Raises:
            PipelineError: a split is empty.
        """
        report = {}
        for split in SPLITS:
            counts = self.counts[split]
            names = ["read", *(name for name, _ in self._rules(split)), *self._memories(split), "kept"]
            report[split] = {name: counts[name] for name in names}
            if not counts["kept"]:
                raise PipelineError(f"corpus: {_explain_empty(split, counts)}")
        return report


def dropped_most(counts: Mapping[str, int]) -> tuple[str, int]:
    """Return the filter that has dropped most pairs of a split, and their number, from the split's counts."""
    return max(((name, count) for name, count in counts.items() if name not in ("read", "kept")),
               key=lambda item: item[1], default=("", 0))


def _explain_empty(split: str, counts: Counter[str]) -> str:
    if not counts["read"]:
        return f"the {split} split is empty; give it at least one pair"
    worst, dropped = dropped_most(counts)
    return (f"nothing is left of the {counts['read']} pairs of the {split} split: the filter '{worst}' "
            f"dropped {dropped}; check the languages or relax corpus.filters in params.yaml")
