"""Metrics of a validation: sums over its batches, which torchmetrics adds up over any number of devices."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from pipeline.bleu import make_bleu
from pipeline.decoding.hypotheses import Hypotheses


class CorpusBleu(Metric):
    """sacreBLEU's corpus BLEU, exactly: its counts of n-grams are integers, and so are their sums."""

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    counts: Tensor

    def __init__(self, tokenizer: str, of_all_devices: bool = True) -> None:
        """Args:
            tokenizer: sacreBLEU's name of it; see `EvaluationSettings.bleu_tokenizer`.
            of_all_devices: whether `compute`, which all devices then call, is over what each of them has added.
        """
        super().__init__(sync_on_compute=of_all_devices)
        self._bleu = make_bleu(tokenizer)
        sums = 2 + 2 * self._bleu.max_ngram_order
        # Tokens of the hypotheses and of the references; then, per order, n-grams that match and all n-grams.
        self.add_state("counts", torch.zeros(sums, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Add N hypotheses and their references; N may be 0.

        Raises:
            ValueError: there are not as many references.
        """
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
        if hypotheses:
            found = self._bleu.corpus_score(hypotheses, [references])
            self.counts += torch.tensor([found.sys_len, found.ref_len, *found.counts, *found.totals],
                                        device=self.counts.device)

    def compute(self) -> Tensor:
        """A scalar in percent, in double precision and therefore on the CPU."""
        hypothesis_tokens, reference_tokens, *counts = self.counts.tolist()
        orders = self._bleu.max_ngram_order
        found = self._bleu.compute_bleu(counts[:orders], counts[orders:], hypothesis_tokens, reference_tokens,
                                        smooth_method=self._bleu.smooth_method, smooth_value=self._bleu.smooth_value)
        return torch.tensor(found.score, dtype=torch.float64)


class AcceptedPerCall(Metric):
    """Accepted tokens per call of the verifier, end symbols included; NaN if nothing was verified."""

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    accepted: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("accepted", "calls"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, found: Hypotheses | None) -> None:
        """Add the hypotheses of a batch; None, and those of a search that does not verify, count nothing."""
        if found is not None and found.verification is not None:
            self.accepted += (found.lengths + found.ended).sum()
            self.calls += found.calls.sum()

    def compute(self) -> Tensor:
        """A scalar in double precision on the CPU."""
        return self.accepted.cpu().double() / self.calls.cpu()
