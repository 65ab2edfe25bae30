"""A batch of sentences, each searched by itself, on all cores at the same time.

Sentences share a batch so that weights are read, and operations started, once for all of them. A small model has no use
for that: its weights stay in the processor's caches, and one sentence is one compiled call. That call holds no lock, so
as many sentences as there are threads are searched at a time. None of them is padded, waits for the longest one of its
batch, or comes back to Python between its steps, and what is found for one does not depend on the others.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.verify import Round, Verification
from pipeline.engine.threads import in_threads
from pipeline.vocabulary import PAD


def search_apart(search: Callable[[Tensor], Hypotheses], source: Tensor) -> Hypotheses:
    """Search the sentences of a batch one by one, in as many threads as PyTorch has.

    Args:
        search: of one sentence, (1, S) ids.
        source: (B, S) ids, B >= 1, padded with PAD after them.

    Returns:
        What it finds, of all sentences. An error of one of them is raised here, and no further one is begun.
    """
    lengths = (source != PAD).sum(1).clamp(min=1).tolist()
    # The longest first, so that no thread begins with one when the others have nothing left to do.
    rows = sorted(range(len(source)), key=lengths.__getitem__, reverse=True)
    found = in_threads(lambda row: search(source[row:row + 1, :lengths[row]]), rows)
    return join([found[row] for row in range(len(source))])


def join(found: Sequence[Hypotheses]) -> Hypotheses:
    """The hypotheses of several searches as those of one.

    Args:
        found: at least one, as many hypotheses a sentence in each.
    """
    longest = max(one.tokens.shape[2] for one in found)
    tokens = torch.cat([F.pad(one.tokens, (0, longest - one.tokens.shape[2]), value=PAD) for one in found])
    lengths, ended, calls = (torch.cat([getattr(one, name) for one in found]) for name in ("lengths", "ended", "calls"))
    return Hypotheses(tokens, lengths, lambda: torch.cat([one.scores for one in found]), ended, calls,
                      _join_verifications([one.verification for one in found if one.verification is not None]))


def _join_verifications(parts: Sequence[Verification]) -> Verification | None:
    if not parts:
        return None
    return Verification(parts[0].exact, torch.cat([one.drafter_calls for one in parts]),
                        lambda: _join_rounds([one.rounds for one in parts]))


def _join_rounds(parts: Sequence[Sequence[Round]]) -> list[Round]:
    """The rounds of single sentences as those of a batch, in which a sentence takes part as long as it is not done."""
    joined = []
    for now in range(max(map(len, parts))):
        rounds = {row: part[now] for row, part in enumerate(parts) if now < len(part)}
        longest = max(one.draft.shape[1] for one in rounds.values())
        draft, verdict = (torch.cat([F.pad(tokens, (0, width - tokens.shape[1]), value=PAD) for tokens in column])
                          for width, column in ((longest, [one.draft for one in rounds.values()]),
                                                (longest + 1, [one.verdict for one in rounds.values()])))
        joined.append(Round(torch.tensor(list(rounds)), draft, verdict,
                            torch.cat([one.accepted for one in rounds.values()])))
    return joined
