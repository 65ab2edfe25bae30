"""The options of the command line that name a model, and the model that they name."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError, one_line
from pipeline.params import Params, load_params

if TYPE_CHECKING:
    from pipeline.interop.huggingface import HuggingFaceCheckpoint
    from pipeline.interop.model_folder import ModelSettings
    from pipeline.text_model import SearchSettings, TextModel


@dataclass(frozen=True)
class NamedModel:
    """The model that the options name."""

    name: str
    """Of the family, of the model folder without its path, or hf:NAME."""
    model: "TextModel"
    settings: "SearchSettings"
    """With its decoders: those of its folder, or of params.yaml."""
    decoders: Sequence[str]
    """Those that belong to it; the first is the default."""
    languages: tuple[str, str] | None
    """Of its sources and of its translations; None if unknown, as of a checkpoint of another library."""
    checkpoint: "HuggingFaceCheckpoint | None" = None
    """What it is in its own library, if it is of another one."""

    def decoder(self, given: str | None) -> str:
        """The decoder that an option names, or else the default."""
        return self.decoders[0] if given is None else given


def add_model_arguments(parser: argparse.ArgumentParser, *, checkpoints: bool = True) -> None:
    """Add the options that name one model: a family or --model, which can be a checkpoint of another library or not."""
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--family", help="a trained block of `families` in params.yaml")
    if checkpoints:
        add_checkpoint_arguments(parser, model)
    else:
        model.add_argument("--model", metavar="FOLDER", help="a model folder (`export folder`)")
        parser.set_defaults(source_language=None, target_language=None)


def add_checkpoint_arguments(parser: argparse.ArgumentParser, group: Any = None) -> None:
    """Add the options that name a model that is no family of the run; --model is added to `group`, if given."""
    (group or parser).add_argument(
        "--model", metavar="FOLDER|hf:NAME",
        help="FOLDER: a model folder (`export folder`), with its own decoders; hf:NAME: a Marian, Pegasus, BART, "
             "mBART-50, M2M100, NLLB or T5 checkpoint of Hugging Face transformers, a folder or a repository")
    parser.add_argument("--source-language", metavar="CODE",
                        help="of a multilingual --model, in its own code: en_XX, eng_Latn, en, …")
    parser.add_argument("--target-language", metavar="CODE", help="of a multilingual --model")


def is_checkpoint(model: str | None) -> bool:
    """Whether --model names a checkpoint of another library."""
    from pipeline.interop.huggingface import PREFIX

    return model is not None and model.startswith(PREFIX)


def open_model(arguments: argparse.Namespace) -> NamedModel:
    """The model that the options name; notes go to standard error.

    A model folder has all that is needed; everything else needs the params.yaml of the current folder.

    Raises:
        PipelineError: there is no such model, or the options do not suit it.
    """
    if is_checkpoint(arguments.model):
        return _open_checkpoint(arguments)
    refuse_languages(arguments)
    if arguments.model is None:
        return open_trained(load_params(), arguments.family)
    from pipeline.text_model import open_folder

    folder = Path(arguments.model)
    model, settings = open_folder(folder)
    return NamedModel(Path(os.path.abspath(folder)).name, model, settings, list(settings.decoders),
                      _languages(settings))


def languages_of(arguments: argparse.Namespace) -> tuple[str, str] | None:
    """The languages of the model that the options name, before it is opened; None if unknown, as of a checkpoint.

    Raises:
        PipelineError: there is no such model folder, or no params.yaml.
    """
    if is_checkpoint(arguments.model):
        return None
    if arguments.model is None:
        return load_params().languages
    from pipeline.interop.model_folder import read_settings

    return _languages(read_settings(Path(arguments.model)))


def _languages(settings: "ModelSettings") -> tuple[str, str]:
    return settings.source_language, settings.target_language


def check_trained(params: Params, family: str) -> None:
    """Check that a family has been trained, or will be by this run.

    Raises:
        PipelineError: it has no checkpoint and will have none.
    """
    from pipeline.systems import TEACHER
    from pipeline.text_model import is_trained

    params.family(family)
    if not is_trained(family) and family not in (TEACHER, *params.starts):
        raise PipelineError(f"--family: {family!r} has not been trained, and this run does not train it; add it to "
                            f"`systems` and run `dvc repro`, or run `python -m pipeline fit --family {family}`")


def open_trained(params: Params, family: str) -> NamedModel:
    """A family of the current folder that the user names.

    Raises:
        PipelineError: as of `check_trained`, or its checkpoint is missing or damaged.
    """
    from pipeline.text_model import open_family

    check_trained(params, family)
    return NamedModel(family, open_family(params, family), params, params.decoders_of(family), params.languages)


def refuse_languages(arguments: argparse.Namespace) -> None:
    """Refuse the options of a multilingual model where the model is a family.

    Raises:
        PipelineError: one of them is given.
    """
    if arguments.source_language or arguments.target_language:
        raise PipelineError("--source-language, --target-language: a family has been trained for one pair of "
                            "languages; leave them out")


def _open_checkpoint(arguments: argparse.Namespace) -> NamedModel:
    from pipeline.interop.huggingface import PREFIX, open_checkpoint
    from pipeline.text_model import TextModel

    params = load_params()
    found = open_checkpoint(arguments.model.removeprefix(PREFIX), arguments.source_language, arguments.target_language)
    for note in found.notes:
        print(one_line(f"note: {note}"), file=sys.stderr)
    # Their tokenizers convert text to the Unicode form that they were trained with.
    model = TextModel(found.network, found.text, found.longest, "none")
    return NamedModel(arguments.model, model, params, params.default_decoders, None, found)
