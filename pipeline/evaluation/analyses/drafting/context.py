"""What the Aggressive Decoding paper's analyses share: networks with decoders, and the sentences to translate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from torch import Tensor

from pipeline.analysis_settings import DraftAnalysesSettings
from pipeline.corpus.padding import pad_sources
from pipeline.corpus.pairs import Ids
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.settings import Decoder, make_decoder
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.reference import REFERENCE_DECODERS
from pipeline.evaluation.speed import Contestant
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.transformer import Transformer


class Entry(NamedTuple):
    """A network under an entry of `decoders`."""

    family: str
    decoder: str
    network: Transformer
    search: Decoder

    @property
    def contestant(self) -> Contestant:
        """The entry, ready to run."""
        return Contestant(self.family, self.decoder, partial(self.search, self.network))


@dataclass(frozen=True)
class DraftingContext:
    """The networks that are analysed, and what they are compared with."""

    run: FinishedRun
    references: list[Entry]
    """The baseline's beam 5 and greedy search; none where there is nothing to compare with them."""
    entries: list[Entry]
    """Those of `analyses.drafting.decoders` whose families are among the systems."""
    drafter: DrafterTransformer | None
    """None where it is not among the systems."""

    @property
    def settings(self) -> DraftAnalysesSettings:
        """The block `analyses.drafting`."""
        return self.run.params.analyses.drafting

    @property
    def longest(self) -> int:
        """Tokens that all networks accept."""
        networks = [entry.network for entry in self.references + self.entries]
        return min(network.settings.max_length for network in [*networks, self.drafter or networks[0]])

    def pad(self, sources: Sequence[Ids]) -> Tensor:
        """(B, S) ids on the device, cut to `longest`."""
        return pad_sources(list(sources), self.longest).to(self.run.device)

    def test_sentences(self) -> tuple[list[int], list[Tensor]]:
        """The test sentences to time: their rows, and (1, S) ids of each."""
        return self.run.spread_sources(self.run.sources(), self.settings.sentences, self.longest)

    def texts(self, found: Hypotheses) -> list[str]:
        """The best hypothesis of every sentence."""
        return self.run.tokenizer.decode_targets(found.best_words())


def open_context(run: FinishedRun) -> DraftingContext:
    """Load the networks.

    Raises:
        PipelineError: the settings do not fit the run, or a checkpoint is missing or damaged.
    """
    params, settings = run.params, run.params.analyses.drafting
    drafter = run.network_of(settings.drafter, DrafterTransformer)

    def entries(family: str, decoders: Sequence[str]) -> list[Entry]:
        network = run.network(family)
        return [Entry(family, name, network, make_decoder(name, params.decoder(name), run.limit(network)))
                for name in decoders]

    chosen = [entry for family, decoders in settings.decoders.items() if family in params.systems
              for entry in entries(family, decoders)]
    references = entries(params.baseline, REFERENCE_DECODERS) if chosen or drafter is not None else []
    return DraftingContext(run, references, chosen, drafter)


def no_entries() -> Finding:
    """What is reported where no family is to be analysed."""
    return not_measured("none of the families of analyses.drafting.decoders is among the systems")
