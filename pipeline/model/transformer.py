"""One encoder-decoder Transformer for every generation order, with the three verbs that search speaks."""

import copy
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipeline.engine.plain import GELU, RELU, SWISH, PlainWeights
from pipeline.errors import PipelineError
from pipeline.model.layers import DecoderLayer, EncoderLayer, Positions, dropout
from pipeline.model.networks import Network
from pipeline.model.orders import Order
from pipeline.model.quantised import linear
from pipeline.model.settings import NetworkSettings
from pipeline.model.state import Memory, State
from pipeline.vocabulary import PAD

_ACTIVATIONS = {"relu": RELU, "gelu": GELU, "swish": SWISH}


class PositionTables(NamedTuple):
    """The vectors of all positions, computed once for search."""

    source: Tensor
    """(S, D)."""
    target: Tensor
    """(T, D), one row per slot."""


class _SomeOutputs:
    """The linear map of some rows of a weight (V, D), made on first use: compiled steps have their own."""

    def __init__(self, weight: Tensor, ids: Tensor, rounded: bool) -> None:
        self._weight, self._ids, self._rounded = weight, ids, rounded

    def __call__(self, x: Tensor) -> Tensor:
        rows: Tensor = self._rows(x)
        return rows

    @cached_property
    def _rows(self) -> nn.Linear:
        return linear(self._weight[self._ids], None, self._rounded)


class Transformer(Network):
    """Vaswani et al. (2017), pre- or post-norm, generating its target in any `Order`.

    Training reads entire targets (`forward`); search reads them step by step (`encode`, `start`, `step`), without
    gradients, through the same layers. `pipeline.engine.door` can open it.
    """

    kind = "ordered"
    order_mask: Tensor
    start_symbols: Tensor
    output_bias: Tensor | None
    """(V,), added to the logits of a search; None: no bias."""
    generation = 0
    """Increases whenever the parameters may have changed."""
    quantised = False
    """Whether its linear maps are rounded (`pipeline.model.quantised`)."""

    def __init__(self, settings: NetworkSettings, source_vocabulary: int, target_vocabulary: int,
                 order: Order) -> None:
        super().__init__()
        self.settings, self.order = settings, order
        self.source_embedding = nn.Embedding(source_vocabulary, settings.width)
        self.target_embedding = nn.Embedding(target_vocabulary, settings.width)
        self.projection = nn.Linear(settings.width, target_vocabulary, bias=False)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        # Keys and values of the source for all decoder layers: one matrix product per sentence.
        self.source_keys_values = nn.Linear(settings.width, 2 * settings.width * settings.decoder_layers)
        pre = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(settings.width) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(settings.width) if pre else nn.Identity()
        slots = torch.arange(order.slots(settings.max_length))
        self.source_positions = Positions(settings, torch.arange(settings.max_length))
        directions = order.directions if order.direction_embeddings else 0
        self.target_positions = Positions(settings, order.positions(slots), directions)
        self.register_buffer("order_mask", order.mask(len(slots)), persistent=False)
        self.register_buffer("output_bias", None, persistent=False)
        self.register_buffer("start_symbols", torch.tensor([order.starts]), persistent=False)
        self._tables: PositionTables | None = None
        self._initialise()
        self._tie(source_vocabulary, target_vocabulary)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # Glorot's bound depends on the shape: fused matrices are initialised as the square ones that they consist of.
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

    @property
    def vocabularies(self) -> tuple[int, int]:
        """Numbers of source and target pieces."""
        return self.source_embedding.num_embeddings, self.projection.out_features

    # Training: entire targets.

    def forward(self, source: Tensor, arranged: Tensor) -> Tensor:
        """Logits (B, T, V) of every slot given the slots of earlier steps.

        Args:
            source: (B, S) ids, right-padded with PAD.
            arranged: (B, T) targets in generation order (`Order.arrange`), T a multiple of the order's width.
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
        return Memory(self._encoder_layers(source, self.source_positions(), mask), mask)

    def _decoder_states(self, inputs: Tensor, mask: Tensor | None, memory: Memory,
                        positions: Tensor | None = None) -> Tensor:
        """The last hidden states (B, T, D) of inputs (B, T).

        The mask is broadcast to (B, heads, T, T), true where a slot sees another. Vectors of positions (T, D) default
        to those of the first slots.
        """
        if positions is None:
            positions = self.target_positions()[:inputs.shape[1]]
        x = self._embed(self.target_embedding, inputs, positions)
        for layer, (keys, values) in zip(self.decoder, self._source_keys_values(memory), strict=True):
            x = layer(x, mask, keys, values, memory.mask)
        return self.decoder_norm(x)

    # Search: three verbs.

    @torch.no_grad()
    def encode(self, source: Tensor) -> Memory:
        """Encode (B, S) ids, right-padded with PAD and at most `max_length` long."""
        mask = self._source_mask(source)
        return Memory(self._encoded(source, mask), mask)

    @torch.no_grad()
    def start(self, memory: Memory, beams: int = 1, capacity: int = 64) -> State:
        """The state before the first step: `beams` neighbouring rows per sentence, and memory for `capacity` slots."""
        return State(self._projected(memory), memory.mask, beams, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Read the next n tokens (R, n) of every row, first the order's z start symbols, into the state.

        Returns:
            (R, n, V) logits of the slots that these inputs predict.
        """
        return self._read(tokens, state, True)[1]

    @torch.no_grad()
    def advance(self, tokens: Tensor, state: State) -> Tensor:
        """The decoder's last hidden states, (R, n, D); `step` without its projection."""
        return self._read(tokens, state, False)[0]

    @torch.no_grad()
    def with_vocabulary(self, ids: Tensor) -> "Transformer":
        """The same model with only some target words, numbered from 0, for search.

        Args:
            ids: (n,) of the words, ascending; the special ids are the first.
        """
        short = copy.copy(self)
        # Found before the modules of these names.
        vars(short).update(target_embedding=lambda tokens: self.target_embedding(ids[tokens]),
                           projection=_SomeOutputs(self.projection.weight, ids, self.quantised))
        if self.output_bias is not None:
            vars(short)["output_bias"] = self.output_bias[ids]
        return short

    # The parts of the verbs, by torch. A network that the engine has opened overrides them with compiled ones.

    def _encoded(self, source: Tensor, mask: Tensor | None) -> Tensor:
        """The encoder's last states, (B, S, D)."""
        positions = self._position_tables().source
        if mask is None:
            return self._encoder_layers(source, positions, None)
        return self._recorded("encoder", lambda pieces, present: self._encoder_layers(pieces, positions, present),
                              source, mask)

    def _recorded(self, name: str, function: Callable[..., Any], *tensors: Tensor) -> Any:
        """`function` of tensors: on a GPU, where the engine has opened the network, as one operation (`Recorder`)."""
        return function(*tensors)

    def _projected(self, memory: Memory) -> Tensor:
        """Keys and values of the source, (L, 2, B, heads, S, D / heads)."""
        return self._source_keys_values(memory).contiguous()

    def _read(self, tokens: Tensor, state: State, projected: bool) -> tuple[Tensor, Tensor]:
        """The decoder's last hidden states, (R, n, D), and, if `projected`, logits (R, n, V)."""
        n, table = tokens.shape[1], self._position_tables().target
        state.reserve(n)
        positions = table[state.length:state.length + n] if state.lengths is None else table[state.slots(n)]
        x = self._embed(self.target_embedding, tokens, positions)
        x = self._decode(x, state, self._step_mask(state, n))
        state.advance(n)
        state.hidden = self.decoder_norm(x)
        return state.hidden, self._logits(state.hidden) if projected else state.hidden

    def _decode(self, x: Tensor, state: State, mask: Tensor | None) -> Tensor:
        """All decoder layers over the next tokens of every row, (R, n, D), whose keys and values enter the state.

        The mask is broadcast to (R, heads, n, T), true where a token sees another; None: everywhere.
        """
        for index, (layer, (keys, values)) in enumerate(zip(self.decoder, state.source, strict=True)):
            x = layer(x, mask, keys, values, state.source_mask, partial(state.append, index))
        return x

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.projection(hidden)
        return logits if self.output_bias is None else logits + self.output_bias

    def _position_tables(self) -> PositionTables:
        """Vectors of positions, computed once, until `clear_caches`."""
        if self._tables is None:
            self._tables = PositionTables(self.source_positions().detach(), self.target_positions().detach())
        return self._tables

    @torch.no_grad()
    def plain_weights(self) -> PlainWeights:
        """The current parameters, for the engine."""
        tables, norms = self._position_tables(), []
        for norm in (self.encoder_norm, self.decoder_norm):
            norms.append(torch.stack(list(norm.parameters()) or [tables.target[0]] * 2))
        return PlainWeights(
            encoder=[layer.weights() for layer in self.encoder],  # type: ignore[operator]
            decoder=[layer.weights() for layer in self.decoder],  # type: ignore[operator]
            source_embedding=self.source_embedding.weight if self.encoder else None,
            target_embedding=self.target_embedding.weight, scale=math.sqrt(self.settings.width),
            source_positions=tables.source, target_positions=tables.target,
            encoder_norm=norms[0], decoder_norm=norms[1],
            source_keys_values=(self.source_keys_values.weight.t(), self.source_keys_values.bias),
            projection=self.projection.weight, output_bias=self.output_bias, visible=self.order_mask,
            heads=self.settings.heads, pre=self.settings.norm == "pre",
            activation=_ACTIVATIONS[self.settings.activation], keeps=True, rounded=self.quantised)

    def linear_maps(self) -> list[str]:
        """The names of the linear maps that a quantised network rounds."""
        parts = "encoder", "decoder", "source_keys_values", "projection"
        return [name for name, module in self.named_modules()
                if isinstance(module, nn.Linear) and name.split(".")[0] in parts]

    def clear_caches(self) -> None:
        """Forget all that was computed from parameters; to be called when they change in evaluation mode."""
        self._tables = None
        self.generation += 1

    def train(self, mode: bool = True) -> "Transformer":
        self.clear_caches()
        super().train(mode)
        if (verifier := self._modules.get("verifier")) is not None:
            verifier.eval()  # a verifier is frozen: no dropout
        return self

    def _apply(self, *arguments: Any, **options: Any) -> "Transformer":
        self.clear_caches()  # another device or type
        return super()._apply(*arguments, **options)

    def _step_mask(self, state: State, n: int) -> Tensor | None:
        """What n new tokens see of the past and of each other; None where it is everything."""
        end = state.length + n
        if state.lengths is not None:
            return self.order_mask[:, :end][state.slots(n)].unsqueeze(1)  # (R, 1, n, end)
        if n == self.order.width and state.length % n == 0 and self.order.visible is None:
            return None
        return self.order_mask[state.length:end, :end]

    def _encoder_layers(self, source: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        x = self._embed(self.source_embedding, source, positions[:source.shape[1]])
        for layer in self.encoder:
            x = layer(x, mask)
        normalised: Tensor = self.encoder_norm(x)
        return normalised

    @staticmethod
    def _source_mask(source: Tensor) -> Tensor | None:
        """(B, 1, 1, S), true where there is a piece; None: everywhere."""
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
