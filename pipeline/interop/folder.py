"""The folder of an export, which replaces nothing but an earlier export, and its SentencePiece models."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.corpus.bpe import JOINT_MODELS, SEPARATE_MODELS, Tokenizer
from pipeline.errors import PipelineError
from pipeline.files import atomic_path, write_json

MARKER = "fast_nmt_export.json"
"""The file that marks a folder as an export and describes it."""
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"


def check_replaceable(output: Path) -> None:
    """Raise a PipelineError if an export to `output` would replace anything but an earlier export."""
    if os.path.lexists(output) and not (output / MARKER).is_file():
        raise PipelineError(f"{output}: exists and is not an earlier export (it has no {MARKER}); remove it or choose "
                            "another --output")


@contextmanager
def export_folder(output: Path, description: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a folder that becomes `output` when all is written, or is removed on any error.

    An earlier export is replaced. `description` is the content of the marker, plain JSON.

    Raises:
        PipelineError: `output` is not an earlier export, or cannot be written.
    """
    check_replaceable(output)
    with atomic_path(output) as aside:
        aside.mkdir()
        yield aside
        write_json(aside / MARKER, description)


def copy_models(tokenizer: Tokenizer, bpe: Path, folder: Path) -> None:
    """Copy the SentencePiece models of the folder `bpe`, one file per side even if both are the same."""
    names = JOINT_MODELS if tokenizer.joint else SEPARATE_MODELS
    shutil.copyfile(bpe / names[0], folder / SOURCE_MODEL)
    shutil.copyfile(bpe / names[-1], folder / TARGET_MODEL)
