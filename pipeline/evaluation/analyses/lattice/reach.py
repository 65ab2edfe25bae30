"""Which translations does no lattice hold, and what do a share of the prior and a wider window bring? (Section 4.)

The lattice of the paper holds translations of L - D to L + D words, of which each was counted at its
position. In a small corpus few pairs have the lengths of source and position, so the counts leave most alignments out;
and long translations differ from the predicted L by more than a few words. Measured on a part of the validation split,
because what is found may be set: `counts.diagonal`, and `relative_window` and `length_penalty` of a decoder.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from pipeline.decoding.lattice import Settings, half_width
from pipeline.decoding.settings import make_decoder, read_entry
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.lattice.context import ROWS, LatticeContext
from pipeline.evaluation.analyses.lattice.recall import by_position, measure_recall
from pipeline.evaluation.analyses.sentences import make_batches
from pipeline.evaluation.clock import spread
from pipeline.evaluation.speed import Contestant
from pipeline.evaluation.validation import ValidationSample
from pipeline.model.lattice import LatticeTransformer

SHARES = (0.0, 0.1, 0.3, 0.5)
"""Of the aligner's prior in P(a | S, t)."""
RELATIVE = 0.2
"""The share of L that the wider window is at least."""
WINDOWS: Mapping[str, Mapping[str, Any]] = {
    "fixed": {"relative_window": 0.0},
    "a_fifth": {"relative_window": RELATIVE, "length_penalty": {"kind": "average", "alpha": 0.7}}}
"""Changes of the decoder; more lengths need a length penalty, because the sum of more words is less."""
_LABELS = {"fixed": "L ± {window} words", "a_fifth": "L ± a fifth, with a length penalty"}


def ask(context: LatticeContext) -> Finding:
    """BLEU and recall at each share, and the words of the sentences whose length is within each window."""
    if context.lattice is None:
        return context.not_measured()
    run, settings = context.run, context.run.params.analyses
    model: LatticeTransformer = open_engine(context.lattice)  # which has its own reference to the counts
    name, longest = settings.decoder, model.settings.max_length
    sample = ValidationSample(run.params, run.tokenizer, run.device, settings.validation_sentences, longest)
    pairs = run.pairs("validation")
    lengths = np.array([[len(side) for side in pair] for pair in pairs])
    chosen = spread(lengths[:, 0], np.arange(len(pairs)), settings.validation_sentences)
    golds, _ = make_batches([pairs[row] for row in chosen], rows=ROWS, longest=longest, device=run.device)
    blocks = {window: {**run.params.decoder(name), **changes} for window, changes in WINDOWS.items()}
    decoders = {window: make_decoder(name, block, run.limit(model)) for window, block in blocks.items()}
    searches = {window: read_entry(name, block).settings for window, block in blocks.items()}
    recall, bleu = list[float](), {window: list[float]() for window in WINDOWS}
    for share in SHARES:
        with prior_share(model, share):
            recall += measure_recall(golds, [context.k], {"": lambda one: by_position(model, one, [context.k])})[
                ""].recall().tolist()
            for window, decoder in decoders.items():
                bleu[window].append(sample.bleu(Contestant(settings.lattice, name, partial(decoder, model))))
    metric = {"decoder": name, "sentences": len(chosen), "shares": list(SHARES), "own_share": model.counts.diagonal,
              "recall": recall, "bleu": bleu, "window": searches["fixed"].window,
              "words_within": words_within(model, lengths[chosen], searches)}
    return Finding(metric, _draw(metric))


@contextmanager
def prior_share(model: LatticeTransformer, share: float) -> Iterator[None]:
    """Give the aligner's prior another share of a lattice's counts."""
    own = model.counts
    model.attach_counts(own._replace(diagonal=share))
    try:
        yield
    finally:
        model.attach_counts(own)


def words_within(model: LatticeTransformer, lengths: np.ndarray, searches: Mapping[str, Settings]) -> dict[str, float]:
    """The share of the target words whose sentences have a length that the window holds, by window.

    Args:
        model: predicts lengths.
        lengths: (N, 2) source and target words.
        searches: the settings with each window.
    """
    sources, targets = lengths.T
    predicted = model.counts.lengths.predict(sources)
    reach = {window: half_width(torch.from_numpy(predicted), one.window, one.relative_window).numpy()
             for window, one in searches.items()}
    return {window: float(targets[abs(targets - predicted) <= most].sum() / max(1, targets.sum()))
            for window, most in reach.items()}


def _draw(metric: Mapping[str, Any]) -> Figure:
    figure, (quality, recall) = chart.new_picture(2)
    for (window, values), colour in chart.coloured(metric["bleu"].items()):
        chart.curve(quality, metric["shares"], values, colour, label=_LABELS[window].format(**metric))
    chart.curve(recall, metric["shares"], [100 * value for value in metric["recall"]], chart.COLOURS[2])
    chart.name_axes(quality, "share of the aligner's prior", "BLEU",
                    f"{metric['decoder']}, {metric['sentences']} validation sentences")
    chart.name_axes(recall, "share of the aligner's prior", "gold words among the candidates, %")
    chart.add_legend(figure, 2)
    return figure
