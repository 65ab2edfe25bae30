"""Linear chains: the best paths through a lattice, and the sum over all paths, by one recursion over a semiring.

A chain has N positions of K states. A path starts in a state of the first position, steps from position to position and
may end after any of them: paths of all lengths are searched in one pass. The score of a path is the sum of its edges'
scores. The semirings multiply by adding; they add by the maximum (Viterbi), the k highest (k-best) or the log-sum (the
partition function). The recursion is a row vector times N - 1 matrices, serially, or as an associative scan of depth
O(log N) (Särkkä and García-Fernández 2019), which needs K times the arithmetic and pays on devices with many cores.

No back-pointers are stored: the backtrace finds each predecessor from the forward scores again.

-inf means impossible. Of equally good paths the shorter one comes first, then the one with the lowest last state, then
with the lowest state before it, and so on (the scan may round sums differently). Scores that cannot be reached from the
first position, or are of positions after the last possible end, may have any values, NaN included.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engine.recorded import RECORDER
from pipeline.errors import PipelineError


class Edges(NamedTuple):
    """The scores of B chains of N positions and K states, of one floating type."""

    first: Tensor
    """(B, K), of starting in a state."""
    inner: Tensor
    """(B, N - 1, K, K): [b, t, i, j] of stepping from state i of position t to state j of position t + 1."""
    end: Tensor
    """(B, N, K), of ending after position t in state i."""


class Paths(NamedTuple):
    """The k best paths of B chains, best first. Missing ones have score -inf and length 0."""

    scores: Tensor
    """(B, k)."""
    lengths: Tensor
    """(B, k) positions."""
    states: Tensor
    """(B, k, N), 0 after the length."""


def viterbi(edges: Edges, divisors: Tensor | None = None) -> Paths:
    """The best path of every chain: `best_paths` with k = 1, on a CPU by a compiled kernel that gives the same bits.

    On a GPU it is `recorded_viterbi`.

    Raises:
        PipelineError: see `best_paths`.
    """
    if edges.first.device.type != "cpu":
        return recorded_viterbi(edges, divisors)
    if edges.first.dtype not in (torch.float32, torch.float64):
        return best_paths(edges, 1, divisors)
    from pipeline.engine.viterbi import best_path  # numba takes half a second to import
    first, inner, end = (scores.detach().contiguous().numpy() for scores in edges)
    B, N, _ = end.shape
    scores, lengths, states = np.empty(B, first.dtype), np.empty(B, np.int64), np.zeros((B, N), np.int64)
    dividing = np.ones(N, first.dtype) if divisors is None else divisors.numpy()
    broken = best_path(first, inner, end, dividing, scores, lengths, states)
    if broken >= 0:
        raise _not_finite(broken)
    return Paths(*(torch.from_numpy(found).unsqueeze(1) for found in (scores, lengths, states)))


def recorded_viterbi(edges: Edges, divisors: Tensor | None = None) -> Paths:
    """The best path of every chain as one operation of a GPU, where it is recorded (`Recorder`).

    Raises:
        PipelineError: see `best_paths`.
    """
    totals, *found = RECORDER("viterbi", _follow_pointers, *edges, *([] if divisors is None else [divisors]))
    _check(totals)
    return Paths(*found)


@torch.no_grad()
def _follow_pointers(first: Tensor, inner: Tensor, end: Tensor,
                     divisors: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best path of every chain, by pointers to predecessors: in few operations, without a look at a tensor.

    Returns:
        (B, N, K), the scores of the best paths that end there, to be checked; then the fields of `Paths`.
    """
    N, K = end.shape[1:]
    rows, pointers = [first], []
    for scores in inner.unbind(1):
        sums = _extend(rows[-1].unsqueeze(2), scores)
        highest, before = sums.max(1)  # of equal ones the first
        rows.append(highest)
        pointers.append(before)
    forward = _until_last_end(torch.stack(rows, 1), end)
    totals = _extend(forward, end)
    if divisors is not None:
        totals = totals / divisors.view(N, 1)
    best, at = totals.flatten(1).max(1)
    lengths = (at // K + 1).masked_fill(best == -torch.inf, 0)
    state, states = at % K, [at] * N
    for t in reversed(range(N)):
        if t < N - 1:
            state = torch.where(lengths > t + 1, pointers[t].gather(1, state.unsqueeze(1)).squeeze(1), state)
        states[t] = state
    inside = torch.arange(N, device=at.device) < lengths.unsqueeze(1)
    return totals, best.unsqueeze(1), lengths.unsqueeze(1), (torch.stack(states, 1) * inside).unsqueeze(1)


@torch.no_grad()
def best_paths(edges: Edges, k: int, divisors: Tensor | None = None, *, associative: bool = False) -> Paths:
    """The exact k best paths of every chain, which differ in their lengths or states.

    Args:
        edges: the chains.
        k: at least 1.
        divisors: (N,) positive numbers of the scores' type, by which the scores of paths of 1, 2, … N positions are
            divided before they are compared.
        associative: whether to use the scan.

    Raises:
        PipelineError: a score that can be reached is NaN or +inf.
    """
    B, N, K = edges.end.shape
    forward = _forward_scores(edges, lambda scores: _k_largest(scores, k), associative)
    totals = _extend(forward, edges.end.unsqueeze(3))
    if divisors is not None:
        totals = totals / divisors.view(N, 1, 1)
    _check(totals)
    scores, at = (one[:, :k] for one in totals.flatten(1).sort(dim=1, descending=True, stable=True))
    lengths = (at // (K * k) + 1).masked_fill(scores == -torch.inf, 0)
    state, rank = at // k % K, at % k  # of the last position

    states = at.new_zeros(B, k, N)
    for t in reversed(range(N)):
        if t < N - 1:
            inner = edges.inner[:, t].transpose(1, 2)  # by the later state
            steps = inner.gather(1, state.unsqueeze(2).expand(-1, -1, K))
            predecessors = _extend(forward[:, t].unsqueeze(1), steps.unsqueeze(3)).flatten(2)
            before = predecessors.argsort(dim=2, descending=True, stable=True).gather(2, rank.unsqueeze(2)).squeeze(2)
            inside = lengths > t + 1
            state, rank = torch.where(inside, before // k, state), torch.where(inside, before % k, rank)
        states[:, :, t] = state.masked_fill(lengths <= t, 0)
    return Paths(scores, lengths, states)


def log_partition(edges: Edges, *, associative: bool = False) -> Tensor:
    """The logarithm of the sum of exp(score) over all paths of all lengths, (B,); -inf where there is no path.

    Its gradient with respect to a score is the probability that a path uses that edge.

    Raises:
        PipelineError: a score that can be reached is NaN or +inf.
    """
    totals = _extend(_forward_scores(edges, _log_sum, associative), edges.end.unsqueeze(3))
    _check(totals)
    return _log_sum(totals.flatten(1)).squeeze(1)


Plus = Callable[[Tensor], Tensor]
"""A semiring's addition: n scores in the last dimension, (…, n), to an element of m numbers, (…, m)."""


def _log_sum(scores: Tensor) -> Tensor:
    """The log-sum, m = 1. If all scores are impossible, the gradient is 0, where that of PyTorch is NaN."""
    impossible = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(impossible, 0).logsumexp(-1, keepdim=True).masked_fill(impossible, -torch.inf)


def _k_largest(scores: Tensor, k: int) -> Tensor:
    """The k highest scores, m = k, highest first, and -inf if there are fewer."""
    if k == 1:
        return scores.amax(-1, keepdim=True)
    n = scores.shape[-1]
    return F.pad(scores.topk(min(k, n)).values, (0, max(k - n, 0)), value=-torch.inf)


def _forward_scores(edges: Edges, plus: Plus, associative: bool) -> Tensor:
    """The sum over all paths from the start to each state: (B, N, K, m), impossible after the last end."""
    first = plus(edges.first[:, None, :, None])
    if associative:
        products = _scan(plus(edges.inner.unsqueeze(4)), plus)
        reached = torch.cat((first, _product(first.unsqueeze(1), products, plus).squeeze(2)), 1)
    else:
        rows = [first]
        for inner in edges.inner.unsqueeze(4).unbind(1):
            rows.append(_product(rows[-1], inner, plus))
        reached = torch.cat(rows, 1)
    return _until_last_end(reached, edges.end)


def _until_last_end(reached: Tensor, end: Tensor) -> Tensor:
    """Scores (B, N, …) of positions, impossible after the last end of `Edges.end`."""
    ends = (end != -torch.inf).any(2)
    endless = ~ends.flip(1).cummax(1).values.flip(1)
    return reached.masked_fill(endless.view(*endless.shape, *[1] * (reached.dim() - 2)), -torch.inf)


def _scan(matrices: Tensor, plus: Plus) -> Tensor:
    """The products of the first 1, 2, … n of n matrices, both (B, n, K, K, m), in O(log n) batched products."""
    n = matrices.shape[1]
    if n < 2:
        return matrices
    even, odd = matrices[:, 0::2], matrices[:, 1::2]
    up_to_odd = _scan(_product(even[:, :n // 2], odd, plus), plus)
    up_to_even = _product(up_to_odd[:, :(n - 1) // 2], even[:, 1:], plus)
    products = torch.empty_like(matrices)
    products[:, 0], products[:, 1::2], products[:, 2::2] = matrices[:, 0], up_to_odd, up_to_even
    return products


def _product(left: Tensor, right: Tensor, plus: Plus) -> Tensor:
    """The product of matrices of a semiring: (…, I, J, a) and (…, J, L, b) to (…, I, L, m)."""
    terms = _extend(left[..., :, None, :, :, None], right.transpose(-3, -2)[..., None, :, :, None, :])
    return plus(terms.flatten(-3))


def _extend(left: Tensor, right: Tensor) -> Tensor:
    """left + right, and impossible where left is, whatever right is."""
    return (left + right).masked_fill(left == -torch.inf, -torch.inf)


def _check(totals: Tensor) -> None:
    finite = totals.flatten(1).amax(1) < torch.inf
    if not bool(finite.all()):
        raise _not_finite(int((~finite).nonzero()[0]))


def _not_finite(row: int) -> PipelineError:
    return PipelineError(f"the lattice's scores are not finite (NaN or +inf in sentence {row + 1} of the batch): the "
                         "model has diverged or overflows its precision; use float32, or train it again with a lower "
                         "learning_rate")
