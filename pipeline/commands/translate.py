"""Translate lines: standard input to standard output, or --input to --output. One output line per input line.

Empty lines remain empty, and so does an empty input. Text is UTF-8; a byte-order mark at its beginning is ignored.
Notes about single lines, such as that a source was cut to the model's limit, go to standard error.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.errors import PipelineError
from pipeline.files import check_output
from pipeline.lines import decode_lines, read_lines
from pipeline.params import Params, load_params

if TYPE_CHECKING:
    from pipeline.interop.huggingface import HuggingFaceCheckpoint
    from pipeline.translation import SearchSettings, TextModel, Translation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--decoder", help="an entry of `decoders` (default: the family's first)")
    parser.add_argument("--input", type=Path, help="text file (default: standard input)")
    parser.add_argument("--output", type=Path, help="written at the end, in an existing folder; not the --input "
                                                          "(default: standard output)")
    parser.add_argument("--nbest", type=int, default=1, metavar="N",
                        help="hypotheses per line; in text format, tab-separated")
    parser.add_argument("--format", choices=("text", "json"), default="text",
                        help="json: one object per line with source, hypotheses, scores and calls")
    parser.add_argument("--check-placeholders", action="store_true",
                        help="report lines whose translation lacks a placeholder such as {entity_name}")
    parser.add_argument("--quantization", choices=("float32", "int8"),
                        help="the format of the matrices that are multiplied (default: the decoder's)")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.nbest < 1:
        raise PipelineError(f"--nbest: {arguments.nbest} must be at least 1")
    # Mistakes in files are reported before a model is loaded.
    lines = read_utf8(arguments.input)
    if arguments.output is not None:
        check_output(arguments.output, arguments.input)
    from pipeline.files import atomic_path
    from pipeline.translation import Translator

    params = search_settings(arguments)
    model, decoder = open_model(params, arguments)
    translator = Translator(params, model, arguments.decoder or decoder, nbest=arguments.nbest, device=arguments.device,
                            scores=arguments.format == "json", quantization=arguments.quantization)
    # A person waits for lines, a file does not.
    results = translator(lines, ahead=1 if arguments.input is None and sys.stdin.isatty() else 32)
    rendered = (_render(number, result, arguments) for number, result in enumerate(results, 1))
    if arguments.output is None:
        for line in rendered:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        return
    with atomic_path(arguments.output) as aside, open(aside, "wb") as file:
        file.writelines(rendered)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the model to search."""
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--family", help="a trained block of `families` in params.yaml")
    add_checkpoint_arguments(parser, model)


def add_checkpoint_arguments(parser: argparse.ArgumentParser, group: Any = None) -> None:
    """Add the options that name a model of another library; --model is added to `group`, if given."""
    own = "FOLDER: a model folder (`export folder`), with its own decoders; " if group else ""
    (group or parser).add_argument(
        "--model", metavar="FOLDER|hf:NAME" if group else "hf:NAME",
        help=f"{own}hf:NAME: a Marian, Pegasus, BART, mBART-50, M2M100, NLLB or T5 checkpoint of Hugging Face "
             "transformers, a folder or a repository")
    parser.add_argument("--source-language", metavar="CODE",
                        help="of a multilingual --model, in its own code: en_XX, eng_Latn, en, …")
    parser.add_argument("--target-language", metavar="CODE", help="of a multilingual --model")


def search_settings(arguments: argparse.Namespace) -> "SearchSettings":
    """Where the decoders of the model that the options name are: in its model folder, or in params.yaml.

    Raises:
        PipelineError: there is no such model folder, or params.yaml cannot be read.
    """
    if _model_folder(arguments) is None:
        return load_params()
    from pipeline.interop.model_folder import read_settings

    return read_settings(Path(arguments.model))


def open_model(params: "SearchSettings", arguments: argparse.Namespace) -> "tuple[TextModel, str]":
    """The model that the options of `add_model_arguments` name, and its default decoder; notes go to standard error.

    Args:
        params: of params.yaml; for a model folder, any.
        arguments: the options.

    Raises:
        PipelineError: there is no such model, or the options do not suit it.
    """
    from pipeline.translation import open_family, open_folder

    folder = _model_folder(arguments)
    if folder is None and arguments.family is None:
        return open_checkpoint_model(arguments)[1], cast(Params, params).default_decoders[0]
    if arguments.source_language or arguments.target_language:
        raise PipelineError("--source-language, --target-language: a family has been trained for one pair of "
                            "languages; leave them out")
    if folder is None:
        params = cast(Params, params)
        return open_family(params, arguments.family), params.decoders_of(arguments.family)[0]
    model, settings = open_folder(folder)
    return model, settings.default_decoder


def _model_folder(arguments: argparse.Namespace) -> Path | None:
    """The model folder that --model names; None: it names a checkpoint of another library, or is not given."""
    from pipeline.interop.huggingface import PREFIX

    return None if arguments.model is None or arguments.model.startswith(PREFIX) else Path(arguments.model)


def open_checkpoint_model(arguments: argparse.Namespace) -> "tuple[HuggingFaceCheckpoint, TextModel]":
    """The model that the options of `add_checkpoint_arguments` name; notes go to standard error.

    Raises:
        PipelineError: there is no such model, or the languages do not suit it.
    """
    from pipeline.interop.huggingface import PREFIX, open_checkpoint
    from pipeline.translation import TextModel

    if not arguments.model.startswith(PREFIX):
        raise PipelineError(f"--model: {arguments.model!r} must begin with {PREFIX}, as in {PREFIX}FOLDER; a family of "
                            "params.yaml is chosen with --family")
    found = open_checkpoint(arguments.model.removeprefix(PREFIX), arguments.source_language, arguments.target_language)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    # Their tokenizers convert text to the Unicode form that they were trained with.
    return found, TextModel(found.network, found.text, found.longest, "none")


def read_utf8(path: Path | None) -> Iterator[str]:
    """The lines of a text file or of standard input, by the rules of the corpus (`pipeline.lines`).

    Args:
        path: of a file; None: standard input.

    Raises:
        PipelineError: at once if the file cannot be opened; later if a line cannot be read or is not UTF-8.
    """
    name = str(path or "standard input")
    try:
        if path is not None:
            path.open("rb").close()
        elif sys.stdin is None:
            raise PipelineError(f"{name}: closed; redirect it, or name a file with --input")
    except OSError as error:
        raise PipelineError(f"{name}: cannot be read: {error.strerror}; check the path and the permissions") from None
    return decode_lines(sys.stdin.buffer, name) if path is None else read_lines(path)


def _render(number: int, result: "Translation", arguments: argparse.Namespace) -> bytes:
    import json

    from pipeline.translation import lost_placeholders

    if result.warning:
        print(f"line {number}: {result.warning}", file=sys.stderr)
    lost = lost_placeholders(result.source, result.hypotheses[0]) if arguments.check_placeholders else []
    if lost:
        print(f"line {number}: lost {', '.join(lost)}", file=sys.stderr)
    if arguments.format == "text":
        return ("\t".join(result.hypotheses) + "\n").encode()
    fields = {"source": result.source, "hypotheses": result.hypotheses, "scores": result.scores, "calls": result.calls}
    if result.warning:
        fields["warning"] = result.warning
    if arguments.check_placeholders:
        fields["lost_placeholders"] = lost
    return (json.dumps(fields, ensure_ascii=False) + "\n").encode()
