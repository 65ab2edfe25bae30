"""Networks that draft the next k tokens at once behind a prefix (Ge et al. 2022, section 3.2.1).

They stand beside the verifier that they draft for: a checkpoint of theirs holds it as well. Without encoder layers of
its own, a drafter reads the verifier's encoded source, and a sentence is encoded once (the paper's profile, its
Table 15, spends 16 % of the time on two encoders).
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.errors import PipelineError
from pipeline.model.chained import ChainedTransformer
from pipeline.model.networks import rebuild
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.state import Memory, State
from pipeline.model.top import best
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, MASK


class DrafterTransformer(ChainedTransformer):
    """A drafter whose prefix is causal, so that its states are kept.

    A token of the prefix predicts the one behind it, as in any autoregressive model, and so does a MASK in place of a
    token that is not known yet: the last token of the prefix and k - 1 masks predict the next k tokens. A mask sees the
    prefix and the masks before it. A draft therefore costs k - 1 masks and the tokens accepted since the last one; the
    paper's reads its whole prefix again (`bidirectional_drafter.py`).
    """

    kind = "drafter"
    chooses_order = False
    choices = ("block", "chained")
    prefix = "causal"
    verifier: Transformer
    """Set by `attach`."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int, block: int,
                 chained: bool) -> None:
        """Args:
            settings: shape; with `encoder_layers` = 0 it reads the verifier's encoder.
            source_vocabulary, target_vocabulary: pieces.
            block: k, tokens that it is trained to draft at once.
            chained: whether a drafted token sees the one before it; else they are independent, as in the paper.
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
        from pipeline.model.drafters import make_drafter  # which knows the subclass that the prefix asks for
        network = make_drafter(NetworkSettings(**described["network"]), vocabulary.source, vocabulary.target,
                               described["block"], described["prefix"], described["chained"])
        network.attach(cast(Transformer, rebuild(described["verifier"], vocabulary)))
        return network

    # Training: many prefixes of a target at once.

    def hidden_behind(self, source: Tensor, target: Tensor, prefixes: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Hidden states that predict every token, and those of blocks of masks behind several prefixes.

        Args:
            source: (B, S) ids, padded with PAD behind.
            target: (B, N) words, padded with PAD behind.
            prefixes: (P,) words of prefixes, from 0 to N, the same for all targets.
            revealed: (B, P, k - 1) booleans, masks in whose place the true token stands; None: nowhere.

        Returns:
            (B, N + 1 + P (k - 1), D): state t predicts word t for t up to N (the word N is the end symbol); behind
            these, block by block, state j of the block behind a prefix of p words predicts word p + 1 + j.
        """
        B, N = target.shape
        inputs = torch.cat([target.new_full((B, 1), BOS), target], 1)
        places = self.places(N, prefixes)
        masks = target.new_full((B, len(places) - N - 1), MASK)
        if revealed is not None:
            behind = places[N + 1:].clamp(max=N)
            masks = torch.where(revealed.flatten(1), inputs[:, behind], masks)
        tokens = torch.cat([inputs, masks], 1)
        memory = self._encoder_states(source)
        positions = self.target_positions()[places.clamp(max=self.settings.max_length)]
        x = self._embed(self.target_embedding, tokens, positions)
        visible = self._visible(N, prefixes)
        for layer, (keys, values) in zip(self.decoder, self._source_keys_values(memory), strict=True):
            x = layer(x, visible, keys, values, memory.mask)
        return self.decoder_norm(x)

    def places(self, words: int, prefixes: Tensor) -> Tensor:
        """The word that each state of `hidden_behind` predicts, (N + 1 + P (k - 1),)."""
        ahead = torch.arange(1, self.block, device=prefixes.device)
        return torch.cat([torch.arange(words + 1, device=prefixes.device), (prefixes.unsqueeze(1) + ahead).flatten()])

    def _visible(self, words: int, prefixes: Tensor) -> Tensor:
        """(T, T), true where an input of `hidden_behind` may see another."""
        P, k = len(prefixes), self.block - 1
        causal = torch.ones(words + 1, words + 1, dtype=torch.bool, device=prefixes.device).tril()
        prefix = (torch.arange(words + 1, device=prefixes.device) <= prefixes.unsqueeze(1)).repeat_interleave(k, 0)
        inside = torch.ones(k, k, dtype=torch.bool, device=prefixes.device).tril()
        blocks = torch.block_diag(*[inside] * P) if P and k else prefix.new_zeros(P * k, P * k)
        return torch.cat([F.pad(causal, (0, P * k)), torch.cat([prefix, blocks], 1)])

    # Search.

    def draft_memory(self, source: Tensor, memory: Memory) -> Memory:
        """The drafter's memory of (B, S) ids: the verifier's where it has no encoder."""
        return self.encode(source) if self.settings.encoder_layers else memory

    @torch.no_grad()
    def propose(self, tokens: Tensor, lengths: Tensor | int, block: int, state: State) -> Tensor:
        """States that predict the next tokens behind prefixes; the decoder's state moves to their ends.

        Args:
            tokens: (R, T), prefixes with their start symbol; anything behind.
            lengths: of the prefixes, (R,), or one number for all; longer than what the state has read.
            block: k, tokens to propose.
            state: of what is read of the prefixes.

        Returns:
            (R, n, D), n = k or as many as there are positions left for; `say` makes words of them.
        """
        if isinstance(lengths, int) and state.lengths is None:
            read = state.length
            block = min(block, self.settings.max_length + 1 - lengths)
            inputs = F.pad(tokens[:, read:lengths], (0, block - 1), value=MASK)
            hidden = self.advance(inputs, state)[:, lengths - read - 1:]
        else:
            ends = tokens.new_full((len(tokens),), lengths) if isinstance(lengths, int) else lengths
            most = int((ends - (state.length if state.lengths is None else state.lengths)).max())
            # All rows read equally many tokens, some of them again: no row's masks then pass those of the longest.
            begins = (ends - most).clamp(min=0)
            state.rewind(begins)
            block = min(block, self.settings.max_length + 1 - most - state.length)
            places = begins.unsqueeze(1) + torch.arange(most + block - 1, device=tokens.device)
            known = tokens.gather(1, places.clamp(max=tokens.shape[1] - 1))
            inputs = known.masked_fill(places >= ends.unsqueeze(1), MASK)
            wanted = (ends - begins).unsqueeze(1) - 1 + torch.arange(block, device=tokens.device)
            rows = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
            hidden = self.advance(inputs, state)[rows, wanted]
        state.rewind(lengths)
        return hidden

    @torch.no_grad()
    def run_ahead(self, tokens: Tensor, lengths: Tensor | int, count: int, state: State) -> Tensor:
        """Its own greedy continuation of prefixes, one token after the other.

        The state keeps what it has read, its own tokens included: those that turn out to be in the next prefix are not
        read again.

        Args:
            tokens: (R, T), prefixes with their start symbol; anything behind.
            lengths: of the prefixes, (R,), or one number for all.
            count: k, tokens to say.
            state: of a beginning of the prefixes, and anything behind it that is not in them.

        Returns:
            (R, n), n = k or as many as there are positions left for.
        """
        longest = lengths if isinstance(lengths, int) else int(lengths.max())
        count = min(count, self.settings.max_length + 1 - longest)
        if count < 1:
            return tokens[:, :0]
        if isinstance(lengths, int) and state.lengths is None:
            state.rewind(min(state.length, lengths - 1))
        else:
            before = torch.full_like(tokens[:, 0], state.length) if state.lengths is None else state.lengths
            state.rewind(torch.minimum(before, torch.as_tensor(lengths, device=before.device) - 1))
        return self._continued(tokens, lengths, count, state)

    def _continued(self, tokens: Tensor, lengths: Tensor | int, count: int, state: State) -> Tensor:
        """`run_ahead` by so many tokens, for which there is room, from a state that holds nothing but prefixes."""
        hidden, predicted = self.propose(tokens, lengths, 1, state), []
        for place in range(count):
            predicted.append(best(self.projection(hidden)))
            if place + 1 < count:
                hidden = self.advance(predicted[-1], state)
        return torch.cat(predicted, 1)

    # The verifier.

    def attach(self, verifier: Transformer) -> None:
        """Take the model to draft for; it is not trained.

        Raises:
            PipelineError: it generates more than one word a step, has other vocabularies or reads longer targets, or
                its encoder, which shall be shared, has another width.
        """
        own = (self.source_embedding.num_embeddings if self.settings.encoder_layers else
               verifier.source_embedding.num_embeddings, self.projection.out_features)
        check_verifier(verifier, own, None if self.settings.encoder_layers else self.settings.width)
        if verifier.settings.max_length > self.settings.max_length:
            raise PipelineError(f"network.max_length: {self.settings.max_length}, but the verifier reads up to "
                                f"{verifier.settings.max_length}; a drafter must read as far")
        self.verifier = verifier.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "DrafterTransformer":
        super().train(mode)
        if "verifier" in self._modules:
            self.verifier.eval()  # it is read, not trained: no dropout
        return self

    def _encoder_states(self, source: Tensor) -> Memory:
        return super()._encoder_states(source) if self.settings.encoder_layers else self.verifier.encode(source)


def check_verifier(verifier: Transformer, vocabularies: tuple[int, int], width: int | None) -> None:
    """Raise a PipelineError unless a model can verify for drafters of these vocabularies (and this encoder's width)."""
    theirs = verifier.source_embedding.num_embeddings, verifier.projection.out_features
    if verifier.kind != Transformer.kind or verifier.order.width != 1:
        raise PipelineError(f"verifier: a {verifier.kind} model in the order {verifier.order.name} cannot verify "
                            "drafts; choose an ordered family of one word a step")
    if theirs != vocabularies:
        raise PipelineError(f"verifier: it has {theirs[0]} source and {theirs[1]} target pieces, the drafter "
                            f"{vocabularies[0]} and {vocabularies[1]}; train both with the same data/bpe")
    if width is not None and verifier.settings.width != width:
        raise PipelineError(f"network.width: {width}, but the verifier's encoder, which is to be shared, has "
                            f"{verifier.settings.width}; give the drafter encoder_layers of its own")
