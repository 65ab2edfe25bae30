"""Metrics of a validation add up over batches and devices to what they are of the whole."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import sacrebleu
import torch

from pipeline.training.metrics import AcceptedPerCall, CorpusBleu

HYPOTHESES = ["the cat sat on the mat", "a dog", "", "it is 5 o'clock, is it?", "the the the the the", "yes ."]
REFERENCES = ["the cat sat on a mat", "one dog barks", "nothing", "it is 5 o'clock, isn't it?", "the cat", "yes ."]


@pytest.mark.parametrize("tokenizer", ["13a", "char"])
@pytest.mark.parametrize("parts", [[6], [1] * 6, [0, 4, 2], [3, 0, 3]], ids=str)
def test_bleu_of_parts_is_sacrebleus_of_the_whole(parts: list[int], tokenizer: str) -> None:
    """To the last digit, whatever the batches are, and whichever device has them."""
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenizer).score
    together, devices, start = CorpusBleu(tokenizer), list[CorpusBleu](), 0
    for size in parts:
        part = HYPOTHESES[start:start + size], REFERENCES[start:start + size]
        together.update(*part)
        devices.append(CorpusBleu(tokenizer))
        devices[-1].update(*part)
        start += size
    added = devices[0]
    for device in devices[1:]:
        added.merge_state(device)  # as torchmetrics reduces the states of several processes
    assert together.compute().item() == added.compute().item() == expected > 0


def test_bleu_without_matches_is_zero() -> None:
    metric = CorpusBleu("13a")
    metric.update(["a"], ["b"])
    assert metric.compute().item() == 0 == sacrebleu.corpus_bleu(["a"], [["b"]]).score
    with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
        metric.update(["a"], ["b", "c"])


def found(lengths: list[int], ended: list[bool], calls: list[int], verified: bool = True) -> Any:
    return SimpleNamespace(lengths=torch.tensor(lengths).unsqueeze(1), ended=torch.tensor(ended).unsqueeze(1),
                           calls=torch.tensor(calls), verification=object() if verified else None)


def test_accepted_tokens_per_call_are_those_of_all_batches() -> None:
    """End symbols count, and a search that does not verify counts nothing."""
    metric = AcceptedPerCall()
    assert copy.deepcopy(metric).compute().isnan()
    for batch in (found([3, 5], [True, False], [2, 1]), None, found([4], [True], [3]), found([9], [True], [9], False)):
        metric.update(batch)
    assert metric.compute().item() == (3 + 1 + 5 + 4 + 1) / (2 + 1 + 3)
