"""Paths of a run's files, relative to the folder of its params.yaml. dvc.yaml declares the same paths."""

from itertools import count, takewhile
from pathlib import Path

from pipeline.checksums import check
from pipeline.files import reading

SPLITS = ("train", "validation", "test")
SYNTHETIC = "synthetic"
"""Training pairs made from the targets of train (`corpus.noise`), in the same folder as the splits."""
CORPUS = Path("data/corpus")
BPE = Path("data/bpe")
DISTILLED = Path("data/distilled")
ALIGNMENT = Path("data/alignment")
COUNTS = Path("data/counts")
TRAINING_SIDES = {"raw": BPE / "train.pairs", "distilled": DISTILLED / "train.pairs"}
"""Encoded training pairs: with the corpus's targets, and with the teacher's."""
HYPOTHESES = Path("data/hypotheses")
PEERS = Path("data/peers")
"""The baseline in the formats of other libraries."""
MODELS = Path("data/models")
"""The model folder of each system."""
PAGE = Path("data/page/index.html")
MACHINE = Path("data/machine.json")
INPUTS = Path("data/inputs.json")
TRAININGS = Path("data/trainings")
DECODERS = Path("data/decoders")
DISTILLATION = Path("data/distillation.json")
"""The facts that DVC cannot see by itself (`pipeline.commands.facts`) are in MACHINE, INPUTS, TRAININGS, DECODERS and
DISTILLATION."""
CHECKPOINTS = Path("checkpoints")
WORK = Path("checkpoints/.work")
"""Unfinished work that a killed run resumes from; never an output. Names there are of families or begin with a dot."""
REPORTS = Path("reports")
RUNS = Path("runs")
"""What is run with options of Lightning writes to a folder here, not over the pipeline's artifacts."""


def checkpoint(family: str) -> Path:
    """Folder of a family's final weights."""
    return CHECKPOINTS / family


def counts(side: str) -> Path:
    """File of the count model of a side: raw, distilled or both."""
    return COUNTS / f"{side}.safetensors"


def references(split: str = "test") -> list[Path]:
    """Files of a split's references, one sentence per line: `SPLIT.target`, then `SPLIT.target2`, … if they exist."""
    further = (CORPUS / f"{split}.target{number}" for number in count(2))
    return [CORPUS / f"{split}.target", *takewhile(Path.exists, further)]


def read_corpus(path: Path) -> list[str]:
    """Sentences of a corpus file, ended by line feeds alone: a sentence may contain what else separates lines.

    Raises:
        PipelineError: the file is absent, damaged or cannot be read.
    """
    check(path)
    with reading(path):
        return path.read_bytes().decode().split("\n")[:-1]
