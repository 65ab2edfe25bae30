"""The Jacobi paper's questions, each with what it needs of a run."""

from functools import partial

from torch import Tensor

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.protocol import is_ordered
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses.finding import Finding, Question, not_measured
from pipeline.evaluation.analyses.jacobi.ddg import jacobi_grid
from pipeline.evaluation.analyses.jacobi.known_length import ask_known_length
from pipeline.evaluation.analyses.jacobi.operations import ask_operations
from pipeline.evaluation.analyses.jacobi.scaling import ask_scaling
from pipeline.evaluation.analyses.jacobi.summary import ddg
from pipeline.evaluation.analyses.lab import Lab
from pipeline.model.transformer import Transformer

_ROWS = 64
"""Sentences a batch where only lengths are wanted."""


def jacobi_questions(lab: Lab) -> dict[str, Question]:
    """The questions by name.

    Raises:
        PipelineError: the baseline's checkpoint is missing or damaged.
    """
    return {"ddg": partial(ask_ddg, lab, lab.network(lab.params.baseline)),
            "known_length": partial(ask_known_length, lab), "operations": partial(ask_operations, lab),
            "scaling": partial(ask_scaling, lab)}


def ask_ddg(lab: Lab, network: Transformer | None) -> Finding:
    """Of the baseline, over the first long sentences of the test split."""
    params = lab.params
    if network is None or not is_ordered(network) or network.order.width != 1:
        return not_measured(f"the baseline {params.baseline!r} does not generate one word a step")
    sentences = _long(lab, network, params.analyses.jacobi.sentences)
    grids = [jacobi_grid(network, source, lab.limit(network)) for source in sentences]
    return ddg(grids, lab.tokenizer.target_pieces, {
        "family": params.baseline,
        "long_rule": f"greedy output of {params.baseline} has at least {params.speed.long_tokens} tokens"})


def _long(lab: Lab, network: Transformer, count: int) -> list[Tensor]:
    """The first of them, (1, S) ids each."""
    sources = [source for source, _ in lab.pairs("test")]
    found: list[Tensor] = []
    greedy, longest = make_decoder("greedy", {"algorithm": "greedy"}, lab.limit(network)), network.settings.max_length
    for start in range(0, len(sources), _ROWS):
        rows = sources[start:start + _ROWS]
        translated = greedy(network, pad_sources(rows, longest).to(lab.device))
        found += [pad_sources([row], longest).to(lab.device) for row, length in zip(
            rows, translated.lengths[:, 0].tolist(), strict=True) if length >= lab.params.speed.long_tokens]
        if len(found) >= count:
            break
    return found[:count]
