"""Write a family as a model of another library: hf (transformers) or ctranslate2.

The library needs nothing but the folder; its tokenizer is the family's, for text in the Unicode form of params.yaml. An
existing output is replaced only if it is an earlier export.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.files import locked
from pipeline.params import load_params

if TYPE_CHECKING:
    from pipeline.params import FamilySettings, Params

FORMATS = ("hf", "ctranslate2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=FORMATS, help="the library: transformers of Hugging Face, or CTranslate2")
    parser.add_argument("--family", required=True, help="a trained left-to-right block of `families` in params.yaml")
    parser.add_argument("--output", type=Path, required=True, help="folder of the model")
    parser.add_argument("--quantization", choices=("float32", "int8"),
                        help="of the matrices, for ctranslate2 (default: float32)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.format == "hf" and arguments.quantization is not None:
        raise PipelineError("--quantization: has no effect on hf; leave it out or choose ctranslate2")
    params = load_params()
    family = params.family(arguments.family)
    if not _exportable(family):
        exportable = [name for name, one in params.families.items() if _exportable(one)]
        raise PipelineError(f"--family: {arguments.family!r} does not generate left to right, one token per step, as "
                            f"other libraries require; those that do: {', '.join(exportable) or 'none'}")
    with locked(arguments.output):
        _export(arguments, params)


def _export(arguments: argparse.Namespace, params: "Params") -> None:
    from pipeline import __version__, layout
    from pipeline.corpus.bpe import Tokenizer
    from pipeline.interop import export_ctranslate2, export_huggingface
    from pipeline.interop.folder import check_output, copy_models, export_folder
    from pipeline.model.checkpoint import load_checkpoint

    check_output(arguments.output)  # before a model is loaded
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


def _exportable(family: "FamilySettings") -> bool:
    """Whether a family generates from left to right, one token per step."""
    order = family.order
    return order is not None and order.name == "left_to_right" and (order.directions or 1, order.words or 1) == (1, 1)
