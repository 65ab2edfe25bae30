"""The lattice scorer: a Transformer whose decoder sees one word of the past (sequence-to-lattice, section 3).

P(y_t | y_{t-1}, t, x) of all K x K pairs of neighbouring candidates comes from one pass: it depends on nothing else of
the past, so every candidate at every position is a row of its own, whose self-attention has a single key.

The logits of the candidates alone are computed, never those of the vocabulary. What would turn a logit into a
log-probability, the logarithm of the sum over the vocabulary, is predicted from the hidden state by a linear map, the
normaliser, which training holds close to it (self-normalisation, Devlin et al. 2014).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.count_model.model import CountModel
from pipeline.errors import PipelineError
from pipeline.model.drafter import check_verifier
from pipeline.model.layers import DecoderLayer
from pipeline.model.networks import rebuild
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.state import Memory
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, PAD

COUNTS = "counts.safetensors"
"""The count model in a checkpoint, which is all that is needed to translate."""
_ROWS = 2048
"""Candidates that are scored together, sentences whole: more fall out of the cache."""


class LatticeTransformer(Transformer):
    """Scores words given the word before them (in training up to two), their position and the source.

    Its `decoder_layers` are the scorer's. Training calls `hidden_behind` and `projection`; search calls `length`,
    `candidates`, `encode` and `edges`. The count model, which the first two of these ask, is attached after the
    network is made, and so is a verifier, where candidates shall be drafts.
    """

    kind = "lattice"
    chooses_order = False
    verifier: Transformer | None
    """The ordered model that translates where the lattice only drafts; it is not trained."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(settings, source_vocabulary, target_vocabulary, make_order(OrderSettings("left_to_right")))
        self.normaliser = nn.Linear(settings.width, 1)
        nn.init.zeros_(self.normaliser.weight)
        nn.init.zeros_(self.normaliser.bias)
        self.verifier = None
        self._counts: CountModel | None = None
        self._single_key: list[tuple[Tensor, Tensor]] | None = None

    @property
    def counts(self) -> CountModel:
        """The count model that proposes candidates and lengths."""
        if self._counts is None:
            raise RuntimeError("the lattice has no count model; attach one")
        return self._counts

    def attach(self, counts: CountModel) -> None:
        """Take the count model to propose candidates by.

        Raises:
            PipelineError: it is of other vocabularies than the network.
        """
        sizes = len(counts.copies), counts.target_vocabulary
        own = self.source_embedding.num_embeddings, self.projection.out_features
        if sizes != own:
            raise PipelineError(f"{counts.path}: counts {sizes[0]} source and {sizes[1]} target pieces, but the "
                                f"network has {own[0]} and {own[1]}; run `dvc repro` to produce both again")
        self._counts = counts

    def attach_verifier(self, verifier: Transformer) -> None:
        """Take the model to draft for; it is not trained.

        Raises:
            PipelineError: it does not generate word by word from left to right, as candidates are counted, or has other
                vocabularies.
        """
        check_verifier(verifier, (self.source_embedding.num_embeddings, self.projection.out_features), None)
        if verifier.order.name != self.order.name:
            raise PipelineError(f"verifier: it generates in the order {verifier.order.name}, but a lattice drafts from "
                                "left to right; choose a family of that order")
        self.verifier = verifier.requires_grad_(False).eval()

    def architecture(self) -> dict[str, Any]:
        described = super().architecture()
        return described if self.verifier is None else {**described, "verifier": self.verifier.architecture()}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], vocabulary: VocabularySettings) -> "LatticeTransformer":
        network = cast(LatticeTransformer, super().rebuild(described, vocabulary))
        if "verifier" in described:
            network.attach_verifier(cast(Transformer, rebuild(described["verifier"], vocabulary)))
        return network

    def save_tables(self, folder: Path) -> None:
        self.counts.save(folder / COUNTS)

    def load_tables(self, folder: Path, digest: str) -> None:
        attach_counts(self, folder / COUNTS, digest)

    def train(self, mode: bool = True) -> "LatticeTransformer":
        super().train(mode)
        if self.verifier is not None:
            self.verifier.eval()  # it is read, not trained: no dropout
        return self

    # Training.

    def hidden_behind(self, source: Tensor, target: Tensor, visible: Tensor) -> Tensor:
        """Hidden states behind the start symbol and behind every word: what predicts the next one.

        Args:
            source: (B, S) ids, padded with PAD behind.
            target: (B, N) words, padded with PAD behind.
            visible: (B, 1, N + 1, N + 1), true where a slot may see another.

        Returns:
            (B, N + 1, D).
        """
        inputs = torch.cat([self.start_symbols.expand(len(target), -1), target], 1)
        return self._decoder_states(inputs, visible, self._encoder_states(source))

    # Search.

    def length(self, source: Tensor) -> Tensor:
        """(B,) predicted words of the translations of (B, S) padded ids; see `LengthRegression`."""
        predicted = self.counts.lengths.predict(_words(source).cpu().numpy())
        return torch.from_numpy(predicted).to(source.device).clamp(max=self.settings.max_length - 1)

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        """At most k words for each of N positions and their log P(y | x, t), (B, N, k); see `CountModel.candidates`."""
        words, scores = self.counts.candidates(source.cpu().numpy(), _words(source).cpu().numpy(), positions, k)
        return torch.from_numpy(words).to(source.device), torch.from_numpy(scores).to(source.device)

    @torch.no_grad()
    def edges(self, memory: Memory, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log-probabilities of all steps between candidates, as far as the normaliser is right.

        Args:
            memory: of B sources.
            candidates: (B, N, K) words.

        Returns:
            Of starting with candidate i, (B, K); of candidate j of position t + 1 behind candidate i of position t,
            (B, N - 1, K, K); of the end symbol behind candidate i of position t, (B, N, K).
        """
        B, N, K = candidates.shape
        together = max(1, _ROWS // (1 + N * K))
        if len(candidates) <= together:
            return self._edges(memory, candidates)
        parts = []
        for first in range(0, B, together):
            some = slice(first, first + together)
            mask = None if memory.mask is None else memory.mask[some]
            parts.append(self._edges(Memory(memory.states[some], mask), candidates[some]))
        first_steps, inner, end = (torch.cat(scores) for scores in zip(*parts, strict=True))
        return first_steps, inner, end

    def _edges(self, memory: Memory, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B, N, K = candidates.shape
        D, table = self.settings.width, self._position_tables().target
        words = torch.cat([candidates.new_full((B, 1), BOS), candidates.flatten(1)], 1)
        positions = torch.cat([table[:1], table[1:N + 1].repeat_interleave(K, 0)])
        x = self._embed(self.target_embedding, words, positions)
        x = self.decoder_norm(self._scored(x, memory)).view(-1, D)
        offsets = torch.addmm(self.normaliser.bias, x, self.normaliser.weight.t()).view(B, 1 + N * K, 1)
        x = x.view(B, 1 + N * K, D)
        outputs = self.projection.weight
        behind, below = x[:, 1:].view(B, N, K, D), offsets[:, 1:].view(B, N, K, 1)
        choices = outputs[candidates]
        first = (x[:, :1] @ choices[:, 0].mT - offsets[:, :1]).squeeze(1)
        inner = (behind[:, :-1] @ choices[:, 1:].mT).sub_(below[:, :-1])
        end = (behind @ outputs[EOS]).sub_(below.squeeze(3))
        return first, inner, end

    @torch.no_grad()
    def plain_scorer(self) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
        """What a scorer has that a decoder has not, for the engine.

        Returns:
            Of each layer weight (D, D), (in, out), and bias (D,) of self-attention with one key; and of the normaliser
            weight (D,) and bias ().
        """
        return ([(weight.t(), bias) for weight, bias in self._single_keys()],
                (self.normaliser.weight[0], self.normaliser.bias[0]))

    def _scored(self, x: Tensor, memory: Memory) -> Tensor:
        """All layers over tokens (B, m, D) that see the source and themselves, but not each other."""
        layers = cast(Sequence[DecoderLayer], self.decoder)
        for layer, own, (keys, values) in zip(layers, self._single_keys(), self._source_keys_values(memory),
                                              strict=True):
            around = layer.around_self_attention
            x = layer.after_self_attention(around.after(x, F.linear(around.before(x), *own)), keys, values, memory.mask)
        return x

    def _single_keys(self) -> list[tuple[Tensor, Tensor]]:
        """Of each layer `SelfAttention.single_key`, computed once."""
        if self._single_key is None:
            layers = cast(Sequence[DecoderLayer], self.decoder)
            self._single_key = [layer.self_attention.single_key() for layer in layers]
        return self._single_key

    def regather(self) -> None:
        super().regather()
        self._single_key = None


def _words(source: Tensor) -> Tensor:
    """(B,) words of sources, which have an end symbol and then padding behind them."""
    return (source != PAD).sum(1) - 1


def attach_counts(network: LatticeTransformer, path: Path, digest: str | None) -> None:
    """Map a count model and attach it; see `CountModel.open` and `LatticeTransformer.attach` for the errors."""
    network.attach(CountModel.open(path, digest))
