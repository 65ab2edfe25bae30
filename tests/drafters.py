"""Drafters for tests: small networks for a verifier, and ones whose proposals are written down."""

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from sentences import sources
from torch import Tensor

from pipeline.corpus.datamodule import Batch
from pipeline.decoding.prefix import Prefix
from pipeline.engine import packing
from pipeline.engine.door import open_engine
from pipeline.engine.packing import pack_matrix
from pipeline.engine.sentence import Sentence
from pipeline.families.drafter import DrafterModule
from pipeline.families.settings import OptimisationSettings
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.drafter import DrafterTransformer, make_drafter
from pipeline.model.heads import BlockwiseHeads
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

Row = tuple[int, ...]
Proposals = Callable[[int, Row], Sequence[int]]
"""From a sentence's place in the batch and what it has accepted to what is proposed after it."""

_SETTINGS: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 0, "decoder_layers": 1,
                             "max_length": 48, "dropout": 0.0, "tied_embeddings": "none"}


def drafter(verifier: Transformer, *, prefix: str = "causal", block: int = 5, seed: int = 3, chained: bool = False,
            **changes: Any) -> DrafterTransformer:
    """A small opened drafter with weights of its verifier where they fit, as training starts from them.

    The causal one with as many layers as the verifier and no chain then gets the first token of every draft right, and
    some others. A chain has random weights.
    """
    torch.manual_seed(seed)
    network = make_drafter(NetworkSettings(**{**_SETTINGS, **changes}), verifier.source_embedding.num_embeddings,
                           verifier.projection.out_features, block, prefix, chained)
    given = unique_weights(verifier)
    with torch.no_grad():
        if network.chain is not None:
            torch.nn.init.normal_(network.chain.outer.weight)
        for name, weight in unique_weights(network).items():
            if name in given and given[name].shape == weight.shape:
                weight.copy_(given[name])
    network.attach_verifier(verifier)
    opened: DrafterTransformer = open_engine(network.to(verifier.projection.weight.dtype).eval())
    return opened


def with_heads(verifier: Transformer, block: int = 4, seed: int = 6, chained: bool = False) -> BlockwiseHeads:
    """An opened model with heads of random weights."""
    torch.manual_seed(seed)
    vocabulary = verifier.source_embedding.num_embeddings, verifier.projection.out_features
    network = BlockwiseHeads(verifier.settings, *vocabulary, verifier.order, block, chained).double()
    torch.nn.init.normal_(network.heads_outer, std=0.3)
    if network.chain is not None:
        torch.nn.init.normal_(network.chain.outer.weight, std=0.3)
    network.copy_verifier(verifier)
    opened: BlockwiseHeads = open_engine(network)
    return opened


@contextmanager
def unrounded() -> Iterator[None]:
    """Compiled drafters multiply what torch's multiply, so that both say the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "pack_matrix", lambda weight, rounded: pack_matrix(weight, False))
        yield


@dataclass
class ScriptedDrafter:
    """Proposes what a function returns, as far as there is room; it checks what it is told about prefixes."""

    sentences: list[int]
    """Places in the batch of the rows that are still alive."""
    proposals: Proposals
    block: int = 99

    def draft(self, prefix: Prefix, room: int) -> Tensor:
        lengths = prefix.counts.tolist()
        assert len(lengths) == len(self.sentences) == len(prefix.tokens) and room >= 0
        assert (prefix.longest, prefix.is_uniform) == (max(lengths), min(lengths) == max(lengths))
        rows = [tuple(row[:length]) for row, length in zip(prefix.tokens.tolist(), lengths, strict=True)]
        assert prefix.last.flatten().tolist() == [row[-1] for row in rows]
        drafts = [list(self.proposals(sentence, row[1:]))[:room]
                  for sentence, row in zip(self.sentences, rows, strict=True)]
        longest = max(map(len, drafts))
        return prefix.tokens.new_tensor([draft + [PAD] * (longest - len(draft)) for draft in drafts])

    def in_one_call(self, sentence: Sentence) -> None:
        """The engine has no loop for it."""

    def select(self, rows: Tensor) -> None:
        self.sentences = [self.sentences[row] for row in rows.tolist()]

    def calls(self, rounds: Tensor) -> Tensor:
        return torch.zeros_like(rounds)


def told(outputs: Sequence[Row], k: int, wrong: float = 0.0, seed: int = 0, vocabulary: int = 20) -> Proposals:
    """An oracle of what each sentence will say, k tokens at a time, that errs with probability `wrong`.

    With `wrong` = 1 it proposes random tokens, and random ones after the end as well.
    """
    def proposals(sentence: int, accepted: Row) -> list[int]:
        choose = random.Random(f"{seed} {sentence} {accepted}")
        known = outputs[sentence][len(accepted):][:k]
        known += tuple(choose.randrange(vocabulary) for _ in range(k - len(known) if wrong else 0))
        return [choose.randrange(vocabulary) if choose.random() < wrong else token for token in known]
    return proposals


# A family: modules that train.

VOCABULARY = VocabularySettings(40, 40, "toy")


def save_verifier(folder: Path, tiny: Callable[..., Transformer]) -> str:
    """Write the checkpoint of a random model to draft for."""
    network = tiny(dtype=torch.float32, vocabulary=VOCABULARY.target, seed=5, width=32, max_length=16)
    save_checkpoint(folder, network, VOCABULARY, unique_weights(network), {})
    return str(folder)


def make_module(verifier: str, seed: int = 1, block: int = 4, digest: str = "toy",
                drafting: dict[str, Any] | None = None, **changes: Any) -> DrafterModule:
    """A module that drafts for the checkpoint of `save_verifier`."""
    torch.manual_seed(4)
    network = NetworkSettings(**{"width": 32, "heads": 2, "feed_forward": 64, "encoder_layers": 0, "decoder_layers": 1,
                                 "dropout": 0.0, "max_length": 16, **changes})
    optimisation = OptimisationSettings(learning_rate=0.01, warmup_steps=20, label_smoothing=0.0)
    return DrafterModule(network, optimisation, dataclasses.replace(VOCABULARY, digest=digest), verifier, block,
                         **(drafting or {}), seed=seed)


def make_batch(*lengths: int, first_row: int = 0) -> Batch:
    """Random pairs whose targets have these lengths."""
    generator = torch.Generator().manual_seed(8)
    target = torch.randint(7, VOCABULARY.target, (len(lengths), max(lengths)), generator=generator)
    counts = torch.tensor(lengths)
    target = target.masked_fill(torch.arange(max(lengths)) >= counts.unsqueeze(1), PAD)
    rows = torch.arange(first_row, first_row + len(lengths))
    source = sources(*[1 + length for length in lengths], vocabulary=VOCABULARY.source)
    return Batch(rows, source, target, counts, 1 / 50)
