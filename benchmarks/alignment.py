"""Word alignment: ours and the published fast_align, error rate and time side by side.

    python -m benchmarks.alignment

The gold is the Greek New Testament with an English translation (the data of the wheel bible-alignments 0.4.2, CC-BY,
downloaded once into data/benchmarks). The published fast_align is the package systran-align of the extra `benchmarks`.
Every row of the error rates is made from whole runs of the two systems on the gold verses; the times are whole
processes, from text to Pharaoh format, one system after the other in changing order, on the gold verses, on the
training pairs of this folder, and on --source and --target if given.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.alignment_error_rate import ErrorRate, Link, LinkSets, error_rate
from benchmarks.clock import RESULTS, Floats, about, argument_parser, interleave, median_ratio, table
from benchmarks.fast_align_tables import best_sources, read_table, read_tensions
from benchmarks.gold_alignments import SHA256, Gold, fetch_wheel, read_gold
from benchmarks.pharaoh import read_pharaoh
from pipeline import layout
from pipeline.alignment.bitext import read_text
from pipeline.alignment.links import Links
from pipeline.alignment.settings import Method
from pipeline.errors import PipelineError
from pipeline.files import write_json

ROOT = Path(__file__).parents[1]
_SYMMETRISED: tuple[Method, ...] = ("intersection", "union", "grow-diag-final-and")
OPTIONS: dict[Method, tuple[str, ...]] = {"forward": (), "reverse": ("--reverse",),
                                          **{method: ("--symmetrise", method) for method in _SYMMETRISED}}
"""Of our command, for each method."""
BOTH: Method = "grow-diag-final-and"
"""The method of the timed runs in both directions; the package's own is of the same kind."""
THEIRS, OURS = "fast_align", "pipeline"
PACKAGE_METHOD = "as the package symmetrises"


class Text(NamedTuple):
    """Sentence pairs of white-space separated words to align, one file per side."""

    name: str
    source: Path
    target: Path


class Settings(NamedTuple):
    """How often and on how many threads."""

    rounds: int
    threads: int


def run(settings: Settings, own: tuple[Path, Path] | None, output: Path) -> None:
    """Measure everything, print the tables and write `output`.

    Args:
        own: source and target of the user's text, timed beside the others.

    Raises:
        PipelineError: `systran-align` is not installed, no gold, or a text that fast_align cannot read.
    """
    if find_spec("systran_align") is None:
        raise PipelineError("the package systran-align is not installed; under Python 3.10 or 3.11, for which it has "
                            "wheels, install the extra `benchmarks` (pip install -e '.[benchmarks]')")
    description = about(["numba", "systran-align"])
    gold = read_gold(fetch_wheel())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        verses = write_text(gold, folder)
        # A compile cache of its own: the first run shows what compiling costs, the others find it done.
        environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": str(settings.threads)}
        systems = Systems(folder, environment, settings.threads)
        texts = [verses, *default_corpus(), *([Text("own text", *own)] if own else [])]
        sizes = [check(text) for text in texts]
        cold = systems.align(verses, BOTH)
        compiling = cold - systems.align(verses, BOTH)
        quality = measure_quality(systems, verses, gold)
        print(quality_table(quality), flush=True)
        times = [{"text": text.name, **size, **time_all(systems, text, settings.rounds)}
                 for text, size in zip(texts, sizes, strict=True)] if settings.rounds else []
    write_json(output, {
        **description, "threads": settings.threads, "rounds": settings.rounds,
        "gold": {"wheel_sha256": SHA256, "verses": len(gold.links), "links": sum(map(len, gold.links)),
                 "links_across_verses": gold.across},
        "quality": {system: {method: rate._asdict() for method, rate in rates.items()}
                    for system, rates in quality.items()},
        "compile_seconds": compiling, "times": times})
    if times:
        print(f"\n{times_table(times)}\n\nCompiling, once for an installation: {compiling:.1f} s")


class Systems:
    """The two systems, a new process each time."""

    def __init__(self, folder: Path, environment: Mapping[str, str], threads: int) -> None:
        self.folder = folder
        self.links = folder / "links"
        """What the last alignment wrote."""
        self._environment = environment
        self._threads = threads

    def align(self, text: Text, method: Method) -> float:
        """Ours: seconds of the process."""
        start = time.perf_counter()
        self._run("pipeline", "align", "--source", text.source, "--target", text.target, "--out", self.links,
                  "--threads", self._threads, *OPTIONS[method])
        return time.perf_counter() - start

    def fast_align(self, text: Text) -> tuple[float, float]:
        """Theirs: seconds of the process, and those until its forward table was written."""
        start, began = time.perf_counter(), time.time()
        self._run("benchmarks.fast_align_worker", text.source, text.target, self.folder)
        return time.perf_counter() - start, (self.folder / "forward.table").stat().st_mtime - began

    def fast_align_tables(self, text: Text) -> str:
        """Write their complete tables into the folder and return what fast_align printed meanwhile."""
        return self._run("benchmarks.fast_align_worker", text.source, text.target, self.folder, "--tables")

    def _run(self, module: str, *arguments: object) -> str:
        finished = subprocess.run([sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT,
                                  env=self._environment, capture_output=True, text=True, check=False)
        if finished.returncode:
            reason = (finished.stderr.strip().splitlines() or ["it gave no reason"])[-1]
            raise PipelineError(f"python -m {module} ended with status {finished.returncode}: {reason}")
        return finished.stderr


def write_text(gold: Gold, folder: Path) -> Text:
    """The gold verses as two files."""
    text = Text("New Testament", folder / "verses.source", folder / "verses.target")
    for path, sentences in ((text.source, gold.sources), (text.target, gold.targets)):
        path.write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
    return text


def default_corpus() -> list[Text]:
    """The training pairs of the run in this folder, if there are any."""
    text = Text("training pairs", *(layout.CORPUS.resolve() / f"train.{side}" for side in ("source", "target")))
    return [text] if text.source.exists() and text.target.exists() else []


def check(text: Text) -> dict[str, int]:
    """Count pairs and words, and refuse what fast_align's format cannot say."""
    sides = []
    for path in (text.source, text.target):
        try:
            text_bytes = path.read_bytes()
            text_bytes.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError(f"{path}: cannot be read ({error}); give a text file in UTF-8") from None
        sides.append([line.split() for line in text_bytes.removesuffix(b"\n").split(b"\n")])
        for number, words in enumerate(sides[-1], 1):
            if not words or b"|||" in words:
                raise PipelineError(f"{path}: line {number} is empty or has the word '|||', which fast_align cannot "
                                    "read; remove the pair")
    if len(sides[0]) != len(sides[1]):
        raise PipelineError(f"{text.source}: {len(sides[0])} lines, but {text.target} has {len(sides[1])}; "
                            "give one line per sentence on both sides")
    return {"pairs": len(sides[0]), "source_words": sum(map(len, sides[0])), "target_words": sum(map(len, sides[1]))}


def measure_quality(systems: Systems, verses: Text, gold: Gold) -> dict[str, dict[str, ErrorRate]]:
    """Error rates of both systems by method; every gold link is sure."""
    def rate(found: LinkSets) -> ErrorRate:
        return error_rate(gold.links, gold.links, found)

    systems.fast_align(verses)
    as_packaged = rate(as_sets(read_pharaoh(systems.links)))
    tensions = read_tensions(systems.fast_align_tables(verses))
    theirs = {method: rate(found) for method, found in symmetrised(systems.folder, tensions, verses, gold).items()}
    ours = dict[str, ErrorRate]()
    for method in OPTIONS:
        systems.align(verses, method)
        ours[method] = rate(as_sets(read_pharaoh(systems.links)))
    return {THEIRS: {**theirs, PACKAGE_METHOD: as_packaged}, OURS: ours}


def symmetrised(folder: Path, tensions: tuple[float, float], verses: Text, gold: Gold) -> dict[str, LinkSets]:
    """Their two directions by every method, joined as ours are."""
    from pipeline.alignment.symmetrise import symmetrise  # compiles: when everything else is known to be good

    forward, backward = (read_table(folder / f"{name}.table") for name in ("forward", "backward"))
    pairs = list(zip(gold.sources, gold.targets, strict=True))
    bitext = read_text(verses.source, verses.target)[0]
    one = np.concatenate([best_sources(forward, tensions[0], source, target) for source, target in pairs])
    other = np.concatenate([best_sources(backward, tensions[1], target, source) for source, target in pairs])
    directions = (Links.from_heads(bitext, one.astype(np.int32)),
                  Links.from_heads(bitext.swapped(), other.astype(np.int32)).swapped())
    return {method: as_sets(symmetrise(*directions, method)) for method in OPTIONS}


def as_sets(links: Links) -> list[set[Link]]:
    """The links of each pair."""
    every = list(zip(links.source.tolist(), links.target.tolist(), strict=True))
    return [set(every[start:end]) for start, end in pairwise(links.offsets.tolist())]


def time_all(systems: Systems, text: Text, rounds: int) -> dict[str, Any]:
    """Seconds of both systems for both directions, and of one direction, in turns."""
    their_forward = np.zeros(rounds)

    def theirs(item: int) -> float:
        seconds, their_forward[item] = systems.fast_align(text)
        return seconds

    seconds = interleave({THEIRS: theirs, OURS: lambda item: systems.align(text, BOTH),
                          "forward": lambda item: systems.align(text, "forward")}, rounds, warmup=1)
    return {"both_directions": compare(seconds[THEIRS], seconds[OURS]),
            "forward": compare(their_forward, seconds["forward"])}


def compare(theirs: Floats, ours: Floats) -> dict[str, Any]:
    """Median, lowest and highest seconds of each, and how many times faster ours is, with its 95 % interval."""
    return {**{name: {"median": float(np.median(seconds)), "min": float(seconds.min()), "max": float(seconds.max())}
               for name, seconds in ((THEIRS, theirs), (OURS, ours))},
            "times_faster": median_ratio(theirs, ours)}


def quality_table(quality: Mapping[str, Mapping[str, ErrorRate]]) -> str:
    """A row a method of each system; all in percent."""
    return table(["alignment error rate, %", "AER", "precision", "recall"], [
        [f"{system}, {method}", *(f"{100 * share:.1f}" for share in rate)]
        for system, rates in quality.items() for method, rate in rates.items()])


def times_table(times: Sequence[Mapping[str, Any]]) -> str:
    """A row for each text and task."""
    def cell(seconds: Mapping[str, float]) -> str:
        return "{median:.2f} ({min:.2f} to {max:.2f})".format(**seconds)

    return table(["seconds of a process", "pairs", THEIRS, OURS, "times faster"], [
        [f"{row['text']}, {task.replace('_', ' ')}", str(row["pairs"]), cell(row[task][THEIRS]), cell(row[task][OURS]),
         "{:.2f} ({:.2f} to {:.2f})".format(*row[task]["times_faster"])]
        for row in times for task in ("both_directions", "forward")])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--source", type=Path, help="a text of your own to time: one sentence per line, words apart")
    parser.add_argument("--target", type=Path, help="its translation")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system; 0: error rates alone")
    parser.add_argument("--threads", type=int, default=2, help="of each system")
    parser.add_argument("--output", type=Path, default=RESULTS / "alignment.json")
    options = parser.parse_args(arguments)
    if (options.source is None) != (options.target is None):
        parser.error("one of --source and --target is missing; give both sides of your text")
    if options.rounds < 0 or options.threads < 1:
        parser.error(f"--rounds {options.rounds} --threads {options.threads}: give at least 0 rounds and 1 thread")
    own = (options.source.resolve(), options.target.resolve()) if options.source else None
    try:
        run(Settings(options.rounds, options.threads), own, options.output)
    except PipelineError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
