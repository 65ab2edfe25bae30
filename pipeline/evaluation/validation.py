"""A sample of the validation split on which settings and systems are compared before the test set is looked at."""

import numpy as np
import torch
from torch import Tensor

from pipeline import layout
from pipeline.bleu import make_bleu
from pipeline.corpus.batches import by_tokens
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Pairs
from pipeline.evaluation.clock import spread
from pipeline.evaluation.speed import Contestant
from pipeline.params import Params


class ValidationSample:
    """Validation sentences to score decoders on, and fewer of them to time."""

    def __init__(self, params: Params, tokenizer: Tokenizer, device: torch.device, sentences: int | None,
                 longest: int) -> None:
        """Args:
            params: of the folder that holds data/.
            tokenizer: of data/bpe.
            device: of the sentences.
            sentences: how many BLEU is measured on, None: all; `speed.sentences` of these are timed.
            longest: the most tokens per source that the models take.
        """
        pairs = Pairs.open(layout.BPE / "validation.pairs", tokenizer.digest)
        rows = spread(pairs.source_lengths, np.arange(len(pairs)), sentences or len(pairs))[::-1]
        timed = spread(pairs.source_lengths, np.array(rows), params.speed.sentences)
        self.sentences: list[Tensor] = [pad_sources([pairs.source(row)], longest).to(device) for row in timed]
        """(1, S) each, to be timed."""
        self._batches = [pad_sources([pairs.source(row) for row in rows[together]], longest).to(device)
                         for together in by_tokens(pairs.source_lengths[rows] + 1, params.evaluation.batch_tokens)]
        every = [layout.read_corpus(path) for path in layout.references("validation")]
        self._references = [[one[row] for row in rows] for one in every]
        self._tokenizer, self._bleu_tokenizer = tokenizer, params.evaluation.bleu_tokenizer

    @torch.inference_mode()
    def bleu(self, contestant: Contestant) -> float:
        """BLEU of a decoder's translations of all sentences of the sample."""
        texts: list[str] = []
        for batch in self._batches:
            texts += self._tokenizer.decode_targets(contestant.translate(batch).best_words())
        return float(make_bleu(self._bleu_tokenizer).corpus_score(texts, self._references).score)
