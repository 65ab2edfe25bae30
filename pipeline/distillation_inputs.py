"""What distillation uses apart from its teacher: the sources, and a length penalty chosen on validation."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import layout
from pipeline.corpus.batches import by_tokens
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import IdArray, Pairs, write_pairs
from pipeline.decoding.settings import Decoder
from pipeline.fingerprint import code_digest
from pipeline.model.transformer import Transformer
from pipeline.params import DistillationSettings, Params
from pipeline.sources.inputs import describe_inputs
from pipeline.sources.monolingual import read_monolingual
from pipeline.training.metrics import CorpusBleu

_CHUNK = 8192  # sentences encoded at once


class Sources:
    """The sources of a corpus, and further ones, whose rows follow."""

    def __init__(self, pairs: Pairs, first: int | None = None, extra: Pairs | None = None) -> None:
        """Args:
            pairs: of the corpus.
            first: the number of its sources, from the first; None: all.
            extra: of which the sources are the further ones; None: there are none.
        """
        self.pairs, self.corpus = pairs, min(len(pairs), first or len(pairs))
        self._extra = pairs if extra is None else extra
        further = np.arange(0 if extra is None else len(extra))
        self.rows = np.concatenate([np.arange(self.corpus), len(pairs) + further])
        """(N,) of all sources."""
        self.lengths = np.concatenate([pairs.source_lengths[:self.corpus], self._extra.source_lengths[further]])
        """(N,) pieces of each."""

    def __getitem__(self, row: int) -> IdArray:
        """The ids of the source of a row."""
        return self.pairs.source(row) if row < len(self.pairs) else self._extra.source(row - len(self.pairs))


def describe_extra_sources(params: Params) -> dict[str, Any]:
    """All on which the extra sources depend, other than the corpus that was built: settings, the user's files, code."""
    return {"settings": asdict(params.corpus), "files": describe_inputs(params.corpus),
            "code": code_digest("lines.py", "sources/**/*.py")}


def write_extra_sources(params: Params, tokenizer: Tokenizer, path: Path) -> None:
    """Write the sources that the corpus has without translations as pairs whose targets are empty.

    Those of more than `bpe.max_length` pieces are left out.

    Raises:
        PipelineError: the source of the corpus cannot be read.
    """
    texts = read_monolingual(params.corpus, layout.CORPUS)

    def encoded() -> Iterator[tuple[list[int], list[int]]]:
        while chunk := list(islice(texts, _CHUNK)):
            yield from ((ids, []) for ids in tokenizer.encode_source(chunk) if len(ids) <= params.bpe.max_length)

    write_pairs(path, encoded(), tokenizer.source_size, tokenizer.digest)


def choose_penalty(settings: DistillationSettings, teacher: Transformer, tokenizer: Tokenizer,
                   make: Callable[[float], Decoder], bleu_tokenizer: str) -> dict[str, Any]:
    """The exponent of the length penalty under which the teacher's validation BLEU is best; one process finds it.

    Args:
        settings: the exponents to choose from, and the number of validation sentences.
        teacher: to search, on its device.
        tokenizer: of the data.
        make: makes the decoder with an exponent.
        bleu_tokenizer: the evaluation's.

    Returns:
        `alpha`, of several equally good ones the first, and `validation`: for each exponent BLEU, and `length_ratio`,
        the tokens of the translations over those of the references.
    """
    pairs = Pairs.open(layout.BPE / "validation.pairs", tokenizer.digest)
    references = layout.read_corpus(layout.CORPUS / "validation.target")[:settings.validation_sentences]
    rows = sorted(range(len(references)), key=lambda row: -int(pairs.source_lengths[row]))
    found = dict[float, dict[str, float]]()
    for alpha in settings.length_penalty:
        decode, bleu, tokens = make(alpha), CorpusBleu(bleu_tokenizer, of_all_devices=False), 0
        for batch in map(rows.__getitem__, by_tokens(pairs.source_lengths[rows], settings.batch_tokens)):
            source = pad_sources([pairs.source(row) for row in batch], teacher.settings.max_length)
            words = decode(teacher, source.to(teacher.projection.weight.device)).best_words()
            bleu.update(tokenizer.decode_targets(words), [references[row] for row in batch])
            tokens += sum(map(len, words))
        found[alpha] = {"bleu": round(float(bleu.compute()), 2),
                        "length_ratio": round(tokens / int(pairs.target_lengths[:len(rows)].sum()), 4)}
    best = max(found, key=lambda alpha: found[alpha]["bleu"])
    return {"alpha": best, "validation": {str(alpha): one for alpha, one in found.items()}}
