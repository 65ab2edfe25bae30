"""Source sentences without translations, from readers that have some: the teacher's translations make pairs of them.

A reader that has some defines `read_monolingual(settings, languages)`, which yields source texts that belong to no pair
and to no group of the validation or the test split.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from pipeline.layout import SPLITS
from pipeline.lines import normalise, read_lines
from pipeline.sources.digests import distinct
from pipeline.sources.inputs import check_inputs
from pipeline.sources.settings import CorpusSettings


def read_monolingual(settings: CorpusSettings, corpus: Path) -> Iterator[str]:
    """Return each further source sentence once, normalised, of a length that the filters allow.

    Sentences that any split of the built corpus has as a source are left out.

    Args:
        settings: of the corpus; its reader has `read_monolingual`.
        corpus: folder of the corpus stage; beside it are temporary files, which have no names.

    Raises:
        PipelineError: a file of the user is missing, or the source cannot be read.
    """
    check_inputs(settings)
    rules = settings.filters
    texts: Iterable[str] = settings.reader.read_monolingual(settings.block, (settings.source_language,
                                                                             settings.target_language))
    normalised = (normalise(text, rules.unicode) for text in texts)
    fitting = (text for text in normalised if text and rules.min_words <= text.count(" ") + 1 <= rules.max_words)
    return distinct(fitting, corpus.parent, chain.from_iterable(read_lines(corpus / f"{split}.source")
                                                                for split in SPLITS))
