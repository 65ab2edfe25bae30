"""The sentences of a batch, searched one by one in several threads.

Sentences share a batch so that weights are read, and operations started, once for all of them. A small model does not
need that: its weights stay in the processor's caches, and one compiled call searches a sentence. That call does not
hold Python's global lock, so the threads run in parallel. No sentence is padded, waits for a longer one or depends on
the others.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.verify import Round, Verification
from pipeline.engine.threads import in_threads
from pipeline.vocabulary import PAD


def search_in_threads(search: Callable[[Tensor], Hypotheses], source: Tensor) -> Hypotheses:
    """`search_rows` by one search for all sentences, in threads."""
    return search_rows(lambda row, sentence: search(sentence), source, threads=True)


def search_rows(search: Callable[[int, Tensor], Hypotheses], source: Tensor, *, threads: bool) -> Hypotheses:
    """Search the sentences of a batch one by one.

    Args:
        search: of one sentence: its place in the batch and its ids, (1, S).
        source: (B, S) ids, B >= 1, right-padded with PAD.
        threads: whether in as many threads as PyTorch has: only compiled models bear that.

    Returns:
        The hypotheses of all sentences. The first error is raised here, and no further sentence is begun.
    """
    lengths = (source != PAD).sum(1).clamp(min=1).tolist()
    if len(lengths) == 1:
        return search(0, source[:, :lengths[0]])
    # The longest first, so that no thread begins with one when the others are done.
    rows = sorted(range(len(source)), key=lengths.__getitem__, reverse=True)

    def one(row: int) -> Hypotheses:
        return search(row, source[row:row + 1, :lengths[row]])

    found = in_threads(one, rows) if threads else {row: one(row) for row in rows}
    return join([found[row] for row in range(len(source))])


def join(found: Sequence[Hypotheses]) -> Hypotheses:
    """The hypotheses of one or more searches, all with the same number per sentence, as those of one search."""
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
    """The rounds of single sentences as those of a batch, which a sentence leaves when it is done."""
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
