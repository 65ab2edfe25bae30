"""The published fast_align in a process of its own, through the package `systran-align`.

    python -m benchmarks.fast_align_worker SOURCE TARGET FOLDER [--tables]

With the options that fast_align's authors recommend (-d -o -v) it trains both directions (the package knows no other
way) and writes FOLDER/forward.table, then FOLDER/backward.table, then FOLDER/links in Pharaoh format, symmetrised by
the package. With --tables the tables are whole, there are no links, and the tensions go to standard error: fast_align
prints them and the tables lack them. Only the standard library and the package are imported.
"""

import argparse
from pathlib import Path

import systran_align  # type: ignore[import-not-found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    sources, targets = (path.read_bytes().removesuffix(b"\n").split(b"\n") for path in (options.source, options.target))
    bitext, forward, backward = (str(options.folder / name) for name in ("bitext", "forward.table", "backward.table"))
    Path(bitext).write_bytes(b"".join(b"%s ||| %s\n" % pair for pair in zip(sources, targets, strict=True)))
    # Words below exp(beam_threshold) times the best are not written; training does not depend on it.
    threshold = {"beam_threshold": -1000.0} if options.tables else {}
    systran_align.generate_alignment_probabilities(
        bitext, forward, backward, favor_diagonal=True, optimize_tension=True, variational_bayes=True,
        verbose=options.tables, **threshold)
    if options.tables:
        return
    aligner = systran_align.Aligner(forward, backward)
    pairs = aligner.align_batch(_words(sources), _words(targets))
    with open(options.folder / "links", "w", encoding="ascii") as file:
        for pair in pairs:
            file.write(" ".join(f"{source}-{target}" for source, target in pair["alignments"]) + "\n")


def _words(lines: list[bytes]) -> list[list[str]]:
    return [[word.decode() for word in line.split()] for line in lines]


if __name__ == "__main__":
    main()
