"""Networks that draft the next k tokens after a prefix at once (Ge et al. 2022, section 3.2.1).

The checkpoint of a drafter also holds the verifier that it drafts for. A drafter without encoder layers reads the
verifier's encoded source, so a sentence is encoded once (in Table 15 of the paper two encoders take 16 % of the time).
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.engine.plain import PlainWeights
from pipeline.engine.waiting import on_device
from pipeline.errors import PipelineError
from pipeline.model.chained import ChainedTransformer
from pipeline.model.networks import rebuild
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.state import Ints, Memory, State
from pipeline.model.top import best
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, MASK, PAD


class DrafterTransformer(ChainedTransformer):
    """A drafter whose prefix is causal, so that its states are kept.

    Every token of the prefix predicts the next one, as in any autoregressive model, and so does a MASK in place of an
    unknown token: the last token of the prefix and k - 1 masks predict the next k tokens. A mask sees the prefix and
    the masks before it. A draft therefore reads k - 1 masks and the tokens accepted since the last draft; the paper's
    drafter reads its prefix again (`BidirectionalDrafter`).
    """

    kind = "drafter"
    chooses_order = False
    choices = ("block", "chained")
    prefix = "causal"
    verifier: Transformer
    """Set by `attach_verifier`."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, block: int,
                 chained: bool) -> None:
        """Like `ChainedTransformer`; with `encoder_layers` = 0 it reads the verifier's encoder.

        The block is k, the number of tokens that it is trained to draft at once.
        """
        order = make_order(OrderSettings("left_to_right"))
        super().__init__(settings, source_vocabulary, target_vocabulary, order, chained)
        self.block = block
        if not settings.encoder_layers:
            self.encoder_norm = nn.Identity()
            if settings.tied_embeddings != "all":
                del self.source_embedding

    def architecture(self) -> dict[str, Any]:
        return {**super().architecture(), "prefix": self.prefix, "verifier": self.verifier.architecture()}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], vocabulary: VocabularySettings) -> "DrafterTransformer":
        network = make_drafter(NetworkSettings(**described["network"]), vocabulary.source, vocabulary.target,
                               described["block"], described["prefix"], described["chained"])
        network.attach_verifier(cast(Transformer, rebuild(described["verifier"], vocabulary)))
        return network

    # Training: many prefixes of a target at once.

    def hidden_after(self, source: Tensor, target: Tensor, prefixes: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Hidden states that predict every token, and those of blocks of masks after several prefixes.

        Args:
            source: (B, S) ids, right-padded with PAD.
            target: (B, N) words, right-padded with PAD.
            prefixes: (P,) lengths of prefixes, from 0 to N, the same for all targets.
            revealed: (B, P, k - 1) booleans, true where the true token replaces a mask; None: nowhere.

        Returns:
            (B, N + 1 + P (k - 1), D): state t predicts word t for t up to N (word N is the end symbol); then, block by
            block, state j of the block after a prefix of p words predicts word p + 1 + j.
        """
        B, N = target.shape
        inputs = torch.cat([target.new_full((B, 1), BOS), target], 1)
        predicted = self.predicted_words(N, prefixes)
        masks = target.new_full((B, len(predicted) - N - 1), MASK)
        if revealed is not None:
            true_tokens = inputs[:, predicted[N + 1:].clamp(max=N)]
            masks = torch.where(revealed.flatten(1), true_tokens, masks)
        memory = self._encoder_states(source)
        positions = self.target_positions()[predicted.clamp(max=self.settings.max_length)]
        return self._decoder_states(torch.cat([inputs, masks], 1), self._visible(N, prefixes), memory, positions)

    def predicted_words(self, words: int, prefixes: Tensor) -> Tensor:
        """The index of the word that each state of `hidden_after` predicts, (N + 1 + P (k - 1),)."""
        ahead = torch.arange(1, self.block, device=prefixes.device)
        return torch.cat([torch.arange(words + 1, device=prefixes.device), (prefixes.unsqueeze(1) + ahead).flatten()])

    def _visible(self, words: int, prefixes: Tensor) -> Tensor:
        """(T, T), true where an input of `hidden_after` may see another."""
        P, k = len(prefixes), self.block - 1
        causal = torch.ones(words + 1, words + 1, dtype=torch.bool, device=prefixes.device).tril()
        prefix = (torch.arange(words + 1, device=prefixes.device) <= prefixes.unsqueeze(1)).repeat_interleave(k, 0)
        inside = torch.ones(k, k, dtype=torch.bool, device=prefixes.device).tril()
        blocks = torch.block_diag(*[inside] * P) if P and k else prefix.new_zeros(P * k, P * k)
        return torch.cat([F.pad(causal, (0, P * k)), torch.cat([prefix, blocks], 1)])

    # Search.

    def draft_memory(self, source: Tensor, memory: Memory | None = None) -> Memory:
        """The drafter's memory of (B, S) ids: the verifier's, which may be given, where it has no encoder."""
        if self.settings.encoder_layers:
            return self.encode(source)
        return self.verifier.encode(source) if memory is None else memory

    @torch.no_grad()
    def propose(self, tokens: Tensor, lengths: Ints | int, block: int, state: State) -> Tensor:
        """States that predict the next tokens after prefixes; the decoder's state then holds the prefixes.

        Args:
            tokens: (R, T), prefixes with their start symbol, then anything.
            lengths: lengths of the prefixes, (R,), or one number for all; more than the state holds.
            block: k, tokens to propose.
            state: holds the first tokens of the prefixes.

        Returns:
            (R, n, D), n <= k as far as there are positions; `draft_logits` projects them.
        """
        if isinstance(lengths, int) and state.lengths is None:
            read = state.length
            block = min(block, self.settings.max_length + 1 - lengths)
            inputs = F.pad(tokens[:, read:lengths], (0, block - 1), value=MASK)
            hidden = self.advance(inputs, state)[:, lengths - read - 1:]
        else:
            ends = _per_row(lengths, len(tokens))
            most = int((ends - (state.length if state.lengths is None else state.lengths)).max())
            # All rows read equally many tokens, some of them again: no row's masks then exceed those of the longest.
            begins = np.maximum(ends - most, 0)
            state.rewind(begins)
            block = min(block, self.settings.max_length + 1 - most - state.length)
            first, end = (on_device(one, tokens.device).unsqueeze(1) for one in (begins, ends))
            places = first + torch.arange(most + block - 1, device=tokens.device)
            known = tokens.gather(1, places.clamp(max=tokens.shape[1] - 1))
            inputs = known.masked_fill(places >= end, MASK)
            wanted = end - first - 1 + torch.arange(block, device=tokens.device)
            rows = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
            hidden = self.advance(inputs, state)[rows, wanted]
        state.rewind(lengths)
        return hidden

    @torch.no_grad()
    def continue_greedily(self, tokens: Tensor, lengths: Ints | int, count: int, state: State) -> Tensor:
        """The drafter's own greedy continuation of prefixes, token by token.

        The state keeps all that it has read, including drafted tokens, so accepted ones are not read again.

        Args:
            tokens: (R, T), prefixes with their start symbol, then anything.
            lengths: lengths of the prefixes, (R,), or one number for all.
            count: k, tokens to predict.
            state: holds the first tokens of the prefixes, then possibly rejected ones.

        Returns:
            (R, n), n <= k as far as there are positions.
        """
        longest = lengths if isinstance(lengths, int) else int(lengths.max())
        count = min(count, self.settings.max_length + 1 - longest)
        if count < 1:
            return tokens[:, :0]
        if isinstance(lengths, int) and state.lengths is None:
            state.rewind(min(state.length, lengths - 1))
        else:
            before = state.length if state.lengths is None else state.lengths
            state.rewind(np.minimum(before, _per_row(lengths, len(tokens)) - 1))
        return self._continued(tokens, lengths, count, state)

    def _continued(self, tokens: Tensor, lengths: Ints | int, count: int, state: State) -> Tensor:
        """`count` tokens, for which there are positions, from a state that holds first tokens of the prefixes only."""
        predicted = [best(self.projection(self.propose(tokens, lengths, 1, state)))]
        while len(predicted) < count:
            predicted.append(best(self.projection(self.advance(predicted[-1], state))))
        return torch.cat(predicted, 1)

    # The verifier.

    def attach_verifier(self, verifier: Transformer) -> None:
        """Set the model to draft for, which is not trained.

        Raises:
            PipelineError: it generates more than one word per step, has other vocabularies or reads longer targets, or
                its encoder is to be shared and has another width.
        """
        if self.settings.encoder_layers:
            check_verifier(verifier, self.vocabularies)
        else:
            check_verifier(verifier, (verifier.vocabularies[0], self.projection.out_features), self.settings.width)
        if verifier.settings.max_length > self.settings.max_length:
            raise PipelineError(f"network.max_length: {self.settings.max_length}, but the verifier reads up to "
                                f"{verifier.settings.max_length}; a drafter must read as far")
        self.verifier = verifier.requires_grad_(False).eval()
        self.clear_caches()  # copies that were opened or rounded have the one before

    def _encoder_states(self, source: Tensor) -> Memory:
        return super()._encoder_states(source) if self.settings.encoder_layers else self.verifier.encode(source)


class BidirectionalDrafter(DrafterTransformer):
    """The paper's drafter: its prefix and k masks all see each other, so that no keys and values can be kept.

    A mask predicts the token at its own position.
    """

    prefix = "bidirectional"

    def hidden_after(self, source: Tensor, target: Tensor, prefixes: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Hidden states of the masks after one prefix of every target.

        Args:
            source, target: see `DrafterTransformer.hidden_after`.
            prefixes: (B,) lengths of the prefixes in words.
            revealed: (B, k) booleans, true where the true token replaces a mask; None: nowhere.

        Returns:
            (B, k, D): state j predicts word p + j of a target whose prefix has p words.
        """
        prefixes = prefixes.unsqueeze(1)
        blocks = prefixes + torch.arange(self.block, device=target.device)
        known = F.pad(target, (0, int(prefixes.max()) + self.block - target.shape[1]), value=PAD)
        tokens = _with_masks(known, prefixes, self.block)
        if revealed is not None:
            tokens = tokens.scatter(1, blocks, torch.where(revealed, known.gather(1, blocks), MASK))
        tokens = tokens[:, :self.settings.max_length]
        states = self._decoder_states(tokens, _present(tokens), self._encoder_states(source))
        rows = torch.arange(len(target), device=target.device).unsqueeze(1)
        return states[rows, blocks.clamp(max=tokens.shape[1] - 1)]

    @torch.no_grad()
    def propose(self, tokens: Tensor, lengths: Ints | int, block: int, state: State) -> Tensor:
        """See `DrafterTransformer.propose`; the state is rewound to its start."""
        before = _per_row(lengths, len(tokens)) - 1  # words, without the start symbol
        longest, words = int(before.max()), on_device(before, tokens.device).unsqueeze(1)
        block = min(block, self.settings.max_length - longest)
        length = longest + block
        inputs = _with_masks(F.pad(tokens[:, 1:], (0, length + 1 - tokens.shape[1]), value=PAD), words, block)
        state.rewind(0)
        state.reserve(length)
        x = self._embed(self.target_embedding, inputs, self._position_tables().target[:length])
        x = self._decode(x, state, _present(inputs))
        rows = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
        return self.decoder_norm(x[rows, words + torch.arange(block, device=tokens.device)])

    def plain_weights(self) -> PlainWeights:
        """See `Transformer.plain_weights`."""
        return super().plain_weights()._replace(keeps=False)

    def continue_greedily(self, tokens: Tensor, lengths: Ints | int, count: int, state: State) -> Tensor:
        """Not possible."""
        raise PipelineError("this drafter reads its prefix in both directions and keeps nothing, so it cannot predict "
                            "tokens one by one; choose a family with drafting.prefix causal")


def make_drafter(settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, block: int, prefix: str,
                 chained: bool) -> DrafterTransformer:
    """The drafter that reads its prefix as given: `causal` or `bidirectional`."""
    made = {one.prefix: one for one in (DrafterTransformer, BidirectionalDrafter)}[prefix]
    return made(settings, source_vocabulary, target_vocabulary, block, chained)


def check_verifier(verifier: Transformer, vocabularies: tuple[int, int], width: int | None = None) -> None:
    """Raise a PipelineError unless a model can verify drafts in these vocabularies (and share its encoder)."""
    theirs = verifier.vocabularies
    if verifier.kind != Transformer.kind or verifier.order.width != 1:
        raise PipelineError(f"verifier: a {verifier.kind} model in the order {verifier.order.name} cannot verify "
                            "drafts; choose an ordered family of one word per step")
    if theirs != vocabularies:
        raise PipelineError(f"verifier: it has {theirs[0]} source and {theirs[1]} target pieces, the drafter "
                            f"{vocabularies[0]} and {vocabularies[1]}; train both with the same data/bpe")
    if width is not None and verifier.settings.width != width:
        raise PipelineError(f"network.width: {width}, but the verifier's encoder, which is to be shared, has "
                            f"{verifier.settings.width}; give the drafter encoder_layers of its own")


def _per_row(lengths: Ints | int, rows: int) -> Ints:
    """(rows,) lengths."""
    return np.full(rows, lengths) if isinstance(lengths, int) else lengths


def _with_masks(words: Tensor, prefixes: Tensor, block: int) -> Tensor:
    """Of words (B, T) the first of each row, as many as `prefixes` (B, 1), then a block of masks, then PAD."""
    columns = torch.arange(words.shape[1], device=words.device)
    return words.masked_fill(columns >= prefixes, MASK).masked_fill(columns >= prefixes + block, PAD)


def _present(tokens: Tensor) -> Tensor:
    """(B, 1, 1, T), true where there is no padding."""
    return (tokens != PAD)[:, None, None, :]
