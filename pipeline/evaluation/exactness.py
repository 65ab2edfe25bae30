"""Whether a decoder that promises greedy search's output keeps its word, and where rounding alone decided.

A call of ten tokens is rounded otherwise than ten calls of one. Where two words are as good as equally probable, the
other one may then win, and what follows is another sentence: a numerical tie. It is certified by the verifier, which
reads the common words as it does in training: at the first difference, the log-probabilities of the two words must lie
closer together than rounding in their type can explain. Any other difference is a bug, and stops the evaluation.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.errors import PipelineError
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

MARGINS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.25}
"""Between the log-probabilities of two tied words: logits of about 10 are rounded to so much of the type's last places
after some dozens of operations."""


def count_ties(verifier: Transformer, source: Tensor, greedy: Hypotheses, found: Hypotheses, name: str) -> int:
    """Sentences of a batch that differ from greedy search by a numerical tie.

    Args:
        verifier: that both have searched.
        source: (B, S) ids, padded with PAD behind.
        greedy, found: hypotheses of B sentences.
        name: of what was to find the same, for the error message.

    Raises:
        PipelineError: a sentence differs by more than that.
    """
    columns = 1 + max(greedy.tokens.shape[2], found.tokens.shape[2])
    mine, theirs = (_with_end(one, columns, verifier.order.end) for one in (found, greedy))
    rows = (mine != theirs).any(1).nonzero().squeeze(1)
    if len(rows) == 0:
        return 0
    mine, theirs = mine[rows], theirs[rows]
    first = (mine != theirs).int().argmax(1)
    with torch.inference_mode():
        logits = verifier(source[rows], theirs[:, :int(first.max()) + 1])
    at = logits[torch.arange(len(rows), device=first.device), first].log_softmax(1)
    pair = torch.stack([one.gather(1, first.unsqueeze(1)).squeeze(1) for one in (mine, theirs)], 1)
    # Where one of them was cut, there is no word to compare with.
    gaps = at.gather(1, pair).diff(dim=1).abs().squeeze(1).masked_fill((pair == PAD).any(1), torch.inf)
    margin = MARGINS[logits.dtype]
    if not bool((gaps < margin).all()):
        worst = int(gaps.nan_to_num(torch.inf).argmax())
        raise PipelineError(f"{name}: sentence {int(rows[worst]) + 1} of a batch is not greedy search's from word "
                            f"{int(first[worst]) + 1} on, and the two words differ by {float(gaps[worst]):.2g} in "
                            f"log-probability, more than rounding explains ({margin:g}): this is a bug; report it")
    return len(rows)


def _with_end(found: Hypotheses, columns: int, end: int) -> Tensor:
    """The best words with their end symbol where they have one, (B, columns), padded with PAD."""
    tokens = F.pad(found.tokens[:, 0], (0, columns - found.tokens.shape[2]), value=PAD)
    lengths = found.lengths[:, :1]
    behind = torch.arange(columns, device=tokens.device) == lengths
    return tokens.masked_fill(behind & found.ended[:, :1], end)
