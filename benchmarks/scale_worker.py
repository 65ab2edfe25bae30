"""One piece of `benchmarks.scale` in a process of its own, in the folder of a run.

    python -m benchmarks.scale_worker PIECE

Pieces that are no command of the pipeline: `recombine` makes the corpus, `shards` stands in for a teacher whose
translations are the corpus's targets; `merge`, `fingerprint`, `epoch` and `sentencepiece` are measured.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pipeline import layout
from pipeline.lines import read_lines

SEED = 1
_CHUNK = 1 << 16


def recombine(folder: Path, pairs: int) -> None:
    """Write `raw.source` and `raw.target`: each pair is two random pairs of a corpus, joined on both sides."""
    sides = [list(read_lines(folder / f"train.{side}")) for side in ("source", "target")]
    random = np.random.default_rng(SEED)
    with (open("raw.source", "w", encoding="utf-8", newline="\n") as source,
          open("raw.target", "w", encoding="utf-8", newline="\n") as target):
        for start in range(0, pairs, _CHUNK):
            chosen = random.integers(len(sides[0]), size=(min(_CHUNK, pairs - start), 2)).tolist()
            for file, texts in zip((source, target), sides, strict=True):
                file.writelines(f"{texts[one]} {texts[other]}\n" for one, other in chosen)


def shards(rows: int = 4096) -> None:
    """Write shards as `distill` does."""
    from pipeline.corpus.pairs import Pairs
    from pipeline.distillation_shards import Shard

    pairs = Pairs.open(layout.TRAINING_SIDES["raw"])
    order = np.argsort(-pairs.source_lengths, kind="stable")
    Path("shards").mkdir()
    for number, start in enumerate(range(0, len(order), rows)):
        part = order[start:start + rows]
        targets = [pairs.target(int(row)) for row in part]
        Shard(part, np.ones(len(part), np.bool_), np.array([len(target) for target in targets], np.int32),
              np.concatenate(targets).astype(np.int32)).write(Path("shards") / f"shard-{number:06d}")


def merge() -> None:
    """Merge the shards into data/distilled."""
    from pipeline.corpus.bpe import Tokenizer
    from pipeline.corpus.pairs import Pairs
    from pipeline.distillation_inputs import Sources
    from pipeline.distillation_shards import merge_shards

    pairs = Pairs.open(layout.TRAINING_SIDES["raw"])
    merge_shards(sorted(Path("shards").iterdir()), Sources(pairs), Tokenizer.load(layout.BPE).target_size,
                 layout.DISTILLED)


def fingerprint() -> None:
    """Compute what every process of a training compares before it resumes."""
    from pipeline.fingerprint import digest_files

    digest_files(layout.TRAINING_SIDES.values())


def epoch() -> None:
    """Sort the pairs of one epoch, and draw its first batch."""
    from pipeline.corpus.batches import TrainingBatches
    from pipeline.corpus.datamodule import PairBatches
    from pipeline.corpus.pairs import Pairs

    data = PairBatches([Pairs.open(layout.TRAINING_SIDES["raw"])], 257)
    next(iter(TrainingBatches(data.target_lengths, data.source_lengths, budget=600, seed=1, steps=1)))


def sentencepiece(vocabulary: int) -> None:
    """Learn and encode by SentencePiece's own trainer, from the files, with its own defaults for memory."""
    import sentencepiece as library

    files = [str(layout.CORPUS / f"train.{side}") for side in ("source", "target")]
    library.SentencePieceTrainer.train(input=files, model_prefix="spm", model_type="bpe", vocab_size=vocabulary,
                                       character_coverage=1.0, minloglevel=2)
    processor = library.SentencePieceProcessor(model_file="spm.model")
    for file in files:
        with open(f"spm.{Path(file).suffix[1:]}", "w", encoding="utf-8") as out:
            for line in read_lines(Path(file)):
                out.write(" ".join(map(str, processor.encode(line))) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("piece")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--vocabulary", type=int)
    options = parser.parse_args(arguments)
    pieces: dict[str, Callable[[], None]] = {
        "recombine": lambda: recombine(options.corpus, options.pairs), "shards": shards, "merge": merge,
        "fingerprint": fingerprint, "epoch": epoch, "sentencepiece": lambda: sentencepiece(options.vocabulary)}
    pieces[options.piece]()


if __name__ == "__main__":
    main()
