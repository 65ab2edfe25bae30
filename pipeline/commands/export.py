"""Write a family as a model folder, or as a model of another library: hf (transformers) or ctranslate2.

A model folder (`folder`) has all that translating by a family of any kind needs, wherever it stands: weights,
tokenizer, decoders, and a model card. `translate --model FOLDER` and `Translator.from_pretrained` open it.

The other libraries need nothing but the folder; its tokenizer is the family's, for text in the Unicode form of
params.yaml. With `corpus` instead of a format, the corpus and its data card are written, as `datasets` loads them.

An existing output is replaced only if it is an earlier export, and so is an existing repository of the Hugging Face
Hub, whose other files are deleted.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.files import locked
from pipeline.interop.searchable import searchable
from pipeline.model_options import check_trained
from pipeline.params import load_params

if TYPE_CHECKING:
    from pipeline.params import Params

CORPUS = "corpus"
FORMATS = ("folder", "hf", "ctranslate2", CORPUS)
_OWN_OPTIONS = {"quantization": ("ctranslate2",), "licence": ("folder", CORPUS), "push_to_hub": ("folder",),
                "public": ("folder",)}
"""The formats of options that not all formats have."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=FORMATS, help="a model folder, the library (transformers of Hugging Face, or "
                                                        "CTranslate2), or the corpus")
    parser.add_argument("--family", help="a trained block of `families` in params.yaml; for another library, a "
                                         "left-to-right one")
    parser.add_argument("--output", type=Path, required=True, help="folder of the model")
    parser.add_argument("--quantization", choices=("float32", "int8"),
                        help="of the matrices, for ctranslate2 (default: float32)")
    parser.add_argument("--licence", metavar="ID", help="for the card, as the Hugging Face Hub names it: apache-2.0, "
                                                        "cc-by-4.0, … (default: the corpus's, if it is known)")
    parser.add_argument("--push-to-hub", metavar="USER/NAME", help="also upload the model folder to the Hugging Face "
                                                                   "Hub; a new repository is private, and all other "
                                                                   "files of an earlier export are deleted")
    parser.add_argument("--public", action="store_true", default=None,
                        help="with --push-to-hub, a new repository is public; an existing one stays as it is")


def run(arguments: argparse.Namespace) -> None:
    for option, formats in _OWN_OPTIONS.items():
        if getattr(arguments, option) is not None and arguments.format not in formats:
            raise PipelineError(f"--{option.replace('_', '-')}: has no effect on {arguments.format}; leave it out or "
                                f"choose {' or '.join(formats)}")
    if arguments.public and arguments.push_to_hub is None:
        raise PipelineError("--public: has no effect without --push-to-hub; leave it out or name a repository")
    if (arguments.family is None) != (arguments.format == CORPUS):
        raise PipelineError("--family: name the family to export" if arguments.family is None else
                            "--family: has no effect on corpus; leave it out")
    params = load_params()
    if arguments.format in ("hf", "ctranslate2"):
        _check_family(arguments.family, params)
    if arguments.family is not None:
        check_trained(params, arguments.family)
    with locked(arguments.output):
        {"folder": _export_folder, CORPUS: _export_corpus}.get(arguments.format, _export_library)(arguments, params)


def _export_folder(arguments: argparse.Namespace, params: "Params") -> None:
    from pipeline.interop.cards import licence_of
    from pipeline.interop.export_model import export_model
    from pipeline.interop.hub import push_to_hub

    export_model(arguments.output, params, arguments.family, licence_of(params.corpus, arguments.licence))
    print(f"{arguments.output}: a model folder of {arguments.family}")
    if arguments.push_to_hub is not None:
        print(push_to_hub(arguments.output, arguments.push_to_hub, private=not arguments.public))


def _export_corpus(arguments: argparse.Namespace, params: "Params") -> None:
    from pipeline.interop.cards import licence_of
    from pipeline.interop.export_corpus import export_corpus

    export_corpus(arguments.output, params, licence_of(params.corpus, arguments.licence))
    print(f"{arguments.output}: the corpus and its card")


def _export_library(arguments: argparse.Namespace, params: "Params") -> None:
    from pipeline import __version__, layout
    from pipeline.corpus.bpe import Tokenizer
    from pipeline.interop import export_ctranslate2, export_huggingface
    from pipeline.interop.folder import check_replaceable, copy_models, export_folder
    from pipeline.model.checkpoint import load_checkpoint

    check_replaceable(arguments.output)  # before a model is loaded
    tokenizer = Tokenizer.load(layout.BPE)
    network, config = load_checkpoint(layout.checkpoint(arguments.family), tokenizer.digest,
                                      params.family(arguments.family).order)
    quantization = arguments.quantization or "float32"
    description = {"format": arguments.format, "family": arguments.family, "quantization": quantization,
                   "unicode": params.corpus.filters.unicode, "version": __version__,
                   "longest": network.settings.max_length, "vocabulary": config["vocabulary"],
                   "training": config["training"]}
    with export_folder(arguments.output, description) as folder:
        if arguments.format == "hf":
            export_huggingface.save_model(network, folder)
            export_huggingface.save_tokenizer(tokenizer, layout.BPE, network.settings.max_length, folder)
        else:
            export_ctranslate2.save_model(network, tokenizer.source_pieces, tokenizer.target_pieces, folder,
                                          quantization)
            copy_models(tokenizer, layout.BPE, folder)
    print(f"{arguments.output}: {arguments.family} for {arguments.format} ({quantization})")


def _check_family(name: str, params: "Params") -> None:
    """Check that other libraries can search a family.

    Raises:
        PipelineError: there is no such family, or it generates in another way than they do.
    """
    if not searchable(params.family(name).order):
        exportable = [name for name, one in params.families.items() if searchable(one.order)]
        raise PipelineError(f"--family: {name!r} does not generate left to right, one token per step, as other "
                            f"libraries require; those that do: {', '.join(exportable) or 'none'}")
