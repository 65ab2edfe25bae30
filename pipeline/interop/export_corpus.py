"""Export of the corpus with its data card, as the `datasets` library and the source `huggingface` load it."""

import json
from collections.abc import Iterator
from pathlib import Path

from pipeline import __version__, layout
from pipeline.interop.cards import columns, data_card
from pipeline.interop.folder import export_folder
from pipeline.layout import SPLITS
from pipeline.params import Params
from pipeline.sources.splits import Languages


def export_corpus(output: Path, params: Params, licence: str) -> None:
    """Write `{train,validation,test}.jsonl` and `README.md`, the data card.

    Further references of a split are columns of their own, `reference2` and so on, which `datasets` requires of all
    splits: they are empty where a split has none.

    Args:
        output: absent, or an earlier export.
        params: of the current folder.
        licence: for the card, a name of the hub.

    Raises:
        PipelineError: `output` is not an earlier export or cannot be written; the corpus is missing.
    """
    most = max(len(layout.references(split)) for split in SPLITS)
    with export_folder(output, {"format": "corpus", "version": __version__}) as folder:
        for split in SPLITS:
            with open(folder / f"{split}.jsonl", "w", encoding="utf-8", newline="\n") as file:
                file.writelines(_rows(split, params.languages, most))
        (folder / "README.md").write_text(data_card(params, licence), encoding="utf-8")


def _rows(split: str, languages: Languages, most: int) -> Iterator[str]:
    texts = [layout.read_corpus(path) for path in (layout.CORPUS / f"{split}.source", *layout.references(split))]
    for source, target, *further in zip(*texts, strict=True):
        further += [""] * (most - 1 - len(further))
        row = columns(languages, source, target) | {f"reference{number}": text
                                                    for number, text in enumerate(further, 2)}
        yield json.dumps(row, ensure_ascii=False) + "\n"
