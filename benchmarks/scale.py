"""Seconds and peak memory of every stage before and after training, as the corpus grows.

    python -m benchmarks.scale                                  # 100,000, 300,000, 1 million and 4.5 million pairs
    python -m benchmarks.scale --pairs 100000 300000

Corpora are made from the default run's (data/corpus) by recombination: a pair is two of its pairs, joined on both
sides. So the number of distinct words stays, and the pairs of words that occur together grow towards all that are
possible. Each stage is a process of its own, beside the published fast_align (package systran-align, see
`benchmarks.alignment`) and SentencePiece's own trainer and encoder. Projections are straight lines through the measured
sizes; memory that saturates, such as that of tables, stays below them.

Memory is the peak of the resident set, and of its part that is not mapped from a file: the system drops mapped pages
when it needs the memory. Both are read from /proc every 10 ms, summed over the process and its children.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clock import RESULTS, about, argument_parser, table
from pipeline import layout
from pipeline.cores import usable_cores
from pipeline.errors import PipelineError
from pipeline.files import write_json
from pipeline.strict_yaml import read_yaml

ROOT = Path(__file__).parents[1]
SIZES = (100_000, 300_000, 1_000_000, 4_500_000)
PROJECTED = (4_500_000, 40_000_000, 1_000_000_000)
_PAUSE = 0.01
_MEGABYTE = 1e6
_TEXT = ("--source", "data/corpus/train.source", "--target", "data/corpus/train.target")


class Usage(NamedTuple):
    """What one stage took."""

    seconds: float
    peak_mb: float
    """The largest resident set, in megabytes."""
    anonymous_mb: float
    """Its largest part that no file backs."""


def commands(threads: int, vocabulary: int) -> dict[str, list[str]]:
    """The arguments of `python -m` of every stage, by name, in their order; names in brackets are not measured."""
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
    start = time.perf_counter()
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
        said = (folder / "log").read_text(encoding="utf-8", errors="replace").strip() or "no reason given"
        raise PipelineError(f"python -m {' '.join(arguments)} ended with status {process.returncode}: "
                            f"{said.splitlines()[-1]}")
    return Usage(round(seconds, 2), round(peak / _MEGABYTE), round(anonymous / _MEGABYTE))


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


def run(sizes: Sequence[int], corpus: Path, only: Sequence[str], threads: int, vocabulary: int | None,
        work: Path | None) -> dict[str, dict[str, Usage]]:
    """Measure every stage at every size; print each as it ends. Returns usage by stage, then by number of pairs."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
    found: dict[str, dict[str, Usage]] = {}
    for pairs in sizes:
        folder = Path(tempfile.mkdtemp(prefix=f"scale-{pairs}-", dir=work))
        try:
            learnt = prepare(folder, corpus, pairs, environment, vocabulary)
            for stage, arguments in commands(threads, learnt).items():
                usage = measure(arguments, folder, environment)
                if not stage.startswith("(") and (not only or stage in only):
                    found.setdefault(stage, {})[str(pairs)] = usage
                    print(f"{pairs:>9,} pairs  {stage:<16} {usage.seconds:9.1f} s {usage.peak_mb:7.0f} MB "
                          f"{usage.anonymous_mb:7.0f} MB anonymous", flush=True)
        finally:
            shutil.rmtree(folder)
    return found


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


def projections(found: Mapping[str, Mapping[str, Usage]]) -> dict[str, Any]:
    """For each stage the lines of seconds and of anonymous memory, and what they give for larger corpora."""
    result: dict[str, Any] = {}
    for stage, by_size in found.items():
        lines = {figure: line({int(pairs): getattr(usage, figure) for pairs, usage in by_size.items()})
                 for figure in ("seconds", "anonymous_mb")}
        result[stage] = {figure: {"per_million_pairs": round(1e6 * rate, 1),
                                  **{str(pairs): round(fixed + rate * pairs) for pairs in PROJECTED}}
                         for figure, (fixed, rate) in lines.items()}
    return result


def draw(found: Mapping[str, Mapping[str, Usage]], path: Path) -> None:
    """Seconds and memory over pairs, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for axis, field, label in zip(axes, ("seconds", "anonymous_mb"), ("seconds", "megabytes, anonymous"), strict=True):
        for stage, by_size in found.items():
            axis.plot([int(pairs) for pairs in by_size], [getattr(one, field) for one in by_size.values()], "o-",
                      label=stage)
        axis.set(xscale="log", yscale="log", xlabel="sentence pairs", ylabel=label)
    axes[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=SIZES, help="sizes of the corpora")
    parser.add_argument("--corpus", type=Path, default=layout.CORPUS, help="folder of the corpus to recombine")
    parser.add_argument("--only", nargs="+", default=(), metavar="STAGE", help="report these stages; all run")
    parser.add_argument("--threads", type=int, default=usable_cores(), help="of the aligners")
    parser.add_argument("--vocabulary", type=int, help="instead of bpe.vocabulary of params.yaml")
    parser.add_argument("--work", type=Path, help="folder for the corpora, about 2 KB per pair; not in memory (tmpfs)")
    parser.add_argument("--output", type=Path, default=RESULTS / "scale.json")
    options = parser.parse_args(arguments)
    try:
        found = run(options.pairs, options.corpus.resolve(), options.only, options.threads, options.vocabulary,
                    options.work)
    except PipelineError as error:
        parser.exit(2, f"error: {error}\n")
    projected = projections(found)
    packages = ["numba", "numpy", "sentencepiece", *(["systran-align"] if "fast_align" in found else [])]
    write_json(options.output, {
        **about(packages), "threads": options.threads,
        "stages": {stage: {pairs: usage._asdict() for pairs, usage in by_size.items()}
                   for stage, by_size in found.items()},
        "projected": projected})
    if len(options.pairs) > 1:
        draw(found, options.output.with_suffix(".png"))
        print(table(["projected", *(f"{pairs:,}" for pairs in PROJECTED), "per million"], [
            [f"{stage}, {figure}", *(f"{law[str(pairs)]:,}" for pairs in PROJECTED), f"{law['per_million_pairs']:,}"]
            for stage, laws in projected.items() for figure, law in laws.items()]))


if __name__ == "__main__":
    main()
