"""Few rows of a small model on a CPU: everything between ids and states or logits as one compiled call.

What `pipeline.engine` reads is packed from the same weights that `lean` and `layers` read, and tensors become arrays
here. Where something is not to be compiled, these functions return None, and `lean` does it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.engine.packing import is_short, pack_decoder, pack_encoder, pack_source
from pipeline.engine.reading import Bools, Packed, PackedEncoder, PackedSource, Reading
from pipeline.model.lean import Block, DecoderBlocks, EncoderBlocks, Style
from pipeline.model.state import Floats, Ints, State

_EVERYTHING = np.zeros((0, 1, 0), np.bool_)


def pack(decoder: DecoderBlocks, embeddings: Tensor, positions: Tensor, norm: nn.Module, projection: Tensor,
         rounded: bool = False) -> Packed | None:
    """A decoder as compiled code reads it; None where its steps are not to be compiled.

    Args:
        decoder: its layers.
        embeddings: (V, D), scaled.
        positions: (T, D), a row a slot.
        norm: the final normalisation, or the identity.
        projection: (V, D).
        rounded: see `packing.pack_decoder`.
    """
    if not decoder or not readable(embeddings):
        return None
    return pack_decoder(_arrays(decoder), *_tables(embeddings, positions, norm), projection.t().detach().numpy(),
                        rounded=rounded)


def pack_sources(encoder: EncoderBlocks, embeddings: Tensor, positions: Tensor,
                 norm: nn.Module) -> PackedEncoder | None:
    """An encoder as compiled code reads it; None where it is not to be compiled. See `pack` for the arguments."""
    if not encoder or not readable(embeddings):
        return None
    return pack_encoder(_arrays(encoder), *_tables(embeddings, positions, norm))


def pack_projection(projection: nn.Linear) -> PackedSource | None:
    """The projection of encoded sources as compiled code reads it; None where it is not to be compiled."""
    if not readable(projection.weight):
        return None
    return pack_source(projection.weight.detach().t().numpy(), projection.bias.detach().numpy())


def _arrays(layers: Sequence[Sequence[Block]]) -> list[list[list[Floats]]]:
    return [[[part.detach().numpy() for part in one] for one in layer] for layer in layers]


def _tables(embeddings: Tensor, positions: Tensor, norm: nn.Module) -> tuple[Floats, Floats, Floats]:
    """Embeddings, positions, and weight and bias of the norm (2, D), anything where it has none."""
    last = torch.stack(list(norm.parameters()) or [positions[0]] * 2)
    return embeddings.detach().numpy(), positions.detach().numpy(), last.detach().numpy()


def readable(weights: Tensor) -> bool:
    """Whether compiled code can read them."""
    return weights.device.type == "cpu" and weights.dtype in (torch.float32, torch.float64)


def encode(source: Tensor, packed: PackedEncoder | None, style: Style, mask: Tensor | None) -> Tensor | None:
    """Everything between the ids of few short sentences and their states in one call, final normalisation included.

    Args:
        source: (B, S) ids.
        mask: (B, 1, 1, S), true where there is a piece; None: everywhere.

    Returns:
        (B, S, D); None where it is not to be compiled: more pieces, or ones that are refused, which torch refuses too.
    """
    if packed is None or not is_short(source.numel(), packed.positions.shape[1]):
        return None
    from pipeline.engine.encoder import encode as compiled  # numba: half a second that training does not need
    states = np.empty((*source.shape, packed.positions.shape[1]), packed.positions.dtype)
    known = compiled(source.contiguous().numpy(), packed, style.heads, style.pre, style.relu, seen(mask), states)
    return torch.from_numpy(states) if known else None


def project(states: Tensor, packed: PackedSource | None, style: Style) -> Tensor | None:
    """The keys and values of few encoded pieces (B, S, D), (L, 2, B, heads, S, D / heads); None: it is not compiled."""
    B, S, D = states.shape
    if packed is None or not is_short(B * S, D):
        return None
    from pipeline.engine.encoder import project_source  # numba: half a second that training does not need
    out = np.empty((len(packed.bias) // D // 2, 2, B, style.heads, S, D // style.heads), packed.bias.dtype)
    project_source(states.contiguous().numpy(), packed, out)
    return torch.from_numpy(out)


def decode(x: Tensor, packed: Packed, style: Style, state: State, mask: Tensor | None) -> Tensor:
    """`lean.decode` in one call; x, (R, n, D), may be overwritten."""
    from pipeline.engine.decoder import decode as compiled  # numba: half a second that training does not need
    R, n, D = x.shape
    x = x.contiguous()
    made, lengths = reading(packed, style, state, n, seen(mask))
    compiled(x.numpy(), lengths, np.zeros_like(lengths), made)
    return x.view(R * n, D)


def step(tokens: Tensor, packed: Packed, style: Style, state: State, mask: Bools,
         projected: bool) -> tuple[Tensor, Tensor]:
    """Everything between few tokens and their logits in one call: around the arithmetic there is little left.

    Args:
        tokens: (R, n), the next of every row.
        packed: the decoder.
        mask: (1, T, T), true where a slot may see another.
        projected: whether logits are wanted.

    Returns:
        The decoder's last states, (R, n, D), and logits, (R, n, V) or none.

    Raises:
        IndexError: what stands among the tokens is no token, or there are more than places.
    """
    from pipeline.engine.decoder import step as compiled  # numba: half a second that training does not need
    read = tokens.contiguous().numpy()
    (R, n), number = read.shape, packed.positions.dtype
    hidden = np.empty((R, n, packed.positions.shape[1]), number)
    logits = np.empty((R if projected else 0, n, len(packed.output_scale)), number)
    made, lengths = reading(packed, style, state, n, mask)
    if not compiled(read, lengths, made, hidden, logits):
        raise IndexError(f"token {read.min()} or {read.max()} is outside the vocabulary of {len(packed.embeddings)}, "
                         f"or {lengths.max() + n} tokens are more than the {len(packed.positions)} places")
    return torch.from_numpy(hidden), torch.from_numpy(logits)


def reading(packed: Packed, style: Style, state: State, tokens: int, mask: Bools) -> tuple[Reading, Ints]:
    """A decoder that reads up to so many tokens more, for which a state has room, and (R,) tokens that it has read."""
    past, source, lengths = state.arrays(tokens)
    return Reading(packed, past, source, mask, seen(state.source_mask), style.pre, style.relu), lengths


def seen(mask: Tensor | None) -> Bools:
    """A mask without its dimension of heads, (1 or R, 1 or n, T); no rows where everything is seen."""
    if mask is None:
        return _EVERYTHING
    return np.ascontiguousarray(mask.view(-1, *mask.shape[-2:]).numpy())
