"""The stage `analyses`: every question of this package, on what the run has trained and measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from pipeline import layout
from pipeline.alignment.build import read_aligned
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Ids, Pairs
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.breakdown import breakdown
from pipeline.evaluation.analyses.candidates import candidates, words_a_position
from pipeline.evaluation.analyses.finding import Finding, not_measured, write_finding
from pipeline.evaluation.analyses.layers import Network, layers
from pipeline.evaluation.analyses.measured import Measurements, read_measurements
from pipeline.evaluation.analyses.recall import recall
from pipeline.evaluation.analyses.search_moves import search_moves
from pipeline.evaluation.analyses.sentences import make_batches, make_sources
from pipeline.evaluation.analyses.shared_vocabulary import SharedVocabulary
from pipeline.evaluation.rows import read_texts
from pipeline.evaluation.speed import REFERENCE_DECODERS
from pipeline.files import atomic_path
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.masked import MaskedTransformer
from pipeline.model.transformer import Transformer
from pipeline.params import TEACHER, Params
from pipeline.translation import pick_device

_ROWS = 8
"""Sentences a batch; more are slower on a CPU, because a lattice makes a thousand rows of each."""


def analyse(params: Params, out: Path) -> None:
    """Answer every question and write `out`, all of it or nothing.

    A question about a family that is not among the systems is answered by saying so.

    Raises:
        PipelineError: what an earlier stage writes is missing or damaged, or a family is of another kind than it
            should be.
    """
    if params.speed.threads:
        torch.set_num_threads(params.speed.threads)
    lab = Lab.open(params)
    questions: dict[str, Callable[[Lab], Finding]] = {
        "recall": ask_recall, "candidates": ask_candidates, "layers": ask_layers, "search_moves": ask_search_moves,
        "breakdown": ask_breakdown}
    findings = {name: question(lab) for name, question in questions.items()}
    with atomic_path(out) as folder:
        for name, finding in findings.items():
            write_finding(folder, name, finding)


@dataclass(frozen=True)
class Lab:
    """What the questions share."""

    params: Params
    tokenizer: Tokenizer
    device: torch.device
    lattice: LatticeTransformer | None
    """None where it is not among the systems."""
    k: int
    """Candidates a position of the decoder that is looked into; 0 without a lattice."""
    nat: MaskedTransformer | None
    """None where it is not among the systems."""
    test: Sequence[tuple[Ids, Ids]]
    """Sources and references of the test split."""
    measurements: Measurements

    @classmethod
    def open(cls, params: Params) -> "Lab":
        """Read all of it, and refuse settings that do not fit before any work is done for them."""
        settings = params.analyses
        tokenizer, device = Tokenizer.load(layout.BPE), torch.device(pick_device(params.speed.device))

        def network(family: str, kind: str) -> Transformer | None:
            if family not in params.systems:
                return None
            loaded, _ = load_checkpoint(layout.checkpoint(family), tokenizer.digest)
            if loaded.kind != kind:
                raise PipelineError(f"analyses: family {family!r} is of kind {loaded.kind}, not {kind}; name another")
            return loaded.to(device)

        lattice, nat = network(settings.lattice, "lattice"), network(settings.nat, "masked")
        pairs = Pairs.open(layout.BPE / "test.pairs", tokenizer.digest)
        test = [(pairs.source(row), pairs.target(row)) for row in range(len(pairs))]
        measurements = read_measurements(layout.REPORTS / "quality", layout.REPORTS / "speed.json")
        return cls(params, tokenizer, device, cast("LatticeTransformer | None", lattice),
                   0 if lattice is None else _candidates(params, settings.decoder),
                   cast("MaskedTransformer | None", nat), test, measurements)

    @property
    def absent(self) -> Finding:
        """What is said where there is no lattice to look into."""
        return not_measured(f"family {self.params.analyses.lattice!r} is not among the systems")

    def sources(self, network: Transformer, rows: int) -> list[Tensor]:
        """The test sources in batches."""
        return make_sources([source for source, _ in self.test], rows=rows, longest=network.settings.max_length,
                            device=self.device)

    def limit(self, network: Transformer) -> LengthLimit:
        """The longest output."""
        return LengthLimit(self.params.limit.ratio, self.params.limit.extra, network.settings.max_length - 1)


def ask_recall(lab: Lab) -> Finding:
    """On the test references, and on the teacher's translations of the test sources (the paper's distilled data)."""
    if lab.lattice is None:
        return lab.absent
    teacher = TEACHER, REFERENCE_DECODERS[0]
    targets = lab.tokenizer.encode_target(read_texts(layout.HYPOTHESES, [teacher], len(lab.test))[teacher])
    teachers: list[tuple[Ids, Ids]] = [(source, target) for (source, _), target in zip(lab.test, targets, strict=True)]
    longest = min(network.settings.max_length for network in (lab.lattice, lab.nat) if network is not None)
    golds = {name: make_batches(pairs, rows=_ROWS, longest=longest, device=lab.device)
             for name, pairs in {"references": lab.test, "teacher": teachers}.items()}
    sizes = sorted(lab.params.analyses.candidates)
    return recall(golds, sizes, lab.lattice, _shared_vocabulary(lab, sizes[-1]), lab.nat)


def ask_candidates(lab: Lab) -> Finding:
    """Of all lattice families."""
    families = {name: lab.params.family(name).data.side for name in lab.params.systems
                if lab.params.family(name).kind == "lattice"}
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


def ask_search_moves(lab: Lab) -> Finding:
    """Over the whole test split."""
    if lab.lattice is None:
        return lab.absent
    return search_moves(lab.lattice, lab.sources(lab.lattice, _ROWS), lab.limit(lab.lattice), lab.k)


def ask_breakdown(lab: Lab) -> Finding:
    """Over some sentences of the test split."""
    if lab.lattice is None:
        return lab.absent
    settings, limit = lab.params.analyses, lab.limit(lab.lattice)
    name = settings.decoder
    return breakdown(name, make_decoder(name, lab.params.decoder(name), limit), lab.lattice,
                     lab.sources(lab.lattice, 1), count=settings.sentences, bin_words=settings.bin_words,
                     repetitions=settings.repetitions, warmup=lab.params.speed.warmup, device=lab.device)


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
                            lab.tokenizer.digest)[0] for name in names]
    return SharedVocabulary.from_links(aligned, k, lab.tokenizer.source_size, lab.tokenizer.target_size)
