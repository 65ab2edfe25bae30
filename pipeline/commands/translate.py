"""Translate lines: standard input to standard output, or --input to --output. One output line per input line.

An --input whose name ends in .po, .pot or .tmx is translated as a document: what has no translation in it gets one, and
all else stays.

Empty lines remain empty, and so does an empty input. Text is UTF-8; a byte-order mark at its beginning is ignored.
Notes about single lines, such as that a source was cut to the model's limit, go to standard error.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pipeline.batch_options import FAR, add_batch_arguments, check_batch_arguments, lines_ahead
from pipeline.documents.plain import check_text_output, read_columns, read_utf8
from pipeline.errors import PipelineError, one_line
from pipeline.lines import is_packed
from pipeline.model_options import add_model_arguments, languages_of, open_model
from pipeline.placeholders import lost_placeholders

if TYPE_CHECKING:
    from pipeline.documents.po import Catalogue
    from pipeline.documents.segments import Segment
    from pipeline.documents.tmx import Memory
    from pipeline.translation import Translation

_T = TypeVar("_T")


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
    parser.add_argument("--prefix", action="store_true",
                        help="an input line is a source, a tab and what its translation begins with (may be empty)")
    parser.add_argument("--glossary", type=Path, metavar="FILE",
                        help="terms that beam search must place: a source phrase, a tab and a target phrase per line")
    parser.add_argument("--shortlist", type=int, metavar="N",
                        help="search only N likely target pieces per source piece, by the count model, and the most "
                             "frequent ones; with --family and a greedy or beam search")
    parser.add_argument("--check-placeholders", action="store_true",
                        help="report lines whose translation lacks a placeholder such as {entity_name}")
    parser.add_argument("--split", action="store_true",
                        help="split lines into sentences, and translate these; needs the extra `split`")
    parser.add_argument("--languages", nargs=2, metavar=("SOURCE", "TARGET"),
                        help="of a .tmx file, and for --split (default: the family's or the model folder's)")
    add_batch_arguments(parser, piped=f"32, or {FAR:,} with --split")
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction,
                        help="show progress on standard error (default: for an --input file, if that is a terminal)")
    # The choices are `pipeline.model.formats.FORMATS`, which would take torch to import.
    parser.add_argument("--quantization", choices=("float32", "int8", "bfloat16", "float16"),
                        help="the format in which the model is searched (default: the decoder's)")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.nbest < 1:
        raise PipelineError(f"--nbest: {arguments.nbest} must be at least 1")
    check_batch_arguments(arguments)
    # Mistakes in files are reported before a model is loaded.
    lines = read_utf8(arguments.input)
    if arguments.output is not None:
        check_text_output(arguments.output, arguments.input, arguments.glossary)
    document = _open_document(arguments)
    from pipeline.documents.segments import splitter, translate_segments, whole_line
    from pipeline.glossary import Glossary
    from pipeline.text_model import open_shortlist
    from pipeline.translation import Translator

    split = splitter(_languages(arguments)[0]) if arguments.split else whole_line
    glossary = arguments.glossary and Glossary.read(arguments.glossary)
    if arguments.shortlist is not None and arguments.family is None:
        raise PipelineError("--shortlist: is made of the count model of a run's corpus; give a --family of a run, or "
                            "leave it out")
    shortlist = None if arguments.shortlist is None else open_shortlist(arguments.shortlist)
    opened = open_model(arguments)
    translator = Translator(opened.settings, opened.model, opened.decoder(arguments.decoder),
                            nbest=arguments.nbest, device=arguments.device, batch_tokens=arguments.batch_tokens,
                            scores=arguments.format == "json", glossary=glossary, shortlist=shortlist,
                            quantization=arguments.quantization)
    if document is not None or arguments.split:
        found = translate_segments(lines if document is None else document.sources(), split, translator,
                                   lines_ahead(arguments, piped=FAR))
        rendered = _render_segments(document, found, arguments)
    else:
        prefixes = None
        if arguments.prefix:
            columns, again = tee(read_columns(
                lines, str(arguments.input or "standard input"),
                "with --prefix a line is a source, a tab and the beginning of its translation", optional=True))
            lines, prefixes = (source for source, _ in columns), (prefix for _, prefix in again)
        results = _with_progress(translator(lines, prefixes, ahead=lines_ahead(arguments)),
                                 lambda: _line_count(arguments.input), arguments)
        rendered = (_render(number, result, arguments) for number, result in enumerate(results, 1))
    _write(rendered, arguments.output)


def _write(rendered: Iterable[bytes], output: Path | None) -> None:
    from pipeline.files import replacing

    if output is None:
        for part in rendered:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        return
    with replacing(output) as aside, open(aside, "wb") as file:
        file.writelines(rendered)


def _open_document(arguments: argparse.Namespace) -> "Catalogue | Memory | None":
    """The document that --input names, if it is one.

    Raises:
        PipelineError: it cannot be read, or an option does not suit the input.
    """
    is_document = _is_document(arguments.input)
    if arguments.input is not None and is_packed(arguments.input) and _is_document(arguments.input.with_suffix("")):
        raise PipelineError(f"{arguments.input}: documents are read uncompressed; unpack it first")
    kind = arguments.input.suffix.lower() if is_document else ""
    if is_document or arguments.split:
        for option, given in (("--prefix", arguments.prefix), ("--nbest", arguments.nbest > 1),
                              ("--format json", arguments.format == "json")):
            if given:
                raise PipelineError(f"{option}: is for text line by line; leave it out with "
                                    f"{f'a {kind} file' if is_document else '--split'}")
    if arguments.languages is not None and kind != ".tmx" and not arguments.split:
        raise PipelineError("--languages: is for a .tmx file, and for --split; leave it out")
    if not is_document:
        return None
    if kind == ".tmx":
        from pipeline.documents.tmx import Memory

        return Memory(arguments.input, *_languages(arguments))
    from pipeline.documents.po import Catalogue

    return Catalogue(arguments.input)


def _is_document(path: Path | None) -> bool:
    return path is not None and path.suffix.lower() in (".po", ".pot", ".tmx")


def _languages(arguments: argparse.Namespace) -> tuple[str, str]:
    """The languages of a document.

    Raises:
        PipelineError: they are not given, and neither the corpus nor a model folder has them.
    """
    if arguments.languages is not None:
        source, target = arguments.languages
        return source, target
    found = languages_of(arguments)
    if found is None:
        raise PipelineError("--languages: needed with --model hf:NAME; give two codes as the document has them, such "
                            "as en de")
    return found


def _render_segments(document: "Catalogue | Memory | None", found: "Iterator[Segment]",
                     arguments: argparse.Namespace) -> Iterator[bytes]:
    """The translated document, or lines that were split into sentences; notes go to standard error."""
    def count() -> int | None:
        return _line_count(arguments.input) if document is None else len(document.sources())

    segments = []
    for number, segment in enumerate(_with_progress(found, count, arguments), start=1):
        checked = document is not None or arguments.check_placeholders
        lost = lost_placeholders(segment.source, segment.text) if checked else []
        for note in [*segment.warnings, *([f"lost {', '.join(lost)}"] if lost else [])]:
            _note(f"line {number}: {note}" if document is None else f"{arguments.input}: {segment.source!r}: {note}")
        if document is None:
            yield f"{segment.text}\n".encode()
        else:
            segments.append(segment)
    if document is not None:
        yield document.rendered(segments, lost_placeholders)


def _with_progress(results: Iterator[_T], count: Callable[[], int | None],
                   arguments: argparse.Namespace) -> Iterator[_T]:
    """The results, and a bar where one is wanted: only then they are counted, for which a file is read to its end."""
    wanted = arguments.input is not None and sys.stderr.isatty() if arguments.progress is None else arguments.progress
    if not wanted:
        return results
    from tqdm import tqdm

    unit = " segments" if _is_document(arguments.input) else " lines"
    return iter(tqdm(results, total=count(), unit=unit, file=sys.stderr))


def _line_count(path: Path | None) -> int | None:
    """The lines of a file that can be read twice and is not packed."""
    if path is None or is_packed(path) or not path.is_file():
        return None
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _note(text: str) -> None:
    """Print a note in one line, whatever it quotes; a progress bar is moved out of its way."""
    text = one_line(text)
    if "tqdm" in sys.modules:
        sys.modules["tqdm"].tqdm.write(text, file=sys.stderr)
    else:
        print(text, file=sys.stderr)


def _render(number: int, result: "Translation", arguments: argparse.Namespace) -> bytes:
    import json

    if result.warning:
        _note(f"line {number}: {result.warning}")
    lost = lost_placeholders(result.source, result.hypotheses[0]) if arguments.check_placeholders else []
    if lost:
        _note(f"line {number}: lost {', '.join(lost)}")
    if arguments.format == "text":
        return ("\t".join(result.hypotheses) + "\n").encode()
    fields = {"source": result.source, "hypotheses": result.hypotheses, "scores": result.scores, "calls": result.calls}
    if result.warning:
        fields["warning"] = result.warning
    if arguments.check_placeholders:
        fields["lost_placeholders"] = lost
    return (json.dumps(fields, ensure_ascii=False) + "\n").encode()
