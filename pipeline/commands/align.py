"""Align words (fast_align): the corpus of params.yaml, or two text files.

Without --source, the stage of dvc.yaml: the training pairs and, if there are any, the teacher's translations. With it,
tokenised text is read and links are written in Pharaoh format: one line per pair, SOURCE-TARGET positions from 0. By
default every target word is linked to at most one source word; --reverse does the opposite, --symmetrise combines both.
Text may be compressed (.gz, .zst). Empty files are an error; an empty line is a sentence without words. The folders of
--out and --table must exist; existing files are replaced, but not --source and --target. Processes that torchrun or
SLURM start align together, with the result of one.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.alignment.settings import METHODS, AlignmentSettings
from pipeline.cores import usable_cores
from pipeline.errors import PipelineError
from pipeline.files import locked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipeline.alignment.bitext import Bitext
    from pipeline.alignment.fast_align import AlignmentModel
    from pipeline.alignment.group import Group

    Heads = NDArray[np.int32] | None

_DEFAULT = AlignmentSettings()
_TABLE_MINIMUM = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # Options are None unless given: without --source they would be ignored, so they are refused.
    parser.add_argument("--links", nargs="+", metavar="SIDE=FILE", help="do not align the corpus of params.yaml, but "
                        "take links of its pieces in Pharaoh format, for example raw=FILE distilled=FILE")
    parser.add_argument("--source", type=Path, help="text file, one sentence per line, words separated by spaces")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--out", type=Path, help="links in Pharaoh format")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument("--reverse", action="store_true", default=None,
                           help="link every source word to one target word")
    direction.add_argument("--symmetrise", choices=METHODS[2:], metavar="METHOD",
                           help=f"align in both directions and combine the links: {', '.join(METHODS[2:])}")
    parser.add_argument("--lowercase", action="store_true", default=None, help="align the lower-cased words")
    parser.add_argument("--table", type=Path, help="write the lexical table: word, its translation, probability, "
                        "tab-separated (--reverse: of target words; <eps> means no word)")
    parser.add_argument("--table-minimum", type=float, metavar="P",
                        help=f"omit less probable lines from the table (default: {_TABLE_MINIMUM})")
    parser.add_argument("--show", type=int, metavar="LINE", help="print the links of this line (from 1)")
    parser.add_argument("--threads", type=int, help="default: all cores; the result does not depend on it")
    parser.add_argument("--memory", type=int, metavar="MB", help="aim to stay within these megabytes (default: "
                        f"{_DEFAULT.memory}); the result does not depend on it")
    parser.add_argument("--iterations", type=int, help=f"default: {_DEFAULT.iterations}")
    parser.add_argument("--null-probability", type=float, metavar="P",
                        help=f"prior of a word without a link (default: {_DEFAULT.null_probability})")
    parser.add_argument("--tension", type=float,
                        help=f"preference for the diagonal at the start (default: {_DEFAULT.tension})")
    parser.add_argument("--fixed-tension", action="store_true", default=None, help="do not optimise the tension")
    parser.add_argument("--alpha", type=float, help="Dirichlet prior of variational Bayes; 0: maximum likelihood "
                        f"(default: {_DEFAULT.alpha})")


def run(arguments: argparse.Namespace) -> None:
    if arguments.links is not None:
        _take_links(arguments)
        return
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    if not given:
        _align_corpus()
        return
    for name in ("source", "target", "out"):
        if name not in given:
            raise PipelineError(f"--{name}: missing; to align text give --source, --target and --out (no option at "
                                "all aligns the corpus of params.yaml)")
    _align_text(arguments, _settings(given))


def _align_corpus() -> None:
    from pipeline import layout
    from pipeline.alignment.build import align
    from pipeline.alignment.group import launched_group
    from pipeline.corpus.bpe import Tokenizer
    from pipeline.params import load_params

    with locked(layout.ALIGNMENT):
        align(layout.TRAINING_SIDES, Tokenizer.load(layout.BPE), load_params().alignment, layout.ALIGNMENT,
              layout.REPORTS / "alignment.json", launched_group())


def _take_links(arguments: argparse.Namespace) -> None:
    from pipeline import layout
    from pipeline.alignment.build import take_links
    from pipeline.corpus.bpe import Tokenizer
    from pipeline.params import load_params

    if any(value is not None for name, value in vars(arguments).items() if name != "links"):
        raise PipelineError("--links: takes no other option; what is linked is the corpus of params.yaml")
    links = {side: Path(path) for side, _, path in (text.partition("=") for text in arguments.links)}
    with locked(layout.ALIGNMENT):
        take_links(layout.TRAINING_SIDES, links, Tokenizer.load(layout.BPE), load_params().alignment, layout.ALIGNMENT,
                   layout.REPORTS / "alignment.json")


def _settings(given: dict[str, object]) -> AlignmentSettings:
    names = ("iterations", "null_probability", "tension", "alpha", "symmetrise", "memory")
    chosen = {name: given[name] for name in names if name in given}
    return AlignmentSettings(**chosen, optimise_tension="fixed_tension" not in given)  # type: ignore[arg-type]


def _align_text(arguments: argparse.Namespace, settings: AlignmentSettings) -> None:
    minimum = _TABLE_MINIMUM if arguments.table_minimum is None else arguments.table_minimum
    if arguments.threads is not None and arguments.threads < 1:
        raise PipelineError(f"--threads: {arguments.threads} must be at least 1")
    if arguments.table is None and arguments.table_minimum is not None:
        raise PipelineError("--table-minimum: has no effect without --table; name a file for the table")
    if not 0 <= minimum <= 1:
        raise PipelineError(f"--table-minimum: {minimum} must be between 0 and 1")
    if arguments.table is not None and arguments.table.resolve() == arguments.out.resolve():
        raise PipelineError(f"--table: {arguments.table} is also --out; name another file")
    from pipeline.alignment.bitext import read_text
    from pipeline.documents.plain import check_text_output

    for path in filter(None, (arguments.out, arguments.table)):
        check_text_output(path, arguments.source, arguments.target)
    bitext, source_words, target_words = read_text(arguments.source, arguments.target, bool(arguments.lowercase))
    if arguments.show is not None and not 1 <= arguments.show <= bitext.pairs:
        raise PipelineError(f"--show: {arguments.show} is not a line of {arguments.source}, which has {bitext.pairs} "
                            "lines")
    from pipeline.alignment.directions import links_of
    from pipeline.alignment.group import launched_group
    from pipeline.alignment.pharaoh import write_pharaoh

    threads = arguments.threads or usable_cores()
    words = (target_words, source_words) if arguments.reverse else (source_words, target_words)
    group = launched_group()
    model, forward, reverse = _heads(bitext, settings, threads, arguments, group)
    if group.rank:
        return
    if arguments.table is not None:
        from pipeline.alignment.table import write_table

        write_table(arguments.table, model, *words, minimum=minimum)
    count = write_pharaoh(arguments.out, links_of(bitext, forward, reverse, settings.symmetrise))
    print(f"{arguments.out}: {count} links of {bitext.pairs} pairs")
    if arguments.show is not None:
        from pipeline.alignment.drawing import draw

        before = 0
        for links in links_of(bitext, forward, reverse, settings.symmetrise):
            if before < arguments.show <= before + links.pairs:
                shown = bitext.part(before, before + links.pairs)
                print(draw(shown, links, arguments.show - 1 - before, source_words, target_words))
            before += links.pairs


def _heads(bitext: "Bitext", settings: AlignmentSettings, threads: int, arguments: argparse.Namespace,
           group: "Group") -> "tuple[AlignmentModel, Heads, Heads]":
    """Return the model for the table, and the heads of both directions, or None of the one that was not asked for."""
    from pipeline.alignment.directions import align_both, align_direction
    from pipeline.alignment.progress import progress

    folder, reverse = arguments.out.parent, bool(arguments.reverse)
    if arguments.symmetrise is not None:
        with progress(settings.iterations, "forward", "reverse", rank=group.rank) as callbacks:
            there, back = align_both([bitext], settings, threads, folder, callbacks, group)
        return there.model, there.heads[0], back.heads[0]
    with progress(settings.iterations, "reverse" if reverse else "forward", rank=group.rank) as (show,):
        model, (heads,) = align_direction([bitext], settings, threads, folder, show, reverse, group)
    return model, *((None, heads) if reverse else (heads, None))
