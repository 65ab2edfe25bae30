"""The lattice scorer: a Transformer whose decoder sees one word of the past (Deng and Rush 2021, section 3).

One pass gives P(y_t | y_{t-1}, t, x) for all K x K pairs of neighbouring candidates. Nothing else of the past matters,
so every candidate at every position is a row of its own, and its self-attention has a single key.

Only the candidates' logits are computed, not those of the vocabulary. The log-sum over the vocabulary, which turns a
logit into a log-probability, is predicted from the hidden state by a linear map, the normaliser (self-normalisation,
Devlin et al. 2014).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from pipeline.count_model.model import CountModel
from pipeline.errors import PipelineError
from pipeline.model.drafter import check_verifier
from pipeline.model.layers import DecoderLayer
from pipeline.model.networks import rebuild
from pipeline.model.orders import make_order
from pipeline.model.quantised import linear
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.state import Memory
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, PAD

COUNTS = "counts.safetensors"
"""The count model in a checkpoint."""
_ROWS = 2048
"""Candidates that are scored together, as far as sentences are not split: more fall out of the processor's caches."""
_ROWS_OF_GPUS = 2**18
"""The same on other devices, whose memory limits them."""


class LatticeTransformer(Transformer):
    """Scores words given the word before them (in training up to two), their position and the source.

    Training calls `hidden_after` and `projection`; search calls `length`, `candidates`, `encode` and `edges`. The count
    model, which `length` and `candidates` read, is attached after construction, as is the verifier if lattices are
    drafts.
    """

    kind = "lattice"
    chooses_order = False
    verifier: Transformer | None
    """The ordered model that verifies drafts, which is not trained; None: lattices are no drafts."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(settings, source_vocabulary, target_vocabulary, make_order(OrderSettings("left_to_right")))
        self.normaliser = nn.Linear(settings.width, 1)
        nn.init.zeros_(self.normaliser.weight)
        nn.init.zeros_(self.normaliser.bias)
        self.verifier = None
        self._counts: CountModel | None = None
        self._single_key: list[nn.Linear] | None = None

    @property
    def counts(self) -> CountModel:
        """The count model that proposes candidates and lengths."""
        if self._counts is None:
            raise RuntimeError("the lattice has no count model; attach one")
        return self._counts

    def attach_counts(self, counts: CountModel) -> None:
        """Set the count model.

        Raises:
            PipelineError: it has other vocabularies than the network.
        """
        sizes, own = (len(counts.copies), counts.target_vocabulary), self.vocabularies
        if sizes != own:
            raise PipelineError(f"{counts.path}: counts {sizes[0]} source and {sizes[1]} target pieces, but the "
                                f"network has {own[0]} and {own[1]}; run `dvc repro` to produce both again")
        self._counts = counts
        self.clear_caches()  # copies that were opened or rounded have those before

    def attach_verifier(self, verifier: Transformer) -> None:
        """Set the model to draft for, which is not trained.

        Raises:
            PipelineError: it does not generate word by word from left to right, or has other vocabularies.
        """
        check_verifier(verifier, self.vocabularies)
        if verifier.order.name != self.order.name:
            raise PipelineError(f"verifier: it generates in the order {verifier.order.name}, but a lattice drafts from "
                                "left to right; choose a family of that order")
        self.verifier = verifier.requires_grad_(False).eval()
        self.clear_caches()

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
        self.attach_counts(CountModel.open(folder / COUNTS, digest))

    # Training.

    def hidden_after(self, source: Tensor, target: Tensor, visible: Tensor) -> Tensor:
        """Hidden states (B, N + 1, D) after the start symbol and after every word, which predict the next word.

        Args:
            source: (B, S) ids, right-padded with PAD.
            target: (B, N) words, right-padded with PAD.
            visible: (B, 1, N + 1, N + 1), true where a slot sees another.
        """
        inputs = torch.cat([self.start_symbols.expand(len(target), -1), target], 1)
        return self._decoder_states(inputs, visible, self._encoder_states(source))

    # Search.

    def length(self, source: Tensor) -> Tensor:
        """Predicted numbers of target words (B,) for padded ids (B, S); see `LengthRegression`."""
        predicted = self.counts.lengths.predict(_words(source).cpu().numpy())
        return torch.from_numpy(predicted).to(source.device).clamp(max=self.settings.max_length - 1)

    def candidates(self, source: Tensor, positions: int, k: int) -> tuple[Tensor, Tensor]:
        """At most k words for each of N positions and their log P(y | x, t), (B, N, k); see `CountModel.candidates`."""
        words, scores = self.counts.candidates(source.cpu().numpy(), _words(source).cpu().numpy(), positions, k)
        return torch.from_numpy(words).to(source.device), torch.from_numpy(scores).to(source.device)

    @torch.no_grad()
    def edges(self, memory: Memory, candidates: Tensor, exact: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """The log-probabilities of all steps between candidates (B, N, K), as far as the normaliser is right.

        Args:
            memory: of the sources.
            candidates: from `candidates`.
            exact: sum over the vocabulary instead of asking the normaliser.

        Returns:
            See `pipeline.decoding.protocol.LatticeModel.edges`.

        Raises:
            ValueError: the candidates are of more or fewer sentences than the encoder's states.
        """
        B, N, K = candidates.shape
        if len(memory.states) != B:
            raise ValueError(f"candidates of {B} sentences, but states of {len(memory.states)}")
        together = max(1, (_ROWS if candidates.device.type == "cpu" else _ROWS_OF_GPUS) // (1 + N * K))
        if together >= B:
            mask = () if memory.mask is None else (memory.mask,)
            scores: tuple[Tensor, Tensor, Tensor] = self._recorded(
                f"edges, exactly {exact}",
                lambda words, states, mask=None: self._edges(Memory(states, mask), words, exact),
                candidates, memory.states, *mask)
            return scores
        states, words = memory.states.split(together), candidates.split(together)
        masks = [None] * len(words) if memory.mask is None else memory.mask.split(together)
        parts = [self._edges(Memory(*source), some, exact) for *source, some in zip(states, masks, words, strict=True)]
        first, inner, end = (torch.cat(scores) for scores in zip(*parts, strict=True))
        return first, inner, end

    def _edges(self, memory: Memory, candidates: Tensor, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
        B, N, K = candidates.shape
        D, table = self.settings.width, self._position_tables().target
        words = torch.cat([candidates.new_full((B, 1), BOS), candidates.flatten(1)], 1)
        positions = torch.cat([table[:1], table[1:N + 1].repeat_interleave(K, 0)])
        x = self._embed(self.target_embedding, words, positions)
        x = self.decoder_norm(self._scored(x, memory)).view(-1, D)
        outputs = self.projection.weight
        if exact:
            offsets = torch.cat([(rows @ outputs.t()).logsumexp(1) for rows in x.split(_ROWS)])
        else:
            offsets = torch.addmm(self.normaliser.bias, x, self.normaliser.weight.t())
        x, offsets = x.view(B, 1 + N * K, D), offsets.view(B, 1 + N * K, 1)
        after, normaliser = x[:, 1:].view(B, N, K, D), offsets[:, 1:].view(B, N, K, 1)
        choices = outputs[candidates]
        first = (x[:, :1] @ choices[:, 0].mT - offsets[:, :1]).squeeze(1)
        inner = (after[:, :-1] @ choices[:, 1:].mT).sub_(normaliser[:, :-1])
        end = (after @ outputs[EOS]).sub_(normaliser.squeeze(3))
        return first, inner, end

    @torch.no_grad()
    def plain_scorer(self) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
        """The parameters that a scorer has and a decoder does not have, for the engine.

        Returns:
            For each layer, weight (D, D), (in, out), and bias (D,) of self-attention with one key; then weight (D,) and
            bias () of the normaliser.
        """
        return ([(own.weight.t(), own.bias) for own in self._single_keys()],
                (self.normaliser.weight[0], self.normaliser.bias[0]))

    def _scored(self, x: Tensor, memory: Memory) -> Tensor:
        """All layers over tokens (B, m, D) that see the source and themselves, but not each other."""
        layers = cast(Sequence[DecoderLayer], self.decoder)
        for layer, own, (keys, values) in zip(layers, self._single_keys(), self._source_keys_values(memory),
                                              strict=True):
            x = layer.around_self_attention.add(x, own)
            x = layer.after_self_attention(x, keys, values, memory.mask)
        return x

    def linear_maps(self) -> list[str]:
        """See `Transformer.linear_maps`.

        The projection's rows are gathered, and attention's matrices multiplied out per sentence: both stay exact.
        """
        return [name for name in super().linear_maps() if name != "projection" and "cross_attention" not in name]

    def _single_keys(self) -> list[nn.Linear]:
        """`SelfAttention.single_key` of each layer, computed once, until `clear_caches`."""
        if self._single_key is None:
            layers = cast(Sequence[DecoderLayer], self.decoder)
            self._single_key = [linear(*layer.self_attention.single_key(), rounded=self.quantised) for layer in layers]
        return self._single_key

    def clear_caches(self) -> None:
        super().clear_caches()
        self._single_key = None


def _words(source: Tensor) -> Tensor:
    """Numbers of words (B,) of sources, which are followed by an end symbol and padding."""
    return (source != PAD).sum(1) - 1
