"""Whether a decoder that promises the output of greedy search has it, except where only rounding decided.

A call of ten tokens is rounded differently from ten calls of one. Where two tokens are almost equally probable, either
may then win, and the rest of the hypothesis differs: a numerical tie. The verifier certifies it with a teacher-forced
pass over the common prefix: at the first difference, the log-probabilities of the two tokens must not differ by more
than rounding in their type explains. Any other difference is a bug and stops the evaluation.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.engine.door import compiles_steps, open_engine
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

MARGINS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.25}
"""The largest difference between the log-probabilities of two tied tokens: the rounding error of logits of about 10
after some dozens of operations."""
_QUANTISED = 0.25
"""The same where torch computes a quantised model: a difference in the last bit may round a number to another of its 8
bits, and some layers later all of them. The engine's bits are the same in any batch and after any draft."""


def count_ties(verifier: Transformer, source: Tensor, greedy: Hypotheses, found: Hypotheses, name: str) -> int:
    """Sentences of a batch that differ from greedy search by a numerical tie.

    Args:
        verifier: the model of both searches.
        source: (B, S) ids, padded with PAD on the right.
        greedy, found: hypotheses of B sentences.
        name: of the decoder of `found`, for the error message.

    Raises:
        PipelineError: a sentence differs by more than a numerical tie.
    """
    columns = 1 + max(greedy.tokens.shape[2], found.tokens.shape[2])
    mine, theirs = (_with_end(one, columns, verifier.order.end) for one in (found, greedy))
    rows = (mine != theirs).any(1).nonzero().squeeze(1)
    if len(rows) == 0:
        return 0
    mine, theirs = mine[rows], theirs[rows]
    first = (mine != theirs).int().argmax(1)
    verifier = open_engine(verifier) if verifier.quantised else verifier
    with torch.inference_mode():
        logits = _teacher_forced(verifier, source[rows], theirs[:, :int(first.max()) + 1])
    at = logits[torch.arange(len(rows), device=first.device), first].log_softmax(1)
    pair = torch.stack([one.gather(1, first.unsqueeze(1)).squeeze(1) for one in (mine, theirs)], 1)
    # Where one of them was cut, there is no token to compare with.
    gaps = at.gather(1, pair).diff(dim=1).abs().squeeze(1).masked_fill((pair == PAD).any(1), torch.inf)
    margin = _QUANTISED if verifier.quantised and not compiles_steps(verifier) else MARGINS[logits.dtype]
    if not bool((gaps < margin).all()):
        worst = int(gaps.nan_to_num(torch.inf).argmax())
        raise PipelineError(f"{name}: sentence {int(rows[worst]) + 1} of a batch differs from greedy search from token "
                            f"{int(first[worst]) + 1} on, and the two tokens differ by {float(gaps[worst]):.2g} in "
                            f"log-probability, more than rounding explains ({margin:g}): this is a bug; report it")
    return len(rows)


def _teacher_forced(verifier: Transformer, source: Tensor, tokens: Tensor) -> Tensor:
    """Logits (B, T, V) of all tokens (B, T); of a quantised model in a step, which has the bits of a search."""
    if not verifier.quantised:
        logits: Tensor = verifier(source, tokens)
        return logits
    inputs = torch.cat([verifier.start_symbols.expand(len(tokens), -1), tokens[:, :-1]], 1)
    return verifier.step(inputs, verifier.start(verifier.encode(source)))


def _with_end(found: Hypotheses, columns: int, end: int) -> Tensor:
    """The best hypotheses, each with its end symbol if it has one, (B, columns), padded with PAD."""
    tokens = F.pad(found.tokens[:, 0], (0, columns - found.tokens.shape[2]), value=PAD)
    lengths = found.lengths[:, :1]
    is_next = torch.arange(columns, device=tokens.device) == lengths
    return tokens.masked_fill(is_next & found.ended[:, :1], end)
