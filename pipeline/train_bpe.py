"""The `bpe` stage: learn the vocabulary on train, encode all splits, describe the result."""

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from pipeline.checksums import check, summed_folder
from pipeline.corpus.bpe import JOINT_MODELS, SEPARATE_MODELS, Tokenizer
from pipeline.corpus.pairs import IdArray, Pairs, write_pairs
from pipeline.corpus.settings import BpeSettings
from pipeline.errors import PipelineError
from pipeline.files import remove, write_json
from pipeline.layout import SPLITS, SYNTHETIC
from pipeline.lines import read_aligned, read_lines
from pipeline.vocabulary import BOS, EOS, PAD, SPECIALS, UNK

EncodedPair = tuple[list[int], list[int]]

_CHUNK = 8192  # sentences encoded, or tokens counted, at once
_HISTOGRAM_EDGES = (8, 16, 32, 64, 128)
_LONGEST = 4192
"""Bytes of a line, above which SentencePiece leaves it out without a message unless it is given another limit."""
_RESERVED = "\u2585"
"""What stands for an unknown character in SentencePiece, which leaves out lines that have it."""


def train_bpe(settings: BpeSettings, corpus: Path, out: Path, report: Path) -> None:
    """Learn a vocabulary from `corpus/train.*` and encode every split, and the synthetic pairs if there are any.

    The folder `out` is written atomically: `joint.model` or `source.model` and `target.model`, `meta.json`, and one
    file of pairs (`corpus.pairs`) per split. The JSON `report` has the sizes, tokens per sentence, the rate of unknown
    tokens and the number of pairs that are too long.

    Raises:
        PipelineError: the corpus is missing, or does not allow a vocabulary of this size.
    """
    splits = [*SPLITS, SYNTHETIC] if (corpus / f"{SYNTHETIC}.source").exists() else SPLITS
    for split in splits:
        for side in ("source", "target"):
            check(corpus / f"{split}.{side}")
    sides = [[corpus / "train.source", corpus / "train.target"]] if settings.joint else \
        [[corpus / "train.source"], [corpus / "train.target"]]
    names = JOINT_MODELS if settings.joint else SEPARATE_MODELS
    models = [learn_model(settings, files) for files in sides]
    tokenizer = Tokenizer(models, names)
    with summed_folder(out) as folder:
        for name, model in zip(names, models, strict=True):
            (folder / name).write_bytes(model)
        write_json(folder / "meta.json", {"joint": tokenizer.joint, "digest": tokenizer.digest,
                                          "source_size": tokenizer.source_size,
                                          "target_size": tokenizer.target_size})
        description: dict[str, Any] = {"source_vocabulary": tokenizer.source_size,
                                       "target_vocabulary": tokenizer.target_size}
        for split in splits:
            description[split] = _encode_split(settings, tokenizer, corpus, split, folder / f"{split}.pairs")
        remove(report)  # of the folder that is replaced now
    write_json(report, description)


def learn_model(settings: BpeSettings, files: Sequence[Path]) -> bytes:
    """Return a serialised SentencePiece model learned from the lines of some files.

    The trainer reads lines from an iterator, so that the model file contains no path of this machine. Of a corpus of
    more than `settings.sample` lines it reads every k-th: no random numbers anywhere. No line is too long for it.

    Raises:
        PipelineError: the vocabulary is larger (or smaller) than the text allows.
    """
    total = longest = 0
    for line in chain.from_iterable(map(read_lines, files)):
        total, longest = total + 1, max(longest, len(line.encode()))
    stride = max(1, -(-total // settings.sample))
    sample = islice(chain.from_iterable(map(read_lines, files)), 0, None, stride)
    lines = (line.replace(_RESERVED, " ") for line in sample)
    # The model file records a limit that is given: without need, the same vocabulary would have another digest.
    limit: dict[str, Any] = {"max_sentence_length": longest} if longest > _LONGEST else {}
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=model, model_type="bpe", vocab_size=settings.vocabulary,
            character_coverage=settings.character_coverage, normalization_rule_name="identity",
            pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS, pad_piece=SPECIALS[PAD],
            unk_piece=SPECIALS[UNK], bos_piece=SPECIALS[BOS], eos_piece=SPECIALS[EOS],
            control_symbols=list(SPECIALS[EOS + 1:]), unk_surface="⁇", num_threads=1, minloglevel=2, **limit)
    except RuntimeError as error:
        raise PipelineError(_explain(error, settings.vocabulary, files[0])) from None
    return model.getvalue()


def _explain(error: RuntimeError, vocabulary: int, file: Path) -> str:
    """Turn SentencePiece's error about the vocabulary size into one line with the remedy."""
    reason = " ".join(str(error).split())
    if largest := re.search(r"value <= (\d+)", reason):
        return (f"{file}: this corpus allows a vocabulary of at most {largest[1]}, not {vocabulary}; "
                f"set bpe.vocabulary to {largest[1]} or less")
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
        return (f"{file}: a vocabulary of {vocabulary} has no room for the corpus's characters; set "
                f"bpe.vocabulary to {smallest[1]} or more, or lower bpe.character_coverage")
    return f"{file}: SentencePiece cannot learn a vocabulary of {vocabulary} ({reason})"


def _encode_split(settings: BpeSettings, tokenizer: Tokenizer, corpus: Path, split: str,
                  out: Path) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    limit = settings.max_length if split in ("train", SYNTHETIC) else None

    def encoded() -> Iterator[EncodedPair]:
        for pair in _encode(tokenizer, read_aligned(corpus / f"{split}.source", corpus / f"{split}.target",
                                                     progress=split == "train")):
            if limit is not None and max(map(len, pair)) > limit:
                counts["too_long"] += 1
            else:
                yield pair

    kept = write_pairs(out, encoded(), max(tokenizer.source_size, tokenizer.target_size), tokenizer.digest)
    if not kept:
        raise PipelineError(f"{corpus / split}.source: no pair is left ({counts['too_long']} have more than "
                            f"bpe.max_length {settings.max_length} pieces); raise it")
    pairs = Pairs.open(out, tokenizer.digest)
    (source_ids, _), (target_ids, _) = pairs.sides()
    return {"pairs": kept, "too_long": counts["too_long"], "source": _describe(pairs.source_lengths, source_ids),
            "target": _describe(pairs.target_lengths, target_ids)}


def _encode(tokenizer: Tokenizer, pairs: Iterator[tuple[str, str]]) -> Iterator[EncodedPair]:
    while chunk := list(islice(pairs, _CHUNK)):
        sources, targets = (list(side) for side in zip(*chunk, strict=True))
        yield from zip(tokenizer.encode_source(sources), tokenizer.encode_target(targets), strict=True)


def _describe(lengths: NDArray[np.int32], ids: IdArray) -> dict[str, Any]:
    """Summarise the lengths, in tokens per sentence, and the unknown tokens of one side of a split."""
    tokens = len(ids)
    unknown = sum(int(np.count_nonzero(ids[start:start + _CHUNK] == UNK)) for start in range(0, tokens, _CHUNK))
    median, p95, p99 = np.percentile(lengths, [50, 95, 99]).tolist()
    edges = [0, *(edge + 1 for edge in _HISTOGRAM_EDGES), np.iinfo(np.int32).max]
    bars, _ = np.histogram(lengths, bins=edges)
    labels = [*(f"{low}-{high - 1}" for low, high in pairwise(edges[:-1])), f"{edges[-2]}+"]
    return {"tokens": tokens, "mean": round(tokens / len(lengths), 2), "median": round(median, 1),
            "p95": round(p95, 1), "p99": round(p99, 1), "max": int(lengths.max()),
            "unknown_rate": round(unknown / max(1, tokens), 6),
            "histogram": dict(zip(labels, bars.tolist(), strict=True))}
