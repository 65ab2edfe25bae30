"""Mask-Predict (Ghazvininejad et al. 2019): predict all words, hide the least certain ones, predict those again.

The paper leaves open, and this file chooses:

* Iteration t = 0, 1, … hides floor(n * (T - t) / T) of n words, all of them at first. Where that is 0 before iteration
  T, a short sentence is done, and the remaining calls are neither made nor counted.
* Of equally probable words the one with the lowest id is predicted; of equally certain words the first is hidden; of
  equally good candidates the one of the more probable length is the better.
* Candidates are ranked by their mean log-probability per word, as in the paper, unless another length penalty is set:
  the mean of few words is often the better one, although they leave something out.
* Symbols that are not words are never predicted; the probabilities of words are not renormalised.
* An empty target has no words to average over: it is the translation if 0 is the most probable length, and no candidate
  otherwise.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.checks import Checked, Positive, Refused
from pipeline.decoding.beams import LengthPenalty
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.protocol import DecoderState, MaskedModel
from pipeline.decoding.traits import Traits
from pipeline.engine.sentence import mask_predict
from pipeline.errors import PipelineError
from pipeline.model.top import best, lowest
from pipeline.vocabulary import BOS, EOD, EOS, LENGTH, MASK, PAD

TRAITS = Traits(kind="masked", in_one_call=True, reads_at_once=True)
_NO_WORDS = (PAD, BOS, EOS, MASK, EOD, LENGTH)


@dataclass(frozen=True)
class Settings(Checked):
    """Mask-Predict."""

    iterations: Positive = 10
    """T."""
    candidates: Positive = 5
    """K, the most probable lengths, which are decoded side by side (the paper's l)."""
    length_penalty: LengthPenalty = field(default_factory=LengthPenalty)
    """Ranks candidates of different lengths by their words' log-probabilities; the default is their mean."""
    nbest: Positive = 1
    """N <= K, hypotheses to return."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.candidates:
            raise Refused(f"nbest: {self.nbest} must not exceed the candidates, {self.candidates}")


@torch.inference_mode()
def search(model: MaskedModel, source: Tensor, limit: LengthLimit, settings: Settings) -> Hypotheses:
    """Translate with K lengths per sentence, none over the limit, and T iterations.

    Returns:
        Hypotheses that all have `ended`. Scores are sums of log-probabilities, each word's from the iteration that
        last predicted it, divided by the length penalty. Calls are those in which a word of the sentence was predicted;
        predicting the length takes none.

    Raises:
        PipelineError: the model knows fewer than K lengths.
    """
    B, T, K = len(source), settings.iterations, settings.candidates
    memory = model.encode(source)
    length_scores = model.lengths(memory)
    lengths, possible = _candidates(length_scores, limit.words(source), K)
    longest = int(lengths.max()) if B else 0
    state = model.start(memory, beams=K, capacity=longest)
    rows = lengths.flatten()  # the K candidates of a sentence are neighbours
    tokens, certainty, calls = (_in_one_call(model, state, rows, T) if B == 1 else None) or _predict(
        model, state, lengths, T, torch.promote_types(length_scores.dtype, torch.float32))

    padding = tokens == PAD
    penalised = certainty.masked_fill(padding, 0).sum(1) / settings.length_penalty(rows.clamp(min=1).to(certainty))
    scores = penalised.view(B, K).masked_fill(~possible, -torch.inf)
    scores, order = (one[:, :settings.nbest] for one in scores.sort(dim=1, descending=True, stable=True))
    chosen = tokens.view(B, K, longest).gather(1, order.unsqueeze(2).expand(-1, -1, longest))
    return Hypotheses(chosen, lengths.gather(1, order), scores, possible.gather(1, order), calls)


def _in_one_call(model: MaskedModel, state: DecoderState, lengths: Tensor,
                 iterations: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """`_predict` for one sentence in one compiled call; None if the model is not compiled."""
    found = mask_predict(model, state, lengths.cpu().numpy(), iterations, _NO_WORDS)
    if found is None:
        return None
    return torch.from_numpy(found.tokens), torch.from_numpy(found.certainty), torch.tensor([found.calls])


def _predict(model: MaskedModel, state: DecoderState, lengths: Tensor, iterations: int,
             dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Predict all words of every candidate, and repeatedly the least certain ones.

    Args:
        model: a conditional masked language model.
        state: of B sentences with K candidates.
        lengths: (B, K) words.
        iterations: T.
        dtype: of log-probabilities; in two bytes different candidates would be equal.

    Returns:
        Words (B * K, N), right-padded with PAD, their log-probabilities (B * K, N), infinite for PAD, and each
        sentence's calls (B,).
    """
    (B, _), rows, longest = lengths.shape, lengths.flatten(), int(lengths.max()) if len(lengths) else 0
    padding = torch.arange(longest, device=rows.device) >= rows.unsqueeze(1)
    tokens = torch.full_like(padding, MASK, dtype=torch.long).masked_fill_(padding, PAD)
    certainty = torch.zeros_like(padding, dtype=dtype).masked_fill_(padding, torch.inf)
    no_words, calls = torch.tensor(_NO_WORDS, device=rows.device), lengths.new_zeros(B)
    for t in range(iterations):
        if longest * (iterations - t) // iterations == 0:
            break
        hidden = lowest(certainty, rows * (iterations - t) // iterations)
        state.rewind(0)
        log_probabilities = model.step(tokens.masked_fill_(hidden, MASK), state).log_softmax(2, dtype=dtype)
        words = best(log_probabilities.index_fill_(2, no_words, -torch.inf))
        predicted = log_probabilities.gather(2, words.unsqueeze(2)).squeeze(2)
        tokens, certainty = torch.where(hidden, words, tokens), torch.where(hidden, predicted, certainty)
        calls += hidden.view(B, -1).any(1)
    return tokens, certainty, calls


def _candidates(log_probabilities: Tensor, words: Tensor, K: int) -> tuple[Tensor, Tensor]:
    """The most probable lengths of each sentence.

    Args:
        log_probabilities: (B, n) of the lengths 0 .. n - 1.
        words: (B,) greatest lengths.
        K: number of lengths.

    Returns:
        Lengths (B, K), most probable first, and whether each is allowed; lengths that are not allowed are 0.
    """
    n = log_probabilities.shape[1]
    if n < K:
        raise PipelineError(f"candidates: {K} must not exceed the {n} lengths that the model knows; lower it")
    every = torch.arange(n, device=words.device)
    allowed = log_probabilities.masked_fill(every > words.unsqueeze(1), -torch.inf)
    empty_but_not_best = (every == 0) & (allowed < allowed.amax(1, keepdim=True))
    allowed = allowed.masked_fill(empty_but_not_best, -torch.inf)
    scores, lengths = (one[:, :K] for one in allowed.sort(dim=1, descending=True, stable=True))
    possible = scores > -torch.inf
    return lengths.masked_fill(~possible, 0), possible
