"""The Aggressive Decoding paper's questions, each with what it needs of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import sacrebleu
from torch import Tensor

from pipeline import layout
from pipeline.analysis_settings import DraftAnalysesSettings
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids
from pipeline.decoding import gad
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses.drafting.acceptance import Search, Validation, draft_acceptance
from pipeline.evaluation.analyses.drafting.breakdown import draft_breakdown
from pipeline.evaluation.analyses.drafting.memory import draft_memory
from pipeline.evaluation.analyses.drafting.sizes import draft_sizes, drafter_size
from pipeline.evaluation.analyses.drafting.speedup import EditRatio, draft_speedup, edit_distance
from pipeline.evaluation.analyses.finding import Finding, Question, not_measured
from pipeline.evaluation.analyses.lab import Lab
from pipeline.evaluation.clock import spread
from pipeline.evaluation.edits import tokenize
from pipeline.evaluation.speed import REFERENCE_DECODERS, Contestant
from pipeline.model.chained import ChainedTransformer
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.transformer import Transformer

_ROWS = 64
"""Sentences a batch where only quality is measured."""
_LONGEST = 2
"""Sentences, the longest, whose peak memory is measured."""


def draft_questions(lab: Lab) -> dict[str, Question]:
    """The questions by name.

    Raises:
        PipelineError: the settings do not fit the run.
    """
    bench = Bench.open(lab)
    asked = {"draft_speedup": ask_speedup, "draft_breakdown": ask_breakdown, "draft_memory": ask_memory,
             "draft_acceptance": ask_acceptance, "draft_sizes": ask_sizes}
    return {name: partial(question, bench) for name, question in asked.items()}


class Entry(NamedTuple):
    """A network under an entry of `decoders`."""

    family: str
    decoder: str
    network: Transformer
    search: Decoder

    @property
    def contestant(self) -> Contestant:
        return Contestant(self.family, self.decoder, lambda source: self.search(self.network, source))


@dataclass(frozen=True)
class Bench:
    """What the questions share."""

    lab: Lab
    references: list[Entry]
    """The baseline's beam 5 and greedy search; none where there is nothing to compare with them."""
    entries: list[Entry]
    """Those of `analyses.drafting.decoders` whose families are among the systems."""
    drafter: DrafterTransformer | None
    """None where it is not among the systems."""

    @classmethod
    def open(cls, lab: Lab) -> "Bench":
        """Read the networks, every one once."""
        params, settings = lab.params, lab.params.analyses.drafting
        drafter = lab.network_of(settings.drafter, DrafterTransformer)
        networks: dict[str, Transformer | None] = {settings.drafter: drafter}

        def entries(family: str, decoders: Sequence[str]) -> list[Entry]:
            if family not in networks:
                networks[family] = lab.network(family)
            network = networks[family]
            return [] if network is None else [
                Entry(family, name, network, make_decoder(name, params.decoder(name), lab.limit(network)))
                for name in decoders]

        chosen = [entry for family, decoders in settings.decoders.items() for entry in entries(family, decoders)]
        references = entries(params.baseline, REFERENCE_DECODERS) if chosen or drafter is not None else []
        return cls(lab, references, chosen, drafter)

    @property
    def settings(self) -> DraftAnalysesSettings:
        return self.lab.params.analyses.drafting

    def pad(self, sources: Sequence[Ids]) -> Tensor:
        """(B, S) ids on the device, cut to what all networks take."""
        networks = [entry.network for entry in self.references + self.entries]
        longest = min(network.settings.max_length for network in [*networks, self.drafter or networks[0]])
        return pad_sources(list(sources), longest).to(self.lab.device)

    def timed(self, sources: Sequence[Ids]) -> list[int]:
        """Places of the sentences to time."""
        lengths = np.array([len(source) for source in sources], np.int32)
        return spread(lengths, np.arange(len(lengths)), self.settings.sentences)

    def test_sentences(self) -> tuple[list[int], list[Tensor]]:
        """The test sentences to time: their rows, and (1, S) ids of each."""
        sources = [source for source, _ in self.lab.pairs("test")]
        rows = self.timed(sources)
        return rows, [self.pad([sources[row]]) for row in rows]

    def texts(self, found: Hypotheses) -> list[str]:
        """Of the best hypothesis of every sentence."""
        return self.lab.tokenizer.decode_targets([row[:length] for row, length in zip(
            found.tokens[:, 0].tolist(), found.lengths[:, 0].tolist(), strict=True)])


def ask_speedup(bench: Bench) -> Finding:
    """Of some sentences of the test split."""
    if not bench.entries:
        return _no_entries()
    rows, sentences = bench.test_sentences()
    corpus = bench.lab.params.corpus
    edit_ratio = _edit_ratio(bench, rows) if corpus.source_language == corpus.target_language else None
    return draft_speedup(bench.references[0].contestant, [one.contestant for one in bench.entries], sentences,
                         edit_ratio=edit_ratio, repetitions=bench.settings.repetitions,
                         warmup=bench.lab.params.speed.warmup, device=bench.lab.device)


def ask_breakdown(bench: Bench) -> Finding:
    """Of the entries whose networks draft, over the same sentences."""
    drafters = {(one.family, one.decoder): (one.network, one.search) for one in bench.entries
                if isinstance(one.network, ChainedTransformer)}
    if not drafters:
        return not_measured("no family of analyses.drafting.decoders that drafts is among the systems")
    return draft_breakdown(drafters, bench.test_sentences()[1], repetitions=bench.settings.repetitions,
                           warmup=bench.lab.params.speed.warmup, device=bench.lab.device)


def ask_memory(bench: Bench) -> Finding:
    """Of the entries and what they are compared with, over the longest sentences of the test split."""
    if not bench.entries:
        return _no_entries()
    longest = sorted((source for source, _ in bench.lab.pairs("test")), key=len)[-_LONGEST:]
    return draft_memory([(one.contestant, one.network) for one in bench.references + bench.entries],
                        [bench.pad([source]) for source in longest], bench.lab.device)


def ask_acceptance(bench: Bench) -> Finding:
    """Of the drafter, over the first sentences of the validation split."""
    network, settings, lab = bench.drafter, bench.settings, bench.lab
    if network is None:
        return not_measured(f"family {settings.drafter!r} is not among the systems")
    limit = lab.limit(network)

    def search_with(one: gad.Settings) -> Search:
        return lambda source: gad.search(open_engine(network), source, limit, one)

    return draft_acceptance(search_with, network.block, _validation(bench), bench.references[0].contestant,
                            blocks=settings.blocks, betas=settings.betas, taus=settings.taus,
                            repetitions=settings.repetitions, warmup=lab.params.speed.warmup, device=lab.device)


def ask_sizes(bench: Bench) -> Finding:
    """Of the drafters that the settings name."""
    networks = {name: bench.lab.network_of(name, DrafterTransformer) for name in bench.settings.sizes}
    return draft_sizes(bench.lab.measurements, {name: drafter_size(network)
                                                for name, network in networks.items() if network is not None})


def _no_entries() -> Finding:
    return not_measured("none of the families of analyses.drafting.decoders is among the systems")


def _edit_ratio(bench: Bench, rows: Sequence[int]) -> EditRatio:
    """In words, of the translation of one of these rows of the test split."""
    lines = layout.read_lines(layout.CORPUS / "test.source")
    words = [tokenize(lines[row]) for row in rows]
    return lambda at, found: edit_distance(words[at], tokenize(bench.texts(found)[0])) / max(len(words[at]), 1)


def _validation(bench: Bench) -> Validation:
    """The first sentences of the validation split, longest first."""
    pairs = bench.lab.pairs("validation")[:bench.settings.validation_sentences]
    order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][0]))
    sources = [pairs[row][0] for row in order]
    files = [layout.read_lines(path) for path in layout.references("validation")]
    references = [[lines[row] for row in order] for lines in files]

    def bleu(found: Sequence[Hypotheses]) -> float:
        texts = [text for one in found for text in bench.texts(one)]
        return sacrebleu.corpus_bleu(texts, references, tokenize=bench.lab.params.evaluation.bleu_tokenizer).score

    batches = [bench.pad(sources[start:start + _ROWS]) for start in range(0, len(sources), _ROWS)]
    return Validation(batches, bleu, [bench.pad([sources[row]]) for row in bench.timed(sources)])
