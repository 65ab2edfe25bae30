"""Gettext catalogues (.po), read by polib."""

from collections.abc import Iterator

from pipeline.corpus.settings import CorpusSettings
from pipeline.corpus.sources.catalogues import split_catalogues
from pipeline.corpus.sources.splits import Pair, Splits
from pipeline.errors import PipelineError


def read(settings: CorpusSettings) -> Splits:
    """Read the finished translations of all catalogues, lazily."""
    assert settings.po is not None  # CorpusSettings checks that the chosen source has its block
    return split_catalogues(settings.po, read_catalogue)


def read_catalogue(path: str) -> Iterator[Pair]:
    """Yield (msgid, msgstr) of every entry that is translated and neither fuzzy nor obsolete.

    Of plural entries the singular goes with the first form and the plural with the last.

    Raises:
        PipelineError: polib is not installed, or the file is not a UTF-8 catalogue.
    """
    try:
        import polib
    except ImportError:
        raise PipelineError("corpus.source po needs polib; run pip install 'fast-nmt-decoding[po]'") from None
    try:
        catalogue = polib.pofile(path, encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PipelineError(f"{path}: invalid UTF-8 ({error.reason}); convert the file to UTF-8") from None
    except OSError as error:
        raise PipelineError(f"{path}: not a gettext catalogue ({error}); check it with msgfmt -c") from None
    for entry in catalogue.translated_entries():
        if entry.msgid_plural:
            forms = [entry.msgstr_plural[index] for index in sorted(entry.msgstr_plural)]
            yield entry.msgid, forms[0]
            yield entry.msgid_plural, forms[-1]
        else:
            yield entry.msgid, entry.msgstr
