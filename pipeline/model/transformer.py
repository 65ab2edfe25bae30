"""One encoder-decoder Transformer for every generation order, with the three verbs that search speaks."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipeline.engine.packing import are_few
from pipeline.engine.reading import Packed, PackedEncoder, PackedSource, Reading
from pipeline.errors import PipelineError
from pipeline.model import few, lean
from pipeline.model.layers import DecoderLayer, EncoderLayer, Positions, dropout
from pipeline.model.networks import Network
from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings
from pipeline.model.state import Memory, State
from pipeline.vocabulary import PAD


class Weights(NamedTuple):
    """All that search reads again and again."""

    encoder: lean.EncoderBlocks
    decoder: lean.DecoderBlocks
    packed: Packed | None  # None where steps are not to be compiled
    packed_encoder: PackedEncoder | None  # … where the encoder is not
    packed_source: PackedSource | None  # … where the projection of its states is not
    source_positions: Tensor  # (S, D)
    target_positions: Tensor  # (T, D), a row a slot


class Transformer(Network):
    """Vaswani et al. (2017), pre- or post-norm, generating its target in any `Order`.

    Training reads whole targets (`forward`); search reads them step by step (`encode`, `start`, `step`), without
    gradients, through `few` or `lean`.
    """

    kind = "ordered"
    order_mask: Tensor
    start_symbols: Tensor

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int,
                 order: Order) -> None:
        super().__init__()
        self.settings, self.order = settings, order
        self.source_embedding = nn.Embedding(source_vocabulary, settings.width)
        self.target_embedding = nn.Embedding(target_vocabulary, settings.width)
        self.projection = nn.Linear(settings.width, target_vocabulary, bias=False)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        # Keys and values of the source for all decoder layers: one matrix product a sentence.
        self.source_keys_values = nn.Linear(settings.width, 2 * settings.width * settings.decoder_layers)
        pre = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(settings.width) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(settings.width) if pre else nn.Identity()
        slots = torch.arange(order.slots(settings.max_length))
        self.source_positions = Positions(settings, torch.arange(settings.max_length))
        directions = order.directions if order.direction_embeddings else 0
        self.target_positions = Positions(settings, order.positions(slots), directions)
        self.register_buffer("order_mask", order.mask(len(slots)), persistent=False)
        self._seen = few.seen(self.order_mask)  # for compiled steps
        self.register_buffer("start_symbols", torch.tensor([order.starts]), persistent=False)
        self._style = lean.Style(pre, settings.activation == "relu", settings.heads)
        self._gathered: Weights | None = None
        self._rounded: Packed | None = None
        self._initialise()
        self._tie(source_vocabulary, target_vocabulary)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # Glorot's bound depends on the shape: fused matrices are initialised as the square ones they stand for.
        width = self.settings.width
        for name, parameter in self.named_parameters():
            if name.endswith(("queries_keys_values.weight", "source_keys_values.weight")):
                for part in parameter.data.split(width):
                    nn.init.xavier_uniform_(part)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=width**-0.5)
        nn.init.normal_(self.projection.weight, std=width**-0.5)

    def _tie(self, source_vocabulary: int, target_vocabulary: int) -> None:
        if self.settings.tied_embeddings in ("all", "target"):
            self.projection.weight = self.target_embedding.weight
        if self.settings.tied_embeddings == "all":
            if source_vocabulary != target_vocabulary:
                raise PipelineError(f"network.tied_embeddings: 'all' needs one vocabulary, but the source has "
                                    f"{source_vocabulary} pieces and the target {target_vocabulary}; choose 'target'")
            self.source_embedding.weight = self.target_embedding.weight

    # Training: whole targets.

    def forward(self, source: Tensor, arranged: Tensor) -> Tensor:
        """Logits of every slot given the slots of earlier steps.

        Args:
            source: (B, S) ids, padded with PAD behind.
            arranged: (B, T) targets in generation order (`Order.arrange`), T whole steps.

        Returns:
            (B, T, V).
        """
        return self.projection(self.hidden(source, arranged))

    def hidden(self, source: Tensor, arranged: Tensor) -> Tensor:
        """The decoder's last hidden states, (B, T, D); `forward` without its projection."""
        T = arranged.shape[1]
        # z start symbols: inputs are shifted by one step.
        inputs = torch.cat([self.start_symbols.expand(len(arranged), -1), arranged[:, :-self.order.width]], 1)
        return self._decoder_states(inputs, self.order_mask[:T, :T], self._encoder_states(source))

    def _encoder_states(self, source: Tensor) -> Memory:
        mask = self._source_mask(source)
        x = self._embed(self.source_embedding, source, self.source_positions()[:source.shape[1]])
        for layer in self.encoder:
            x = layer(x, mask)
        return Memory(self.encoder_norm(x), mask)

    def _decoder_states(self, inputs: Tensor, mask: Tensor | None, memory: Memory) -> Tensor:
        """(B, T, D) for inputs (B, T), whose slots see what `mask`, broadcast to (B, heads, T, T), lets them see."""
        x = self._embed(self.target_embedding, inputs, self.target_positions()[:inputs.shape[1]])
        for layer, (keys, values) in zip(self.decoder, self._source_keys_values(memory), strict=True):
            x = layer(x, mask, keys, values, memory.mask)
        return self.decoder_norm(x)

    # Search: three verbs.

    @torch.no_grad()
    def encode(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, padded with PAD behind and at most `max_length` long."""
        mask, weights = self._source_mask(source), self._weights()
        if not self.training and (states := few.encode(source, weights.packed_encoder, self._style, mask)) is not None:
            return Memory(states, mask)
        x = self._embed(self.source_embedding, source, weights.source_positions[:source.shape[1]])
        return Memory(self.encoder_norm(lean.encode(x, weights.encoder, self._style, mask)), mask)

    @torch.no_grad()
    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """The state before the first step, with `beams` neighbouring rows a sentence and room for `capacity` slots."""
        keys_values = few.project(memory.states, self._weights().packed_source, self._style)
        if keys_values is None:
            keys_values = self._source_keys_values(memory).contiguous()
        return State(keys_values, memory.mask, beams, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Feed the next n input tokens of every row (at first the order's z start symbols) and move the state.

        Args:
            tokens: (R, n).

        Returns:
            (R, n, V) logits of the slots that these inputs predict.
        """
        packed = self._weights().packed
        if packed is not None and are_few(tokens.numel(), packed):
            return self._few(tokens, state, packed, True)[1]
        return self.projection(self.advance(tokens, state))

    @torch.no_grad()
    def reading(self, state: State, tokens: int, at_once: int = 1, rounded: bool = False) -> Reading | None:
        """The decoder as a compiled search reads it, with room in the state for what it will read.

        The state does not move: how much has been read is for the search to remember.

        Args:
            tokens: all that will be read from here on.
            at_once: the most that one step will read of all rows.
            rounded: whether its matrices may be rounded (`packing.pack_matrix`), because what it says is verified.

        Returns:
            None where its steps are not to be compiled.
        """
        packed = self._weights().packed
        if packed is None or not are_few(at_once, packed):
            return None
        if rounded:
            packed = self._rounded = self._rounded or self._pack(rounded=True)
        state.reserve(tokens)
        return few.reading(packed, self._style, state, tokens, self._seen)[0]  # type: ignore[arg-type]  # packed above

    @torch.no_grad()
    def advance(self, tokens: Tensor, state: State) -> Tensor:
        """The decoder's last hidden states, (R, n, D); `step` without its projection."""
        n, weights = tokens.shape[1], self._weights()
        if weights.packed is not None and are_few(tokens.numel(), weights.packed):
            return self._few(tokens, state, weights.packed, False)[0]
        state.reserve(n)
        table = weights.target_positions
        if state.lengths is None:
            positions = table[state.length:state.length + n]
        else:
            positions = table[state.slots(n)]
        x = self._embed(self.target_embedding, tokens, positions)
        x = lean.decode(x, weights.decoder, self._style, state, self._step_mask(state, n))
        state.advance(n)
        state.hidden = self.decoder_norm(x).view(len(tokens), n, -1)
        return state.hidden

    def _few(self, tokens: Tensor, state: State, packed: Packed, projected: bool) -> tuple[Tensor, Tensor]:
        """`advance` and, if wanted, `step`, with few rows."""
        n = tokens.shape[1]
        state.reserve(n)
        state.hidden, logits = few.step(tokens, packed, self._style, state, self._seen, projected)
        state.advance(n)
        return state.hidden, logits

    def _decode(self, x: Tensor, state: State, mask: Tensor | None) -> Tensor:
        """`lean.decode`, compiled where the rows are few."""
        weights = self._weights()
        if weights.packed is not None and are_few(x.shape[0] * x.shape[1], weights.packed):
            return few.decode(x, weights.packed, self._style, state, mask)
        return lean.decode(x, weights.decoder, self._style, state, mask)

    def _weights(self) -> Weights:
        """The weights as search reads them, gathered once, until `regather`."""
        if self._gathered is None:
            packed = self._pack()
            self._gathered = Weights(
                self._encoder_blocks(), self._decoder_blocks(), packed, self._pack_encoder(packed),
                few.pack_projection(self.source_keys_values), self.source_positions().detach(),
                self.target_positions().detach())
        return self._gathered

    def _encoder_blocks(self) -> lean.EncoderBlocks:
        return [lean.encoder_blocks(layer) for layer in self.encoder]  # type: ignore[arg-type]

    def _decoder_blocks(self) -> lean.DecoderBlocks:
        return [lean.decoder_blocks(layer) for layer in self.decoder]  # type: ignore[arg-type]

    def _pack(self, rounded: bool = False) -> Packed | None:
        scaled = self.target_embedding.weight * math.sqrt(self.settings.width)
        return few.pack(self._decoder_blocks(), scaled, self.target_positions(), self.decoder_norm,
                         self.projection.weight, rounded)

    def _pack_encoder(self, decoder: Packed | None) -> PackedEncoder | None:
        if not self.encoder:
            return None  # and a drafter that has none has no embeddings either
        if decoder is not None and self.source_embedding.weight is self.target_embedding.weight:
            scaled = torch.from_numpy(decoder.embeddings)  # one copy for both
        else:
            scaled = self.source_embedding.weight * math.sqrt(self.settings.width)
        return few.pack_sources(self._encoder_blocks(), scaled, self.source_positions(), self.encoder_norm)

    def regather(self) -> None:
        """Forget the gathered weights: for whoever changes parameters in evaluation mode."""
        self._gathered = self._rounded = None

    def train(self, mode: bool = True) -> "Transformer":
        self.regather()  # tables that are computed from parameters do not follow their changes
        return super().train(mode)

    def _apply(self, *arguments: Any, **options: Any) -> "Transformer":
        self.regather()  # another device or type
        return super()._apply(*arguments, **options)

    def _step_mask(self, state: State, n: int) -> Tensor | None:
        """What n new tokens may see of the past and of each other; None where it is everything."""
        end = state.length + n
        if state.lengths is not None:
            return self.order_mask[:, :end][state.slots(n)].unsqueeze(1)  # (R, 1, n, end)
        if n == self.order.width and state.length % n == 0 and self.order.visible is None:
            return None
        return self.order_mask[state.length:end, :end]

    @staticmethod
    def _source_mask(source: Tensor) -> Tensor | None:
        """(B, 1, 1, S), true where there is a piece; None where that is everywhere."""
        present = source != PAD
        return None if bool(present.all()) else present[:, None, None, :]

    def _embed(self, embedding: nn.Embedding, tokens: Tensor, positions: Tensor) -> Tensor:
        x = torch.add(positions, embedding(tokens), alpha=math.sqrt(self.settings.width))
        return dropout(x, self.settings.dropout) if self.training else x

    def _source_keys_values(self, memory: Memory) -> Tensor:
        """(L, 2, B, heads, S, D / heads)."""
        B, S, D = memory.states.shape
        heads = self.settings.heads
        projected = self.source_keys_values(memory.states).view(B, S, len(self.decoder), 2, heads, D // heads)
        return projected.permute(2, 3, 0, 4, 1, 5)
