"""The family of drafters: the next k tokens behind a prefix, all at once (Ge et al. 2022, section 3.2.1).

A drafter is to say what its verifier will say, so that is what it learns: not the target's word at a place, but the
word that the verifier prefers behind the target's words before it.
"""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.decoding import gad
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import open_engine
from pipeline.families.base import TranslationModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.drafter import DrafterTransformer, make_drafter
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.vocabulary import BOS, PAD


class Line(NamedTuple):
    """Targets in the verifier's order of generation, with T > N + 1 places."""

    words: Tensor
    """(B, N), PAD behind."""
    inputs: Tensor
    """(B, T): a start symbol, the words, an end symbol and padding."""
    said: Tensor
    """(B, T): what the verifier says in the place of each input behind those before it; PAD in the first place, of
    which there is nothing to say, and behind the end symbol."""


class Blocks(NamedTuple):
    """T predictions a sentence."""

    states: Tensor
    """(B, T, D)."""
    gold: Tensor
    """(B, T), what each should predict, PAD where nothing: the verifier's words."""
    previous: Tensor
    """(B, T), the token before it."""


class DrafterModule(TranslationModule):
    """A drafter and its loss on blocks of tokens behind prefixes, with glancing (Qian et al. 2021)."""

    network: DrafterTransformer

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 verifier: str, block: int = 8, prefix: Literal["causal", "bidirectional"] = "causal",
                 chained: bool = True, glancing: tuple[float, float] = (0.0, 0.0), stride: int = 3,
                 seed: int = 1) -> None:
        """Args:
            network: shape of the Transformer; with `encoder_layers` = 0 it reads the verifier's encoder.
            optimisation, vocabulary, seed: see `TranslationModule`.
            verifier: checkpoint folder of the model that it drafts for.
            block: k, tokens of a block.
            prefix: how it reads its prefix.
            chained: whether a drafted token sees the one before it.
            glancing: which share of the tokens that it gets wrong is shown to it, at the first and at the last step.
            stride: words from one prefix to the next (causal prefixes; the other drafter has one a sentence).
        """
        made = make_drafter(network, vocabulary.source, vocabulary.target, block, prefix, chained)
        made.attach_verifier(load_checkpoint(Path(verifier), vocabulary.digest)[0])
        super().__init__(made, optimisation, vocabulary, seed)
        self.glancing, self.stride = glancing, stride

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of the tokens that a batch predicts, and their number.

        In evaluation mode the prefixes depend on `batch.rows` alone, so that validations can be compared, and nothing
        is shown.
        """
        blocks = self._causal(batch) if self.network.prefix == "causal" else self._bidirectional(batch)
        states, gold, previous = blocks
        predicting = gold != PAD
        logits = self.network.draft_logits(states[predicting], previous[predicting])
        loss = F.cross_entropy(logits, gold[predicting], reduction="sum", label_smoothing=label_smoothing)
        return loss, predicting.sum()

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        return gad.search(open_engine(self.network), source, limit, gad.Settings())

    def _causal(self, batch: Batch) -> Blocks:
        """Every word, and blocks behind every `stride`-th prefix."""
        N, device = batch.target.shape[1], batch.target.device
        first = int(torch.randint(self.stride, ())) if self.training else 0
        prefixes = torch.arange(min(first, N), N + 1, self.stride, device=device)
        places = self.network.predicted_words(N, prefixes)
        line = self._line(batch)
        gold, previous = line.said[:, places + 1], line.inputs[:, places]

        def blocks(revealed: Tensor | None) -> Blocks:
            return Blocks(self.network.hidden_after(batch.source, line.words, prefixes, revealed), gold, previous)

        share = self._share()
        if not share:
            return blocks(None)
        # The mask in the place of word p + j stands before the state that predicts word p + j + 1.
        wrong = self._wrong(blocks(None))[:, N + 1:].unflatten(1, (len(prefixes), self.network.block - 1))
        return blocks(glance(wrong.sum(2), wrong.shape[2], share))

    def _bidirectional(self, batch: Batch) -> Blocks:
        """One block of masks a sentence; what was shown is not predicted."""
        k, lengths = self.network.block, batch.target_lengths
        if self.training:
            prefixes = (torch.rand(len(lengths), device=lengths.device) * (lengths + 1)).long()
        else:
            seed = np.random.SeedSequence(batch.rows.tolist()).generate_state(len(lengths))
            prefixes = torch.from_numpy(seed.astype(np.int64)).to(lengths.device) % (lengths + 1)
        places = prefixes.unsqueeze(1) + torch.arange(k, device=lengths.device)
        line = self._line(batch)
        gold, previous = line.said.gather(1, places + 1), line.inputs.gather(1, places)

        def states(revealed: Tensor | None) -> Tensor:
            return self.network.hidden_after(batch.source, line.words, prefixes, revealed)

        share = self._share()
        if not share:
            return Blocks(states(None), gold, previous)
        wrong = self._wrong(Blocks(states(None), gold, previous))
        inside = prefixes.unsqueeze(1) + torch.arange(k, device=lengths.device) < lengths.unsqueeze(1)
        revealed = glance(wrong.sum(1), k, share) & inside  # a prefix never holds an end symbol
        return Blocks(states(revealed), gold.masked_fill(revealed, PAD), previous)

    @torch.no_grad()
    def _line(self, batch: Batch) -> Line:
        verifier, room = self.network.verifier, self.network.block + 1
        arranged = verifier.order.arrange(batch.target, batch.target_lengths)
        said = verifier(batch.source, arranged).argmax(2).masked_fill(arranged == PAD, PAD)
        words = arranged[:, :-1].masked_fill(arranged[:, :-1] == verifier.order.end, PAD)
        return Line(words, F.pad(F.pad(arranged, (1, 0), value=BOS), (0, room), value=PAD),
                    F.pad(said, (1, room), value=PAD))

    @torch.no_grad()
    def _wrong(self, blocks: Blocks) -> Tensor:
        """Which tokens are not predicted as they should be, (B, T)."""
        found = self.network.draft_logits(blocks.states.flatten(0, 1), blocks.previous.flatten()).argmax(1)
        return (found.view_as(blocks.gold) != blocks.gold) & (blocks.gold != PAD)

    def _share(self) -> float:
        """The share of the wrong tokens that is shown at this step."""
        if not self.training:
            return 0.0
        first, last = self.glancing
        return first + (last - first) * self.trainer.global_step / max(1, self.trainer.max_steps)


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
