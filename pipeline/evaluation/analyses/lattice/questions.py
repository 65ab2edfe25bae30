"""The lattice paper's questions, each with what it needs of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pipeline import layout
from pipeline.alignment.build import read_aligned
from pipeline.corpus.pairs import Ids
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.finding import Finding, Question, not_measured
from pipeline.evaluation.analyses.lab import Lab
from pipeline.evaluation.analyses.lattice.breakdown import breakdown
from pipeline.evaluation.analyses.lattice.candidates import candidates, words_a_position
from pipeline.evaluation.analyses.lattice.layers import Network, layers
from pipeline.evaluation.analyses.lattice.recall import recall
from pipeline.evaluation.analyses.lattice.search_moves import search_moves
from pipeline.evaluation.analyses.lattice.shared_vocabulary import SharedVocabulary
from pipeline.evaluation.analyses.sentences import make_batches, make_sources
from pipeline.evaluation.rows import read_texts
from pipeline.evaluation.speed import REFERENCE_DECODERS
from pipeline.families.kinds.lattice import Settings as LatticeSettings
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.masked import MaskedTransformer
from pipeline.model.transformer import Transformer
from pipeline.params import Params
from pipeline.systems import TEACHER

_ROWS = 8
"""Sentences a batch; more are slower on a CPU, because a lattice makes a thousand rows of each."""


def lattice_questions(lab: Lab) -> dict[str, Question]:
    """The questions by name.

    Raises:
        PipelineError: the settings do not fit the run.
    """
    bench = Bench.open(lab)
    return {"recall": partial(ask_recall, bench), "candidates": partial(ask_candidates, lab),
            "layers": partial(ask_layers, lab), "search_moves": partial(ask_search_moves, bench),
            "breakdown": partial(ask_breakdown, bench)}


@dataclass(frozen=True)
class Bench:
    """What the questions share."""

    lab: Lab
    lattice: LatticeTransformer | None
    """None where it is not among the systems."""
    k: int
    """Candidates a position of the decoder that is looked into; 0 without a lattice."""
    nat: MaskedTransformer | None
    """None where it is not among the systems."""
    test: Sequence[tuple[Ids, Ids]]
    """Sources and references of the test split."""

    @classmethod
    def open(cls, lab: Lab) -> "Bench":
        """Read all of it."""
        settings = lab.params.analyses
        lattice = lab.network_of(settings.lattice, LatticeTransformer)
        nat = lab.network_of(settings.nat, MaskedTransformer)
        return cls(lab, lattice, 0 if lattice is None else _candidates(lab.params, settings.decoder), nat,
                   lab.pairs("test"))

    @property
    def absent(self) -> Finding:
        """What is said where there is no lattice to look into."""
        return not_measured(f"family {self.lab.params.analyses.lattice!r} is not among the systems")

    def sources(self, network: Transformer, rows: int) -> list[Tensor]:
        """The test sources in batches."""
        return make_sources([source for source, _ in self.test], rows=rows, longest=network.settings.max_length,
                            device=self.lab.device)


def ask_recall(bench: Bench) -> Finding:
    """On the test references, and on the teacher's translations of the test sources (the paper's distilled data)."""
    if bench.lattice is None:
        return bench.absent
    lab, teacher = bench.lab, (TEACHER, REFERENCE_DECODERS[0])
    targets = lab.tokenizer.encode_target(read_texts(layout.HYPOTHESES, [teacher], len(bench.test))[teacher])
    teachers: list[tuple[Ids, Ids]] = [(source, target)
                                       for (source, _), target in zip(bench.test, targets, strict=True)]
    longest = min(network.settings.max_length for network in (bench.lattice, bench.nat) if network is not None)
    golds = {name: make_batches(pairs, rows=_ROWS, longest=longest, device=lab.device)
             for name, pairs in {"references": bench.test, "teacher": teachers}.items()}
    sizes = sorted(lab.params.analyses.candidates)
    return recall(golds, sizes, bench.lattice, _shared_vocabulary(lab, sizes[-1]), bench.nat)


def ask_candidates(lab: Lab) -> Finding:
    """Of all lattice families."""
    families = {name: lab.params.family(name).data.side for name in lab.params.systems
                if isinstance(lab.params.family(name), LatticeSettings)}
    if not families:
        return not_measured("no lattice family is among the systems")
    baseline = lab.measurements.decoders[lab.params.baseline, REFERENCE_DECODERS[0]]
    return candidates(lab.measurements, families, lab.params.decoders, baseline)


def ask_layers(lab: Lab) -> Finding:
    """Of the families that the settings name."""
    params, chosen = lab.params, lab.params.analyses.decoder

    def networks(names: tuple[str, ...], decoder: str | None) -> list[Network]:
        return [Network(name, decoder or params.decoders_of(name)[0], params.family(name).network.decoder_layers)
                for name in names if name in params.systems]

    return layers(lab.measurements, {"lattice": networks(lab.params.analyses.lattice_layers, chosen),
                                     "nat": networks(lab.params.analyses.nat_layers, None)})


def ask_search_moves(bench: Bench) -> Finding:
    """Over the whole test split."""
    if bench.lattice is None:
        return bench.absent
    return search_moves(bench.lattice, bench.sources(bench.lattice, _ROWS), bench.lab.limit(bench.lattice), bench.k)


def ask_breakdown(bench: Bench) -> Finding:
    """Over some sentences of the test split."""
    if bench.lattice is None:
        return bench.absent
    params = bench.lab.params
    settings, name = params.analyses, params.analyses.decoder
    return breakdown(name, make_decoder(name, params.decoder(name), bench.lab.limit(bench.lattice)), bench.lattice,
                     bench.sources(bench.lattice, 1), count=settings.sentences, bin_words=settings.bin_words,
                     repetitions=settings.repetitions, warmup=params.speed.warmup, device=bench.lab.device)


def _candidates(params: Params, decoder: str) -> int:
    """K of a search in a lattice."""
    block = params.decoder(decoder, "analyses.decoder")
    k = words_a_position(block)
    if k is None or block["algorithm"] != "lattice":
        raise PipelineError(f"analyses.decoder: {decoder!r} is not a search in a lattice; name one that is")
    return k


def _shared_vocabulary(lab: Lab, k: int) -> SharedVocabulary:
    """Counted from the links of what the lattice's own count model was counted from."""
    side = lab.params.family(lab.params.analyses.lattice).data.side
    names = layout.TRAINING_SIDES if side == "both" else (side,)
    aligned = [read_aligned(layout.TRAINING_SIDES[name], layout.ALIGNMENT / f"{name}.safetensors",
                            lab.tokenizer)[0] for name in names]
    return SharedVocabulary.from_links(aligned, k, lab.tokenizer.source_size, lab.tokenizer.target_size)
