"""Source sentences without translations, from readers that have some: the teacher's translations make pairs of them.

A reader that has some defines `read_monolingual(settings, languages)`, which yields source texts that belong to no pair
and to no group of the validation or the test split.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.layout import SPLITS
from pipeline.lines import normalise, read_lines
from pipeline.sources.settings import CorpusSettings


def read_monolingual(settings: CorpusSettings, corpus: Path) -> Iterator[str]:
    """Yield each further source sentence once, normalised, of a length that the filters allow.

    Sentences that any split of the built corpus has as a source are left out.

    Args:
        settings: of the corpus; its reader has `read_monolingual`.
        corpus: folder of the corpus stage.

    Raises:
        PipelineError: the source cannot be read.
    """
    rules, seen = settings.filters, {line for split in SPLITS for line in read_lines(corpus / f"{split}.source")}
    texts: Iterable[str] = settings.reader.read_monolingual(settings.block, (settings.source_language,
                                                                             settings.target_language))
    for text in (normalise(text, rules.unicode) for text in texts):
        if text and text not in seen and rules.min_words <= text.count(" ") + 1 <= rules.max_words:
            seen.add(text)
            yield text
