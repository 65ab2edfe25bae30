"""`python -m pipeline align` on text files."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from dense import Pair

import pipeline
from benchmarks.pharaoh import read_pharaoh
from pipeline.alignment.settings import METHODS
from pipeline.alignment.symmetrise import symmetrise
from pipeline.cli import main

WORDS = {"otter": "lumo", "sings": "daglu", "under": "su", "Maple": "bolka", "loudly": "fenn", "today": "nu",
         "raven": "kestu", "near": "ba", "pale": "aro", "counts": "nurem", "Friday": "prina", "snails": "oprat"}


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path, list[Pair]]:
    """Two files of 200 pairs in different word order, and the links between them."""
    choose = random.Random(8)
    lines, links = [], []
    for _ in range(200):
        source = choose.sample(list(WORDS), choose.randint(0, 5))
        order = choose.sample(range(len(source)), len(source))
        lines.append((" ".join(source), " ".join(WORDS[source[position]] for position in order)))
        links.append((order, list(range(len(order)))))
    for name, side in zip(("a.en", "a.xx"), zip(*lines, strict=True), strict=True):
        (tmp_path / name).write_text("".join(line + "\n" for line in side), encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.xx", links


def align(text: tuple[Path, Path, list[Pair]], out: Path, *options: str) -> str:
    assert main(["align", "--source", str(text[0]), "--target", str(text[1]), "--out", str(out), *options]) == 0
    return out.read_text()


def as_text(links: list[Pair], by_source: bool = False) -> str:
    rows = [sorted(zip(*pair, strict=True), key=lambda link: link[0] if by_source else link[1]) for pair in links]
    return "".join(" ".join(f"{s}-{t}" for s, t in row) + "\n" for row in rows)


def test_a_line_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.en").write_text("otter\nsings\notter sings\nthe otter sings\n")
    (tmp_path / "a.xx").write_text("lumo\ndaglu\ndaglu lumo\nlumo daglu\n")
    options = ["align", "--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.xx"),
               "--out", str(tmp_path / "out")]
    assert main([*options, "--show", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["daglu <- sings", "lumo  <- otter"]
    assert main([*options, "--reverse", "--show", "4"]) == 0
    assert "lumo  <- " in capsys.readouterr().out
    assert main([*options, "--show", "5"]) == 2
    assert capsys.readouterr().err == f"error: --show: 5 is not a line of {tmp_path / 'a.en'}, which has 4 lines\n"


@pytest.mark.parametrize("options", [(), ("--reverse",), ("--symmetrise", "grow-diag-final-and"),
                                     ("--threads", "1", "--iterations", "8", "--alpha", "0")], ids=" ".join)
def test_known_links_are_written(text: tuple[Path, Path, list[Pair]], tmp_path: Path,
                                 capsys: pytest.CaptureFixture[str], options: tuple[str, ...]) -> None:
    found = align(text, tmp_path / "out", *options)
    assert found == as_text(text[2], by_source="--reverse" in options)
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'out'}: {sum(len(s) for s, _ in text[2])} links of 200 pairs\n"
    iterations = 8 if "--iterations" in options else 5
    lines = printed.err.splitlines()
    assert len(lines) == (2 if "--symmetrise" in options else 1) * iterations
    assert all("cross-entropy" in line and "tension" in line for line in lines)


@pytest.mark.parametrize("method", METHODS[2:])
def test_symmetrised_links_are_those_of_both_directions(text: tuple[Path, Path, list[Pair]], tmp_path: Path,
                                                        method: str) -> None:
    settings = ("--iterations", "1", "--fixed-tension")  # so that the directions differ
    align(text, tmp_path / "forward", *settings)
    align(text, tmp_path / "reverse", "--reverse", *settings)
    forward, reverse = read_pharaoh(tmp_path / "forward"), read_pharaoh(tmp_path / "reverse")
    assert sorted(zip(*forward[1:], strict=True)) != sorted(zip(*reverse[1:], strict=True))
    align(text, tmp_path / "both", "--symmetrise", method, *settings)
    expected = symmetrise(forward, reverse, method)
    for mine, theirs in zip(read_pharaoh(tmp_path / "both"), expected, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_the_table(text: tuple[Path, Path, list[Pair]], tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    align(text, tmp_path / "out", "--table", str(table))
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert all(float(probability) >= 0.01 for _, _, probability in rows)
    best = dict(reversed([(e, f) for e, f, _ in rows]))  # a word's first row
    assert {e: f for e, f in best.items() if e != "<eps>"} == WORDS
    align(text, tmp_path / "out", "--table", str(table), "--table-minimum", "0.5", "--reverse", "--lowercase")
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert {e: f for e, f, _ in rows} == {f: e.lower() for e, f in WORDS.items()}
    assert all(float(probability) >= 0.5 for _, _, probability in rows)


def test_threads_do_not_change_a_byte(text: tuple[Path, Path, list[Pair]], tmp_path: Path) -> None:
    for threads in "1", "2", "5":
        align(text, tmp_path / f"links{threads}", "--threads", threads, "--table", str(tmp_path / f"table{threads}"),
              "--iterations", "2")
    for kind in "links", "table":
        assert len({(tmp_path / f"{kind}{threads}").read_bytes() for threads in "125"}) == 1


@pytest.mark.parametrize(("options", "message"), [
    (["--source", "a.en", "--target", "a.xx"], "--out: missing; to align text give --source, --target and --out"),
    (["--iterations", "3"], "--source: missing; to align text give"),
    (["--source", "a.en", "--target", "gone", "--out", "o"], "gone: cannot be read: No such file"),
    (["--source", "a.en", "--target", "short", "--out", "o"], "a.en has 200 lines and short has 1"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--threads", "0"], "--threads: 0 must be at least 1"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--tension", "-1"], "tension: -1.0 must be above 0"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--table-minimum", "0.5"],
     "--table-minimum: has no effect without --table"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--table", "t", "--table-minimum", "nan"],
     "--table-minimum: nan must be between 0 and 1"),
    (["--source", "empty", "--target", "empty", "--out", "o"], "empty and empty: both are empty"),
    (["--source", "a.en", "--target", "a.xx", "--out", "a.en/o"], "a.en/o: cannot be written: there is no folder a.en"),
    (["--source", "a.en", "--target", "a.xx", "--out", "new/o"], "new/o: cannot be written: there is no folder new"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--table", "new/t"],
     "new/t: cannot be written: there is no folder new; create it first (mkdir -p)"),
    (["--source", "a.en", "--target", "a.xx", "--out", "."], ".: is a folder; name a file in it"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--table", "o"], "--table: o is also --out"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o", "--table", "new/../o"], "--table: new/../o is also --out"),
    (["--source", "a.en", "--target", "a.xx", "--out", "o.gz"], "o.gz: would not be compressed"),
    (["--source", "a.en", "--target", "a.xx", "--out", "./a.xx"], "a.xx: is also the input; name another file"),
    (["--source", "a.en", "--target", "a.xx", "--out", "pipe"], "pipe: is not a regular file"),
])
def test_mistakes_are_one_line_and_status_2(text: tuple[Path, Path, list[Pair]], tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                            options: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("lumo\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    assert main(["align", *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "a.xx").read_text().count("\n") == 200


def test_aligning_loads_no_network_library(text: tuple[Path, Path, list[Pair]], tmp_path: Path) -> None:
    code = ("import sys\nfrom pipeline.cli import main\nassert main(sys.argv[1:]) == 0\n"
            "assert 'numba' in sys.modules and not {'torch', 'pytorch_lightning', 'rich'} & set(sys.modules)")
    environment = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code, "align", "--source", str(text[0]), "--target", str(text[1]), "--out",
                    str(tmp_path / "out")], env=environment, check=True, capture_output=True)
