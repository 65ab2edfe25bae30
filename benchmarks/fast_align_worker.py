"""The published fast_align in a process of its own, through the package `systran-align`.

    python -m benchmarks.fast_align_worker SOURCE TARGET FOLDER [--tables]

With the options that fast_align's authors recommend (-d -o -v) it trains both directions (the package knows no other
way) and writes FOLDER/forward.table, then FOLDER/backward.table, then FOLDER/links in Pharaoh format, symmetrised by
the package. With --tables the tables are whole, there are no links, and the tensions go to standard error: fast_align
prints them and the tables lack them. Only the standard library and the package are imported.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import systran_align  # type: ignore[import-not-found]

_BATCH = 10_000
"""Pairs whose links the package chooses at once: memory is fast_align's, not that of a corpus of Python's strings."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    bitext, forward, backward = (str(options.folder / name) for name in ("bitext", "forward.table", "backward.table"))
    with open(bitext, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{source} ||| {target}\n" for source, target in _pairs(options))
    # Words below exp(beam_threshold) times the best are not written; training does not depend on it.
    threshold = {"beam_threshold": -1000.0} if options.tables else {}
    systran_align.generate_alignment_probabilities(
        bitext, forward, backward, favor_diagonal=True, optimize_tension=True, variational_bayes=True,
        verbose=options.tables, **threshold)
    if options.tables:
        return
    aligner = systran_align.Aligner(forward, backward)
    pairs = _pairs(options)
    with open(options.folder / "links", "w", encoding="ascii") as file:
        while batch := list(islice(pairs, _BATCH)):
            for pair in aligner.align_batch(*map(_words, zip(*batch, strict=True))):
                file.write(" ".join(f"{source}-{target}" for source, target in pair["alignments"]) + "\n")


def _pairs(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    with (open(options.source, encoding="utf-8", newline="\n") as sources,
          open(options.target, encoding="utf-8", newline="\n") as targets):
        for source, target in zip(sources, targets, strict=True):
            yield source.removesuffix("\n"), target.removesuffix("\n")


def _words(texts: Iterable[str]) -> list[list[str]]:
    return [[word.decode() for word in text.encode().split()] for text in texts]  # at ASCII white space only


if __name__ == "__main__":
    main()
