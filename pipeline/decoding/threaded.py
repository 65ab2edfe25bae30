"""The sentences of a batch, searched in several threads: one by one, a few at a time, or a portion of them in each.

Sentences share a batch so that weights are read, and operations started, once for all of them. A small model does not
need a large one: its weights stay in the processor's caches, and one compiled call searches a sentence, or a few that
are about equally long. That call does not hold Python's global lock, so the threads run in parallel. No sentence waits
for a much longer one or depends on the others.

A larger model needs it, but not for all sentences of a large batch: from some number on, multiplying weights takes
longer than reading them. Threads that share the products of one batch wait for each other before and after every one,
and for what one of them does alone in between. With a portion of the batch each, they do not.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.verify import Round, Verification
from pipeline.engine.threads import in_threads
from pipeline.vocabulary import PAD


def search_in_threads(search: Callable[[Tensor], Hypotheses], source: Tensor, at_once: int = 1) -> Hypotheses:
    """Search a batch in as many threads as PyTorch has, one or a few sentences at a time.

    Args:
        search: of at most `at_once` sentences (b, S), safe in several threads, as only compiled models are.
        source: (B, S) ids, B >= 1, right-padded with PAD.
        at_once: the number of sentences, neighbours in length.

    Returns:
        The hypotheses of all sentences. The first error is raised here, and no further sentence is begun.
    """
    lengths = _lengths(source)
    rows = _longest_first(lengths)
    tasks = [rows[begin:begin + at_once] for begin in range(0, len(rows), at_once)]
    return _search_tasks(search, source, lengths, tasks)


def search_rows(search: Callable[[int, Tensor], Hypotheses], source: Tensor, *, threads: bool) -> Hypotheses:
    """Search the sentences of a batch one by one.

    Args:
        search: of one sentence: its place in the batch and its ids, (1, S).
        source: (B, S) ids, B >= 1, right-padded with PAD.
        threads: whether in as many threads as PyTorch has, which is safe with compiled models only.

    Returns:
        The hypotheses of all sentences. The first error is raised here, and no further sentence is begun.
    """
    lengths = _lengths(source)
    if len(lengths) == 1:
        return search(0, source[:, :lengths[0]])

    def one(row: int) -> Hypotheses:
        return search(row, source[row:row + 1, :lengths[row]])

    rows = _longest_first(lengths)
    found = in_threads(one, rows) if threads else {row: one(row) for row in rows}
    return join([found[row] for row in rows], [[row] for row in rows])


def search_in_portions(search: Callable[[Tensor], Hypotheses], source: Tensor, portions: int) -> Hypotheses:
    """Search a batch in portions, each in a thread of its own.

    Args:
        search: of a portion (b, S), safe in several threads, as only compiled models are.
        source: (B, S) ids, right-padded with PAD.
        portions: at most B, of sentences that are about equally long.

    Returns:
        The hypotheses of all sentences. The first error is raised here.
    """
    lengths = _lengths(source)
    rows = _longest_first(lengths)
    return _search_tasks(search, source, lengths, [rows[portion::portions] for portion in range(portions)])


def _search_tasks(search: Callable[[Tensor], Hypotheses], source: Tensor, lengths: Sequence[int],
                tasks: Sequence[Sequence[int]]) -> Hypotheses:
    """Search the sentences of each task together, in threads; the first one of a task is its longest."""
    found = in_threads(lambda task: search(source[tasks[task], :lengths[tasks[task][0]]]), range(len(tasks)))
    return join([found[task] for task in range(len(tasks))], tasks)


def _lengths(source: Tensor) -> list[int]:
    """Pieces of every sentence, at least one."""
    lengths: list[int] = (source != PAD).sum(1).clamp(min=1).tolist()
    return lengths


def _longest_first(lengths: Sequence[int]) -> list[int]:
    """The sentences in the order in which threads take them, so that none begins a long one when the others are done.
    """
    return sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)


def join(found: Sequence[Hypotheses], rows: Sequence[Sequence[int]]) -> Hypotheses:
    """The hypotheses of one or more searches, all with the same number per sentence, as those of one search.

    Args:
        found: of each search.
        rows: of each search, the places of its sentences in the batch; all of these once.
    """
    places = torch.tensor([row for some in rows for row in some]).argsort()
    longest = max(one.tokens.shape[2] for one in found)
    tokens = torch.cat([F.pad(one.tokens, (0, longest - one.tokens.shape[2]), value=PAD) for one in found])
    lengths, ended, calls = (torch.cat([getattr(one, name) for one in found])[places]
                             for name in ("lengths", "ended", "calls"))
    verifications = [one.verification for one in found if one.verification is not None]
    return Hypotheses(tokens[places], lengths, lambda: torch.cat([one.scores for one in found])[places], ended, calls,
                      _join_verifications(verifications, rows, places))


def _join_verifications(found: Sequence[Verification], rows: Sequence[Sequence[int]],
                        places: Tensor) -> Verification | None:
    if not found:
        return None
    return Verification(found[0].exact, torch.cat([one.drafter_calls for one in found])[places],
                        lambda: _join_rounds([one.rounds for one in found], rows))


def _join_rounds(found: Sequence[Sequence[Round]], rows: Sequence[Sequence[int]]) -> list[Round]:
    """The rounds of several searches as those of one, which a sentence leaves when it is done."""
    joined = []
    for now in range(max(map(len, found))):
        rounds = [(torch.tensor(some)[one[now].sentences], one[now])
                  for some, one in zip(rows, found, strict=True) if now < len(one)]
        longest = max(one.draft.shape[1] for _, one in rounds)
        sentences = torch.cat([some for some, _ in rounds])
        draft, verdict = (torch.cat([F.pad(tokens, (0, width - tokens.shape[1]), value=PAD) for tokens in column])
                          for width, column in ((longest, [one.draft for _, one in rounds]),
                                                (longest + 1, [one.verdict for _, one in rounds])))
        order = sentences.argsort()
        joined.append(Round(*(column[order] for column in (
            sentences, draft, verdict, torch.cat([one.accepted for _, one in rounds])))))
    return joined
