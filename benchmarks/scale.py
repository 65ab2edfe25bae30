"""Seconds and peak memory of every stage before and after training, as the corpus grows.

    python -m benchmarks.scale                                  # 100,000, 300,000, 1 million and 4.5 million pairs
    python -m benchmarks.scale --pairs 100000 300000
    python -m benchmarks.scale --pairs 4500000 --only corpus bpe align counts

Corpora are made from the default run's (data/corpus) by recombination: a pair is two of its pairs, joined on both
sides. So the number of distinct words stays, and the pairs of words that occur together grow towards all that are
possible. Each stage is a process of its own, beside the published fast_align (package systran-align, see
`benchmarks.alignment`) and SentencePiece's own trainer and encoder. Projections are straight lines through the measured
sizes; memory that saturates, such as that of tables, stays below them.

Sizes that were measured before stay in the report, which is written after each stage, so that sizes can be measured one
by one. Processor seconds are those of the process and its children in all threads; unlike seconds they hardly depend on
what else the machine does. Memory is the peak of the resident set, and of its part that is not mapped from a file: the
system drops mapped pages when it needs the memory. Both are read from /proc every 10 ms, summed over the process and
its children.
"""

import filecmp
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clock import RESULTS, about, argument_parser, table
from pipeline import layout
from pipeline.cores import usable_cores
from pipeline.errors import PipelineError
from pipeline.files import read_json, write_json
from pipeline.strict_yaml import read_yaml

Stages = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Usage by stage, then by number of pairs."""
ROOT = Path(__file__).parents[1]
SIZES = (100_000, 300_000, 1_000_000, 4_500_000)
PROJECTED = (4_500_000, 40_000_000, 1_000_000_000)
DRAWN = {"corpus": "corpus", "bpe": "bpe", "align": "align (corpus and translations)", "counts": "counts",
         "align text": "align, text", "fast_align": "fast_align, text", "sentencepiece": "SentencePiece"}
"""What the picture shows, and how it is called there."""
_PIPELINE = ("corpus", "bpe", "align", "counts", "align text")
_LIMIT_MB = 4000
"""What no stage but training should exceed."""
_PAUSE = 0.01
_MEGABYTE = 1e6
_NEEDED = ("corpus", "bpe", "(shards)", "merge")
"""Stages that the others need."""
_TEXT = ("--source", "data/corpus/train.source", "--target", "data/corpus/train.target")


class Usage(NamedTuple):
    """What one stage took."""

    seconds: float
    processor_seconds: float
    """In all threads and processes."""
    peak_mb: float
    """The largest resident set, in megabytes."""
    anonymous_mb: float
    """Its largest part that no file backs."""


def commands(threads: int, vocabulary: int) -> dict[str, list[str]]:
    """The arguments of `python -m` of every stage, by name, in their order; names in brackets are not measured.

    A stage needs none of the later ones.
    """
    worker = "benchmarks.scale_worker"
    torchrun = ["torch.distributed.run", "--nproc-per-node", "2", "-m", "pipeline"]
    both = ["--symmetrise", "grow-diag-final-and"]
    stages = {
        "corpus": ["pipeline", "corpus"],
        "bpe": ["pipeline", "bpe"],
        "(shards)": [worker, "shards"],
        "merge": [worker, "merge"],
        "fingerprint": [worker, "fingerprint"],
        "epoch": [worker, "epoch"],
        "fit, 20 steps": ["pipeline", "fit", "--family", "teacher", "--trainer.max_steps", "20"],
        "align": ["pipeline", "align"],
        "counts": ["pipeline", "counts"],
        "align, 1 thread": ["pipeline", "align", *_TEXT, "--out", "one", "--threads", "1", *both],
        "align, 2 ranks": [*torchrun, "align", *_TEXT, "--out", "two", "--threads", "1", *both],
        "align text": ["pipeline", "align", *_TEXT, "--out", "links", "--threads", str(threads), *both],
        "sentencepiece": [worker, "sentencepiece", "--vocabulary", str(vocabulary)],
    }
    if find_spec("systran_align") is not None:
        stages["fast_align"] = ["benchmarks.fast_align_worker", *_TEXT[1::2], "."]
    return stages


def measure(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Usage:
    """Run `python -m` with some arguments in a folder.

    Raises:
        PipelineError: it fails.
    """
    start, before = time.perf_counter(), _processor_seconds()
    with open(folder / "log", "wb") as output:
        process = subprocess.Popen([sys.executable, "-m", *arguments], cwd=folder, env=dict(environment),
                                   stdout=output, stderr=output)
        peak = anonymous = 0.0
        while process.poll() is None:
            found = [_resident(each) for each in _family(process.pid)]
            peak, anonymous = (max(old, sum(part)) for old, part in
                               zip((peak, anonymous), zip(*found, strict=True) if found else ((), ()), strict=True))
            time.sleep(_PAUSE)
    seconds = time.perf_counter() - start
    if process.returncode:
        printed = (folder / "log").read_text(encoding="utf-8", errors="replace").strip() or "no reason given"
        raise PipelineError(f"python -m {' '.join(arguments)} ended with status {process.returncode}: "
                            f"{printed.splitlines()[-1]}")
    return Usage(round(seconds, 2), round(_processor_seconds() - before, 2), round(peak / _MEGABYTE),
                 round(anonymous / _MEGABYTE))


def _processor_seconds() -> float:
    """Of all child processes that have ended, and theirs."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _family(process: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [process, *(one for child in children for one in _family(int(child)))]


def _resident(process: int) -> tuple[float, float]:
    """Bytes of the resident set and of its anonymous part."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    fields = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "RssAnon"))}
    return 1024.0 * int(fields.get("VmRSS", 0)), 1024.0 * int(fields.get("RssAnon", 0))


def prepare(folder: Path, corpus: Path, pairs: int, environment: Mapping[str, str], vocabulary: int | None) -> int:
    """Make a folder in which the pipeline's stages run on recombined pairs; return the size of the vocabulary."""
    params = read_yaml(ROOT / "params.yaml")
    for name in [name for name, block in params["corpus"].items() if isinstance(block, dict) and name != "filters"]:
        del params["corpus"][name]
    evaluation = {split: [str(corpus / f"{split}.{side}") for side in ("source", "target")]
                  for split in ("validation", "test")}
    params["corpus"] |= {"source": "files", "files": {"train": ["raw.source", "raw.target"], **evaluation}}
    params["bpe"]["vocabulary"] = vocabulary or params["bpe"]["vocabulary"]
    (folder / "params.yaml").write_text(json.dumps(params), encoding="utf-8")  # JSON is YAML
    measure(["benchmarks.scale_worker", "recombine", "--corpus", str(corpus), "--pairs", str(pairs)], folder,
            environment)
    return int(params["bpe"]["vocabulary"])


def run(pairs: int, corpus: Path, only: Sequence[str], threads: int, vocabulary: int | None,
        work: Path | None) -> Iterator[tuple[str, Usage]]:
    """Measure every stage, or those of `only` and what they need, and yield each as it ends.

    Raises:
        PipelineError: a stage fails, or two ranks align otherwise than one process.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
    if work is not None:
        Path(work).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"scale-{pairs}-", dir=work))
    try:
        stages = commands(threads, prepare(folder, corpus, pairs, environment, vocabulary))
        for stage in chosen(list(stages), only):
            usage = measure(stages[stage], folder, environment)
            if not stage.startswith("("):
                yield stage, usage
        one, two = folder / "one", folder / "two"
        if one.exists() and two.exists() and not filecmp.cmp(one, two, shallow=False):
            raise PipelineError(f"{pairs} pairs: two ranks align otherwise than one process")
    finally:
        shutil.rmtree(folder)


def chosen(stages: Sequence[str], only: Sequence[str]) -> list[str]:
    """The stages to run: all, or those of `only` and what they need.

    >>> chosen(["corpus", "bpe", "(shards)", "merge", "epoch", "align", "fast_align"], ["align"])
    ['corpus', 'bpe', '(shards)', 'merge', 'align']

    Raises:
        PipelineError: there is no such stage.
    """
    for name in only:
        if name not in stages:
            raise PipelineError(f"--only: {name!r} is none of {', '.join(stages)}")
    return [stage for stage in stages if not only or stage in {*_NEEDED, *only}]


def line(points: Mapping[int, float]) -> tuple[float, float]:
    """Least squares of the relative errors of y = fixed + rate * x: returns (fixed, rate), neither below 0.

    >>> tuple(round(x, 6) for x in line({10: 25.0, 100: 205.0, 1000: 2005.0}))
    (5.0, 2.0)
    """
    weights = {x: 1 / max(y, 1e-3) ** 2 for x, y in points.items()}
    total = sum(weights.values())
    middle = sum(weight * x for x, weight in weights.items()) / total
    height = sum(weights[x] * y for x, y in points.items()) / total
    spread = sum(weight * (x - middle) ** 2 for x, weight in weights.items())
    rate = sum(weights[x] * (x - middle) * (y - height) for x, y in points.items()) / spread if spread else 0.0
    rate = min(max(0.0, rate), height / middle)
    return height - rate * middle, rate


def projections(stages: Stages) -> dict[str, Any]:
    """For each stage the lines of seconds and of anonymous memory, and what they give for larger corpora."""
    result: dict[str, Any] = {}
    for stage, by_size in stages.items():
        lines = {figure: line({int(pairs): usage[figure] for pairs, usage in by_size.items()})
                 for figure in ("processor_seconds", "anonymous_mb")}
        result[stage] = {figure: {"per_million_pairs": round(1e6 * rate, 1),
                                  **{str(pairs): round(fixed + rate * pairs) for pairs in PROJECTED}}
                         for figure, (fixed, rate) in lines.items()}
    return result


def draw(stages: Stages, path: Path) -> None:
    """Processor seconds and memory over pairs, on logarithmic axes; the pipeline's stages are solid, others dashed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    drawn = [stage for stage in DRAWN if stage in stages]
    for axis, field, title in zip(axes, ("processor_seconds", "anonymous_mb"), (
            "processor time, seconds", "peak memory without mapped files, megabytes"), strict=True):
        for number, stage in enumerate(drawn):
            points = sorted((int(pairs), usage[field]) for pairs, usage in stages[stage].items())
            axis.plot(*zip(*points, strict=True), "o-" if stage in _PIPELINE else "s--", color=f"C{number}",
                      label=DRAWN[stage])
        axis.set(xscale="log", yscale="log", xlabel="sentence pairs", title=title)
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_formatter(lambda pairs, _: f"{pairs:,.0f}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axes[1].axhline(_LIMIT_MB, color="black", linewidth=0.8, linestyle=":")
    axes[1].annotate("4 GB", (1, _LIMIT_MB), xycoords=("axes fraction", "data"), xytext=(-2, 2),
                     textcoords="offset points", ha="right", va="bottom", fontsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=SIZES, help="sizes of the corpora")
    parser.add_argument("--corpus", type=Path, default=layout.CORPUS, help="folder of the corpus to recombine")
    parser.add_argument("--only", nargs="+", default=(), metavar="STAGE",
                        help="run these stages and those that they need")
    parser.add_argument("--threads", type=int, default=usable_cores(), help="of the aligners")
    parser.add_argument("--vocabulary", type=int, help="instead of bpe.vocabulary of params.yaml")
    parser.add_argument("--work", type=Path, help="folder for the corpora, about 2 KB per pair; not in memory (tmpfs)")
    parser.add_argument("--output", type=Path, default=RESULTS / "scale.json")
    options = parser.parse_args(arguments)
    report: dict[str, Any] = read_json(options.output) if options.output.exists() else {}
    stages, measured = report.get("stages", {}), report.get("measured", {})
    packages = ["numba", "numpy", "sentencepiece", *(["systran-align"] if find_spec("systran_align") else [])]
    try:
        for pairs in options.pairs:
            measured = by_size(measured | {str(pairs): {**about(packages), "threads": options.threads}})
            for stage, usage in run(pairs, options.corpus.resolve(), options.only, options.threads, options.vocabulary,
                                    options.work):
                stages[stage] = by_size(stages.get(stage, {}) | {str(pairs): usage._asdict()})
                report |= {"measured": measured, "stages": stages, "projected": projections(stages)}
                write_json(options.output, report)
                print(f"{pairs:>9,} pairs  {stage:<16} {usage.seconds:9.1f} s {usage.processor_seconds:9.1f} s of "
                      f"processors {usage.peak_mb:7.0f} MB {usage.anonymous_mb:7.0f} MB anonymous", flush=True)
    except PipelineError as error:
        parser.exit(2, f"error: {error}\n")
    draw(stages, options.output.with_suffix(".png"))
    print(table(["projected", *(f"{pairs:,}" for pairs in PROJECTED), "per million"], [
        [f"{stage}, {figure}", *(f"{law[str(pairs)]:,}" for pairs in PROJECTED), f"{law['per_million_pairs']:,}"]
        for stage, laws in projections(stages).items() for figure, law in laws.items()]))


def by_size(entries: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the numbers of pairs."""
    return {pairs: entries[pairs] for pairs in sorted(entries, key=int)}


if __name__ == "__main__":
    main()
