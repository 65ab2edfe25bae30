"""The family of drafters: the next k tokens behind a prefix, all at once (Ge et al. 2022, section 3.2.1)."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.decoding import gad
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.families.base import TranslationModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.drafter import DrafterTransformer, make_drafter
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.vocabulary import EOS, PAD


class DrafterModule(TranslationModule):
    """A drafter and its loss on blocks of tokens behind prefixes, with glancing (Qian et al. 2021)."""

    network: DrafterTransformer

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 verifier: str, block: int = 10, prefix: Literal["causal", "bidirectional"] = "causal",
                 glancing: tuple[float, float] = (0.5, 0.3), stride: int = 3, seed: int = 1) -> None:
        """Args:
            network: shape of the Transformer; with `encoder_layers` = 0 it reads the verifier's encoder.
            optimisation, vocabulary, seed: see `TranslationModule`.
            verifier: checkpoint folder of the model that it drafts for.
            block: k, tokens of a block.
            prefix: how it reads its prefix.
            glancing: which share of the tokens that it gets wrong is shown to it, at the first and at the last step.
            stride: words from one prefix to the next (causal prefixes; the other drafter has one a sentence).
        """
        made = make_drafter(network, vocabulary.source, vocabulary.target, block, prefix)
        made.attach(load_checkpoint(Path(verifier), vocabulary.digest)[0])
        super().__init__(made, optimisation, vocabulary, seed)
        self.glancing, self.stride = glancing, stride

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of the tokens that a batch predicts, and their number.

        In evaluation mode the prefixes depend on `batch.rows` alone, so that validations can be compared, and nothing
        is shown.
        """
        if self.network.prefix == "causal":
            states, gold = self._causal(batch)
        else:
            states, gold = self._bidirectional(batch)
        predicting = gold != PAD
        logits = self.network.projection(states[predicting])
        loss = F.cross_entropy(logits, gold[predicting], reduction="sum", label_smoothing=label_smoothing)
        return loss, predicting.sum()

    def _causal(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """States behind every word and in blocks behind every `stride`-th prefix, and what they should predict."""
        N, device = batch.target.shape[1], batch.target.device
        first = int(torch.randint(self.stride, ())) if self.training else 0
        prefixes = torch.arange(min(first, N), N + 1, self.stride, device=device)
        gold = with_end(batch, N + 1 + self.network.block)[:, self.network.places(N, prefixes)]
        P, k = len(prefixes), self.network.block - 1

        def states(revealed: Tensor | None) -> Tensor:
            return self.network.hidden_behind(batch.source, batch.target, prefixes, revealed)

        share = self._share()
        if not share:
            return states(None), gold
        with torch.no_grad():
            found = self.network.projection(states(None)[:, N + 1:]).argmax(2)
        # The mask in the place of word p + j stands before the state that predicts word p + j + 1.
        wrong = ((found != gold[:, N + 1:]) & (gold[:, N + 1:] != PAD)).unflatten(1, (P, k)).sum(2)
        return states(glance(wrong, k, share)), gold

    def _bidirectional(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """States of one block of masks a sentence, and what they should predict; what was shown is not predicted."""
        k, lengths = self.network.block, batch.target_lengths
        if self.training:
            prefixes = (torch.rand(len(lengths), device=lengths.device) * (lengths + 1)).long()
        else:
            seed = np.random.SeedSequence(batch.rows.tolist()).generate_state(len(lengths))
            prefixes = torch.from_numpy(seed.astype(np.int64)).to(lengths.device) % (lengths + 1)
        blocks = prefixes.unsqueeze(1) + torch.arange(k, device=lengths.device)
        gold = with_end(batch, batch.target.shape[1] + k).gather(1, blocks)

        def states(revealed: Tensor | None) -> Tensor:
            return self.network.hidden_behind(batch.source, batch.target, prefixes, revealed)

        share = self._share()
        if not share:
            return states(None), gold
        with torch.no_grad():
            found = self.network.projection(states(None)).argmax(2)
        wrong = ((found != gold) & (gold != PAD)).sum(1)
        revealed = glance(wrong, k, share) & (gold != PAD)
        return states(revealed), gold.masked_fill(revealed, PAD)

    def _share(self) -> float:
        """The share of the wrong tokens that is shown at this step."""
        if not self.training:
            return 0.0
        first, last = self.glancing
        return first + (last - first) * self.trainer.global_step / max(1, self.trainer.max_steps)

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        return gad.search(self.network, source, limit, gad.Settings())


def with_end(batch: Batch, columns: int) -> Tensor:
    """The words of a batch with an end symbol behind each target, padded to (B, columns)."""
    wanted = F.pad(batch.target, (0, columns - batch.target.shape[1]), value=PAD)
    return wanted.scatter(1, batch.target_lengths.unsqueeze(1), EOS)


def glance(wrong: Tensor, places: int, share: float) -> Tensor:
    """Which places of blocks to show: of each block as many as `share` of what was `wrong` there, by chance.

    Args:
        wrong: (…) wrong predictions of each block.
        places: tokens of a block.
        share: of the wrong ones, 0 to 1.

    Returns:
        (…, places) booleans.
    """
    noise = torch.rand(*wrong.shape, places, device=wrong.device)
    rank = noise.argsort(-1).argsort(-1)
    return rank < (wrong * share).round().unsqueeze(-1)
