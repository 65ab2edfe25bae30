"""A model folder: all that translating by one trained family needs, wherever the folder stands.

    fast_nmt_export.json   the family, its languages, decoders and length limit, a digest of each of the next files, and
                           one of all these entries
    config.json, weights.safetensors, and what else its checkpoint has (`model.checkpoint`)
    meta.json and the SentencePiece models (`corpus.bpe`)
    README.md              the model card, which may be edited

Nothing in it can contain code, and a file that the export has not written is refused. Names that begin with a dot are
of git and of the hub, and are ignored.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.blocks import build
from pipeline.checks import Checked
from pipeline.checksums import file_digest
from pipeline.errors import PipelineError
from pipeline.files import read_json
from pipeline.fingerprint import digest
from pipeline.interop.folder import MARKER
from pipeline.lines import UnicodeForm
from pipeline.names import Name
from pipeline.params import LimitSettings

if TYPE_CHECKING:
    from pipeline.decoding.limits import LengthLimit

FORMAT = "folder 2"
CARD = "README.md"
_COPY_AGAIN = "copy the whole folder again, or export the model again"
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
DIGEST = "digest"
_PICKLES = {".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"}
"""Endings of files that Python's unpickling opens, which may run what is in them."""


@dataclass(frozen=True)
class ModelSettings(Checked):
    """A model's settings in its folder, other than its shape."""

    family: Name
    version: str
    """Of this package, when it wrote the folder."""
    source_language: str
    target_language: str
    unicode: UnicodeForm
    """The Unicode form to which sources are converted."""
    limit: LimitSettings
    decoders: dict[Name, dict[str, Any]]
    """As in params.yaml; the first one is the default."""
    files: dict[str, str]
    """SHA-256 by name."""

    @property
    def default_decoder(self) -> str:
        return next(iter(self.decoders))

    def decoder(self, name: str, where: str = "--decoder", joint: bool | None = None) -> dict[str, Any]:
        """The entry of `decoders` of that name; `joint` is not asked, because the export has checked it.

        Raises:
            PipelineError: there is no such entry.
        """
        if name not in self.decoders:
            raise PipelineError(f"{where}: decoder {name!r} is unknown; the model folder has "
                                f"{', '.join(self.decoders)}")
        return self.decoders[name]

    def length_limit(self, positions: int) -> "LengthLimit":
        """The limit of translations by a model with some positions; see `LimitSettings.within`."""
        return self.limit.within(positions)


def describe(settings: ModelSettings) -> dict[str, Any]:
    """What the marker of a model folder says of its model, plain JSON."""
    entries = json.loads(json.dumps(asdict(settings)))
    return {"format": FORMAT, **entries, DIGEST: digest_of_entries(entries)}


def read_settings(folder: Path) -> ModelSettings:
    """The settings of a model folder's model; the other files are not opened.

    Raises:
        PipelineError: there is no such folder, or it is not a model folder, or one of another format.
    """
    marker = folder / MARKER
    if not os.path.isfile(marker):
        fault = f"is not a model folder (it has no {MARKER})" if os.path.isdir(folder) else "there is no such folder"
        raise PipelineError(f"{folder}: {fault}; `python -m pipeline export folder` writes one")
    content = read_json(marker, _COPY_AGAIN)
    form = content.get("format") if isinstance(content, Mapping) else None
    if form != FORMAT:
        raise PipelineError(f"{marker}: its format is {form!r}, not {FORMAT!r}; " + (
            f"install the version of this package that wrote it ({content.get('version')}), or export the model again"
            if str(form).startswith("folder ") else "a model folder is what `python -m pipeline export folder` writes"))
    if content.get(DIGEST) != digest_of_entries(content):
        raise PipelineError(f"{marker}: is not the file that was exported; {_COPY_AGAIN}")
    try:
        settings = build(ModelSettings, _entries(content), "model")
    except PipelineError as error:
        raise PipelineError(f"{marker}: {str(error).removeprefix('params.yaml: ')}; export the model again") from None
    for name in settings.files:
        if not _NAME.fullmatch(name):
            raise PipelineError(f"{marker}: the file {name!r} is not a plain name; export the model again")
    if not settings.decoders:
        raise PipelineError(f"{marker}: names no decoder; export the model again")
    return settings


def check_files(folder: Path, settings: ModelSettings) -> None:
    """Check that a model folder has the files that the export wrote, unchanged, and no others.

    Raises:
        PipelineError: it has not.
    """
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    expected = {MARKER, CARD, *settings.files}
    if absent := sorted(expected - names):
        raise PipelineError(f"{folder / absent[0]}: is missing; {_COPY_AGAIN}")
    if extra := sorted(names - expected):
        why = ("pickled weights may run code when they are opened, and are never read"
               if Path(extra[0]).suffix in _PICKLES else "the export has not written it")
        raise PipelineError(f"{folder / extra[0]}: does not belong to the model: {why}; remove it")
    for name, expected_digest in settings.files.items():
        try:
            found = file_digest(folder / name)
        except OSError as error:
            raise PipelineError(f"{folder / name}: cannot be read: {error.strerror}; check its permissions") from None
        if found != expected_digest:
            raise PipelineError(f"{folder / name}: is not the file that was exported; copy the whole folder again, or "
                                "export the model again")


def digest_of_entries(content: Mapping[str, Any]) -> str:
    """The SHA-256 (hexadecimal) of all entries of a marker but its format and this digest."""
    return digest(json.dumps(_entries(content), sort_keys=True).encode())


def _entries(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in ("format", DIGEST)}
