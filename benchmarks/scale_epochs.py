"""What an epoch of training and one of distillation take per million target tokens, for `benchmarks.scale`.

    python -m benchmarks.scale_epochs          # in the folder of a finished default run

The teacher of the default run is trained for some steps and translates some sentences of the training corpus, each as
the pipeline's own command in a folder of its own, and then more of them: the difference is free of what a process takes
to begin and to end. The result is added to the report of `benchmarks.scale`, with what the tokens of larger corpora
would take, at as many target tokens per pair as the default corpus has.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.clock import RESULTS, about, argument_parser, table
from benchmarks.scale import PROJECTED, ROOT, Usage, measure
from pipeline import layout
from pipeline.errors import PipelineError
from pipeline.files import read_json, write_json
from pipeline.params import load_params
from pipeline.strict_yaml import read_yaml
from pipeline.systems import TEACHER

STEPS = (20, 120)
SENTENCES = (64, 1088)
"""Of the shorter and of the longer run."""


def train(folder: Path, environment: Mapping[str, str], steps: int) -> tuple[Usage, int]:
    """Train the teacher for some steps; return what it took, and the target tokens that it saw."""
    from pipeline.corpus.batches import TrainingBatches
    from pipeline.corpus.datamodule import PairBatches
    from pipeline.corpus.pairs import Pairs

    usage = measure(["pipeline", "fit", "--family", TEACHER, "--trainer.max_steps", str(steps)], folder, environment)
    params = load_params(folder / "params.yaml")
    family = params.family(TEACHER)
    data = PairBatches([Pairs.open(folder / layout.TRAINING_SIDES["raw"])], family.network.max_length)
    batches = TrainingBatches(data.target_lengths, data.source_lengths, budget=family.data.batch_tokens,
                              seed=params.seed, steps=steps)
    return usage, sum(int(data.target_lengths[one.rows].sum()) for one in islice(iter(batches), steps))


def distill(folder: Path, environment: Mapping[str, str], sentences: int) -> tuple[Usage, int]:
    """Let the teacher translate the first sentences; return what it took, and the target tokens that it wrote."""
    params = read_yaml(ROOT / "params.yaml")
    params["distillation"]["sentences"] = sentences
    (folder / "params.yaml").write_text(json.dumps(params), encoding="utf-8")  # JSON is YAML
    usage = measure(["pipeline", "distill", "--devices", "1", "--accelerator", "cpu"], folder, environment)
    return usage, int(read_json(folder / layout.REPORTS / "distilled.json")["tokens"])


def rate(run: Callable[[int], tuple[Usage, int]], sizes: tuple[int, int]) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of a million target tokens, from two runs."""
    (short, few), (long, many) = (run(size) for size in sizes)
    millions = (many - few) / 1e6
    return {"seconds": round((long.seconds - short.seconds) / millions, 1),
            "processor_seconds": round((long.processor_seconds - short.processor_seconds) / millions, 1),
            "anonymous_mb": long.anonymous_mb, "tokens": many - few}


def epochs(run: Path, work: Path | None, threads: int) -> dict[str, Any]:
    """Measure both in a copy of what they read of a finished run.

    Raises:
        PipelineError: the run lacks something, or a command fails.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
    folder = Path(tempfile.mkdtemp(prefix="scale-epochs-", dir=work))
    try:
        for part in (layout.CORPUS, layout.BPE, layout.checkpoint(TEACHER)):
            if not (run / part).is_dir():
                raise PipelineError(f"{run / part}: not there; run `make repro` first, or name its folder with --run")
            shutil.copytree(run / part, folder / part)
        shutil.copy(ROOT / "params.yaml", folder)
        found = {"training": rate(lambda steps: train(folder, environment, steps), STEPS),
                 "distillation": rate(lambda sentences: distill(folder, environment, sentences), SENTENCES)}
        described = read_json(run / layout.REPORTS / "bpe.json")["train"]
        per_pair = described["target"]["tokens"] / described["pairs"] + 1  # and the end symbol
    finally:
        shutil.rmtree(folder)
    return {**about(["pytorch-lightning", "torch"]), "threads": threads, "tokens_per_pair": round(per_pair, 2),
            "epochs": {name: one | {"processor_days": {
                str(pairs): round(one["processor_seconds"] * per_pair * pairs / 1e6 / 86_400, 2)
                for pairs in PROJECTED}} for name, one in found.items()}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--run", type=Path, default=Path(), help="folder of a finished default run")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--output", type=Path, default=RESULTS / "scale.json")
    options = parser.parse_args(arguments)
    try:
        found = epochs(options.run, options.work, options.threads)
    except PipelineError as error:
        parser.exit(2, f"error: {error}\n")
    report = read_json(options.output) if options.output.exists() else {}
    write_json(options.output, report | {"epochs": found})
    print(table(["a million target tokens", "processor s", "MB", *(f"days, {pairs:,} pairs" for pairs in PROJECTED)], [
        [name, f"{one['processor_seconds']:,}", f"{one['anonymous_mb']:,}",
         *(f"{one['processor_days'][str(pairs)]:,}" for pairs in PROJECTED)]
        for name, one in found["epochs"].items()]))


if __name__ == "__main__":
    main()
