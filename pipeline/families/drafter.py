"""The family of drafters: the next k tokens after a prefix, all at once (Ge et al. 2022, section 3.2.1).

A drafter has to predict its verifier's predictions, so by default these are its training targets: at each position not
the token of the reference, but the verifier's argmax after the tokens of the reference before it. The paper's targets
are the tokens of the reference (`drafting.labels: data`).
"""

from pathlib import Path
from typing import NamedTuple

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
from pipeline.families.glancing import glance
from pipeline.families.settings import Labels, OptimisationSettings, PrefixReading
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.drafter import DrafterTransformer, make_drafter
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.vocabulary import BOS, PAD


class VerifiedTargets(NamedTuple):
    """Targets in the verifier's order of generation, with T > N + 1 positions."""

    tokens: Tensor
    """(B, N), padded with PAD on the right."""
    inputs: Tensor
    """(B, T): a start symbol, the tokens, an end symbol and padding."""
    labels: Tensor
    """(B, T): what is to be predicted at the position of each input, after those before it: the verifier's prediction,
    or the input itself; PAD at the first position, which is not predicted, and after the end symbol."""


class Blocks(NamedTuple):
    """T predictions per sentence."""

    states: Tensor
    """(B, T, D) states of the predictions."""
    gold: Tensor
    """(B, T) training targets; PAD where there is none."""
    previous: Tensor
    """(B, T) tokens before the predicted ones."""


class DrafterModule(TranslationModule):
    """A drafter and its loss on blocks of tokens after prefixes, with glancing (Qian et al. 2021)."""

    watched = "validation_accepted"  # BLEU is the verifier's, whatever has been learnt
    network: DrafterTransformer

    def __init__(self, network: NetworkSettings, optimisation: OptimisationSettings, vocabulary: VocabularySettings,
                 verifier: str, block: int = 8, prefix: PrefixReading = "causal", chained: bool = True,
                 glancing: tuple[float, float] = (0.0, 0.0), labels: Labels = "verifier", stride: int = 3,
                 seed: int = 1) -> None:
        """Args:
            network: shape of the Transformer; with `encoder_layers` = 0 it reads the verifier's encoder.
            optimisation, vocabulary, seed: see `TranslationModule`.
            verifier: checkpoint folder of the model that verifies its drafts.
            block, prefix, chained, glancing, labels, stride: see `DraftingSettings`.
        """
        made = make_drafter(network, vocabulary.source, vocabulary.target, block, prefix, chained)
        made.attach_verifier(load_checkpoint(Path(verifier), vocabulary.digest)[0])
        super().__init__(made, optimisation, vocabulary, seed)
        self.glancing, self.labels, self.stride = glancing, labels, stride

    def loss(self, batch: Batch, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """The summed loss of the tokens that a batch predicts, and their number.

        In evaluation mode the prefixes depend only on `batch.rows`, so that validations can be compared, and no token
        is revealed.
        """
        states, gold, previous = (self._causal if self.network.prefix == "causal" else self._bidirectional)(batch)
        predicting = gold != PAD
        logits = self.network.draft_logits(states[predicting], previous[predicting])
        loss = F.cross_entropy(logits, gold[predicting], reduction="sum", label_smoothing=label_smoothing)
        return loss, predicting.sum()

    def search(self, source: Tensor, limit: LengthLimit) -> Hypotheses:
        return gad.search(open_engine(self.network), source, limit, gad.Settings())

    def _causal(self, batch: Batch) -> Blocks:
        """Every single token, and the blocks after every `stride`-th prefix."""
        N, device = batch.target.shape[1], batch.target.device
        first = int(torch.randint(self.stride, ())) if self.training else 0
        prefixes = torch.arange(min(first, N), N + 1, self.stride, device=device)
        places = self.network.predicted_words(N, prefixes)
        targets = self._verified(batch)
        gold, previous = targets.labels[:, places + 1], targets.inputs[:, places]

        def blocks(revealed: Tensor | None) -> Blocks:
            return Blocks(self.network.hidden_after(batch.source, targets.tokens, prefixes, revealed), gold, previous)

        share = self.at_this_step(*self.glancing)
        if not share:
            return blocks(None)
        # The mask at the position of token p + j precedes the state that predicts token p + j + 1.
        shape = len(prefixes), self.network.block - 1
        wrong = self._wrong(blocks(None))[:, N + 1:].unflatten(1, shape)
        inside = (places[N + 1:] <= batch.target_lengths.unsqueeze(1)).unflatten(1, shape)
        return blocks(glance(wrong.sum(2), inside, share))

    def _bidirectional(self, batch: Batch) -> Blocks:
        """One block of masks per sentence; revealed tokens are not predicted."""
        k, lengths = self.network.block, batch.target_lengths
        if self.training:
            prefixes = (torch.rand(len(lengths), device=lengths.device) * (lengths + 1)).long()
        else:
            seed = np.random.SeedSequence(batch.rows.tolist()).generate_state(len(lengths))
            prefixes = torch.from_numpy(seed.astype(np.int64)).to(lengths.device) % (lengths + 1)
        places = prefixes.unsqueeze(1) + torch.arange(k, device=lengths.device)
        targets = self._verified(batch)
        gold, previous = targets.labels.gather(1, places + 1), targets.inputs.gather(1, places)

        def states(revealed: Tensor | None) -> Tensor:
            return self.network.hidden_after(batch.source, targets.tokens, prefixes, revealed)

        share = self.at_this_step(*self.glancing)
        if not share:
            return Blocks(states(None), gold, previous)
        wrong = self._wrong(Blocks(states(None), gold, previous))
        revealed = glance(wrong.sum(1), places < lengths.unsqueeze(1), share)  # a prefix contains no end symbol
        return Blocks(states(revealed), gold.masked_fill(revealed, PAD), previous)

    @torch.no_grad()
    def _verified(self, batch: Batch) -> VerifiedTargets:
        verifier, room = self.network.verifier, self.network.block + 1
        arranged = verifier.order.arrange(batch.target, batch.target_lengths)
        labels = arranged
        if self.labels == "verifier":
            labels = verifier(batch.source, arranged).argmax(2).masked_fill(arranged == PAD, PAD)
        tokens = arranged[:, :-1].masked_fill(arranged[:, :-1] == verifier.order.end, PAD)
        return VerifiedTargets(tokens, F.pad(F.pad(arranged, (1, 0), value=BOS), (0, room), value=PAD),
                               F.pad(labels, (1, room), value=PAD))

    @torch.no_grad()
    def _wrong(self, blocks: Blocks) -> Tensor:
        """Which predictions differ from their training targets, (B, T).

        Their states are computed with gradients: without, `attend` would round otherwise.
        """
        predicted = self.network.draft_logits(blocks.states.flatten(0, 1), blocks.previous.flatten()).argmax(1)
        return (predicted.view_as(blocks.gold) != blocks.gold) & (blocks.gold != PAD)
