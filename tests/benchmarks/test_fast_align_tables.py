"""fast_align's tables: a written-down one by hand, and learned ones against the package's own scores."""

import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fast_align_tables import LOWEST, NULL, best_sources, read_table, read_tensions, scores

WORDS = [NULL, "haus", "klein", "house", "small"]
ROWS = {1: {4: 0.01}, 2: {4: 0.7, 5: 0.1}, 3: {5: 0.6, 4: 1e-20}}


def write_table(path: Path) -> Path:
    rows = b"".join(struct.pack("<II", source, len(row))
                    + b"".join(struct.pack("<If", target, probability) for target, probability in row.items())
                    for source, row in ROWS.items())
    names = b"".join(word.encode() + b"\0" for word in WORDS)
    path.write_bytes(struct.pack("<II", 2, len(WORDS)) + names + struct.pack("<I", len(ROWS)) + rows)
    return path


def test_scores_by_hand(tmp_path: Path) -> None:
    table = read_table(write_table(tmp_path / "table"))
    # Two source words for one target word (n = 1, m = 2): h is -1/2 and 0.
    near = np.exp([-1.5, 0.0])
    prior = 0.92 * near / near.sum()
    assert scores(table, 3.0, ["klein", "haus"], ["house"]) == pytest.approx(
        np.array([[0.08 * 0.01, prior[0] * LOWEST, prior[1] * 0.7]]))
    assert scores(table, 3.0, ["klein", "unseen"], ["small"]) == pytest.approx(
        np.array([[0.08 * LOWEST, prior[0] * 0.6, prior[1] * LOWEST]]))


def test_the_best_source_by_hand(tmp_path: Path) -> None:
    table = read_table(write_table(tmp_path / "table"))
    assert best_sources(table, 4.0, ["klein", "haus"], ["house", "small", "house"]).tolist() == [1, 0, 1]
    assert best_sources(table, 4.0, ["klein"], ["house"]).tolist() == [-1]
    assert best_sources(table, 0.0, ["haus", "haus"], ["house"]).tolist() == [0]
    assert best_sources(table, 4.0, [], ["house"]).tolist() == [-1]
    assert best_sources(table, 4.0, ["haus"], []).tolist() == []


def test_the_last_tension_of_each_direction_counts() -> None:
    log = ("ARG=x\nITERATION 1\nITERATION 2\n     final tension: 4.25\nITERATION 3 (FINAL)\n"
           "ITERATION 1\n  4  tension=9\n     final tension: 7.5\n     final tension: 0.1\n")
    assert read_tensions(log) == (4.25, 0.1)


def test_it_reads_tables_as_the_package_does(tmp_path: Path) -> None:
    """The package scores with the tension 4 that training starts from, and adds a Poisson term for the length."""
    systran_align = pytest.importorskip("systran_align")
    animals, verbs = ["otter", "heron", "vole", "newt"], ["naps", "dives", "hums"]
    pairs = [(f"the {a} and the {b} {v}".split(), f"{a[::-1]}ta {v[::-1]} {b[::-1]}ta ja".split())
             for a in animals for b in animals for v in verbs]
    last = (["stop"], ["pots"])  # the package reads the last entry of a table twice; nothing else looks at this one
    files = [tmp_path / name for name in ("source", "target")]
    for path, side in zip(files, zip(*pairs, last, strict=True), strict=True):
        path.write_text("".join(" ".join(words) + "\n" for words in side), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.fast_align_worker", *map(str, files), str(tmp_path), "--tables"]
    log = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True).stderr
    assert min(read_tensions(log)) > 0
    paths = [tmp_path / f"{name}.table" for name in ("forward", "backward")]
    aligner, (forward, backward) = systran_align.Aligner(*map(str, paths)), map(read_table, paths)
    for source, target in pairs:
        own = aligner.align(source, target)
        for table, given, wanted, total in ((forward, source, target, own["forward_log_prob"]),
                                            (backward, target, source, own["backward_log_prob"])):
            n, rate = len(wanted), len(given) + 0.05
            length = n * math.log(rate) - rate - math.lgamma(n + 1)
            assert np.log(scores(table, 4.0, given, wanted).sum(axis=1)).sum() + length == pytest.approx(total)
        found = set(own["alignments"])
        one = {(int(i), j) for j, i in enumerate(best_sources(forward, 4.0, source, target)) if i >= 0}
        other = {(i, int(j)) for i, j in enumerate(best_sources(backward, 4.0, target, source)) if j >= 0}
        assert one & other <= found <= one | other
