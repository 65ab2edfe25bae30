"""What does the learnt normaliser save, and what does it cost? (Section 3 of the paper.)

Search in a lattice needs the log-sum over the vocabulary after every candidate. The scorer predicts it from the hidden
state instead of computing the logits of all words. Both scorers run by torch, because the compiled one has only the
normaliser; the rest of the search is the same.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.engine.door import use_engine
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.lattice.context import ROWS, LatticeContext
from pipeline.evaluation.analyses.sentences import by_length
from pipeline.evaluation.bootstrap import interval, speed_ratio
from pipeline.evaluation.resampled_bleu import Resampled
from pipeline.evaluation.speed import Contestant, measure
from pipeline.model.lattice import LatticeTransformer

NORMALISER, SOFTMAX = SYSTEMS = ("normaliser", "softmax")


class Interpreted:
    """A lattice whose scorer is not compiled, with the log-sums of the normaliser or of the exact softmax."""

    kind = "lattice"

    def __init__(self, model: LatticeTransformer, *, exact: bool) -> None:
        self.verifier = model.verifier
        self.length, self.candidates, self.encode = model.length, model.candidates, model.encode
        self._edges = partial(model.edges, exact=exact)

    def edges(self, memory: Any, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with use_engine("torch"):
            return self._edges(memory, candidates)


def ask(context: LatticeContext) -> Finding:
    """BLEU over the entire test split, and the time of some of its sentences."""
    run, params, model = context.run, context.run.params, context.lattice
    if model is None:
        return context.not_measured()
    name, longest, sources = params.analyses.decoder, model.settings.max_length, run.sources()
    decoder = make_decoder(name, params.decoder(name), run.limit(model))
    scorers = {system: Interpreted(model, exact=system == SOFTMAX) for system in SYSTEMS}
    words = {system: translate(decoder, scorer, sources, longest, run.device) for system, scorer in scorers.items()}
    resampled = Resampled(run.references(), params.evaluation.bleu_tokenizer, params.evaluation.bootstrap_samples)
    bleu = {system: resampled(run.tokenizer.decode_targets(found)) for system, found in words.items()}
    chosen = run.spread_sources(sources, params.analyses.sentences, longest)[1]
    timings = measure([Contestant(system, name, partial(decoder, scorer)) for system, scorer in scorers.items()],
                      {1: chosen}, repetitions=params.analyses.repetitions, warmup=params.speed.warmup,
                      device=run.device)[1].medians
    low, high = interval(bleu[NORMALISER].resampled - bleu[SOFTMAX].resampled, len(sources))
    ratio, slowest, fastest = speed_ratio(timings[1], timings[0])
    metric = {
        "decoder": name, "device": run.device.type, "sentences": len(sources), "timed_sentences": len(chosen),
        "same_output": sum(map(list.__eq__, *words.values())) / len(sources),
        **{system: {"bleu": bleu[system].bleu, "milliseconds": 1000 * float(seconds.mean())}
           for system, seconds in zip(SYSTEMS, timings, strict=True)},
        "difference": bleu[NORMALISER].bleu - bleu[SOFTMAX].bleu, "difference_low": low, "difference_high": high,
        "speedup": ratio, "speedup_low": slowest, "speedup_high": fastest}
    return Finding(metric, _draw(metric))


def translate(decoder: Decoder, model: Interpreted, sources: Sequence[Ids], longest: int,
              device: torch.device) -> list[list[int]]:
    """The words of the best translation of each source, in the order of the sources."""
    words: dict[int, list[int]] = {}
    with torch.inference_mode():
        for rows in by_length(sources, ROWS):
            found = decoder(model, pad_sources([sources[row] for row in rows], longest).to(device))
            words |= zip(rows.tolist(), found.best_words(), strict=True)
    return [words[row] for row in range(len(sources))]


def _draw(metric: Mapping[str, Any]) -> Figure:
    figure, (quality, time) = chart.new_picture(2)
    chart.bars(quality, {system: metric[system]["bleu"] for system in SYSTEMS}, chart.COLOURS[:2])
    chart.bars(time, {system: metric[system]["milliseconds"] for system in SYSTEMS}, chart.COLOURS[:2])
    chart.name_axes(quality, "BLEU", "", f"{metric['decoder']}, {metric['sentences']} sentences")
    chart.name_axes(time, "milliseconds per sentence", "", "one at a time, scored by torch")
    return figure
