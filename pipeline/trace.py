"""How a search by draft and verification went, token by token (Ge et al. 2022, Table 17).

Every round is two rows: the draft (D), and what the verifier said in its place and behind it (V). What lies behind an
end symbol is left out, as in the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.verify import Round
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.model.top import best
from pipeline.params import Params
from pipeline.translation import TextModel, Translator
from pipeline.vocabulary import EOS, PAD


class Fate(Enum):
    """What became of a token."""

    ACCEPTED = "accepted"
    """It is the verifier's best, and part of the output."""
    RELAXED = "relaxed"
    """It is part of the output though the verifier would have said another one (GAD++)."""
    BIFURCATION = "bifurcation"
    """Here the draft and the verifier part: of the draft it is lost, of the verifier it is part of the output."""
    DROPPED = "dropped"
    """It lies behind the bifurcation, or behind the end."""


class Marked(NamedTuple):
    """A token and its fate."""

    token: int
    fate: Fate


class MarkedRound(NamedTuple):
    """One call of the verifier."""

    draft: list[Marked]
    verdict: list[Marked]

    @property
    def accepted(self) -> int:
        """Tokens that became part of the output, the end symbol counted."""
        return sum(one.fate is not Fate.DROPPED for one in self.verdict)


@dataclass(frozen=True)
class Trace:
    """The search for the translation of one line."""

    source: str
    translation: str
    rounds: list[MarkedRound]
    """In their order; none for a line without words."""
    drafter_calls: int
    """Of the drafter's own network."""
    warning: str | None = None
    """What the reader should know: the source was cut, or the translation was."""


class Tracer(Translator):
    """Translates lines one by one and keeps the trace."""

    def __init__(self, params: Params, model: TextModel, decoder: str, device: str = "auto") -> None:
        """Args:
            params: with the decoder and the length limit.
            model: moved to the device.
            decoder: a name in params.
            device: cpu, cuda or auto.

        Raises:
            PipelineError: an unknown name, or a decoder that does not suit the vocabulary.
        """
        super().__init__(params, model, decoder, device=device)
        self._decoder = decoder

    def trace(self, line: str) -> Trace:
        """Translate one line.

        Raises:
            PipelineError: the decoder drafts nothing, or does not search this kind of model.
        """
        ids, = self.model.encode([line])
        if not ids:
            return Trace(line, "", [], 0)
        source = pad_sources([ids], self.model.longest).to(self.device)
        found = self._decode(self.network, source)
        if found.verification is None:
            raise PipelineError(f"--decoder: {self._decoder!r} drafts nothing, so there is nothing to explain; choose "
                                "an entry of `decoders` that does, such as one of algorithm gad or iad")
        rounds = found.verification.rounds
        output = output_of(rounds, 0)
        relaxed = [False] * len(output)
        if not found.verification.exact:
            relaxed = departures(getattr(self.network, "verifier", self.network), source, output)
        text = self.model.text.decode_target(found.tokens[0, 0, :int(found.lengths[0, 0])].tolist())
        return Trace(line, text, mark_rounds(rounds, 0, relaxed), int(found.verification.drafter_calls[0]),
                     self.model.warning(len(ids), bool(found.ended[0, 0])))


def output_of(rounds: Sequence[Round], sentence: int) -> list[int]:
    """The tokens that the rounds of one sentence of the batch added up to, in the order of generation."""
    return [token for one in rounds for row in _row(one, sentence)
            for token in one.verdict[row, :int(one.accepted[row])].tolist()]


def mark_rounds(rounds: Sequence[Round], sentence: int, relaxed: Sequence[bool]) -> list[MarkedRound]:
    """The rounds of one sentence with the fate of every token.

    Args:
        rounds: of a batch.
        sentence: its place in the batch.
        relaxed: of every token of its output, whether the verifier would have said another one.
    """
    marked: list[MarkedRound] = []
    slot = 0
    for one in rounds:
        for row in _row(one, sentence):
            draft, accepted = _without_padding(one.draft[row].tolist()), int(one.accepted[row])
            verdict = one.verdict[row, :len(draft) + 1].tolist()
            fates = []
            for place, token in enumerate(verdict):
                if place >= accepted:
                    fates.append(Fate.DROPPED)
                elif place < len(draft) and draft[place] != token:
                    fates.append(Fate.BIFURCATION)
                else:
                    fates.append(Fate.RELAXED if relaxed[slot + place] else Fate.ACCEPTED)
            marked.append(MarkedRound(_until_end(draft, fates), _until_end(verdict, fates)))
            slot += accepted
    return marked


@torch.inference_mode()
def departures(verifier: Any, source: Tensor, output: Sequence[int]) -> list[bool]:
    """Of every token of an output, whether the verifier would have said another one in its place.

    Args:
        verifier: an ordered model that generates one token a step.
        source: (1, S) ids.
        output: tokens in the order of generation.
    """
    verifier = open_engine(verifier)
    state = verifier.start(verifier.encode(source), capacity=len(output))
    logits = verifier.step(source.new_tensor([[*verifier.order.starts, *output[:-1]]]), state)[0]
    return (best(logits) != source.new_tensor(output)).tolist()


_COLOURS = {Fate.ACCEPTED: "32", Fate.RELAXED: "34", Fate.BIFURCATION: "1;31", Fate.DROPPED: "2;9"}
"""Of the terminal: green, blue, bold red, dim and struck out."""
_SIGNS = {Fate.ACCEPTED: "{}", Fate.RELAXED: "({})", Fate.BIFURCATION: "[{}]", Fate.DROPPED: "~{}~"}


def render(trace: Trace, pieces: Sequence[str], *, colour: bool) -> str:
    """A trace as people read it: the source, two rows a round, the translation, and what it took.

    Args:
        pieces: of the target vocabulary, by id.
        colour: by the terminal's colours; otherwise by signs around the pieces.
    """
    if not trace.rounds:
        return "  (no words)\n"
    lines = [f"  {trace.source}"]
    for number, one in enumerate(trace.rounds, 1):
        draft, verdict = _aligned(one, pieces, colour)
        lines += [f"{number:3} D  {draft}".rstrip(), f"    V  {verdict}"]
    calls, accepted = len(trace.rounds), sum(one.accepted for one in trace.rounds)
    lines += [f"  = {trace.translation}", f"    calls: {calls} of the verifier, {trace.drafter_calls} of the drafter; "
              f"accepted: {accepted} tokens, {accepted / calls:.2f} a call"]
    return "".join(line + "\n" for line in lines)


def _aligned(one: MarkedRound, pieces: Sequence[str], colour: bool) -> tuple[str, str]:
    """Both rows, each token of the draft above the verifier's."""
    texts = [[pieces[token] if colour else _SIGNS[fate].format(pieces[token]) for token, fate in row] for row in one]
    shared = range(min(map(len, texts)))
    widths = [max(len(row[place]) for row in texts) for place in shared]
    rows = []
    for marked, row in zip(one, texts, strict=True):
        padding = [" " * (width - len(text)) for text, width in zip(row, widths, strict=False)]
        padding += [""] * (len(row) - len(padding))
        painted = [f"\x1b[{_COLOURS[token.fate]}m{text}\x1b[0m" for token, text in zip(marked, row, strict=True)]
        cells = zip(painted if colour else row, padding, strict=True)
        rows.append(" ".join(text + blanks for text, blanks in cells).rstrip())
    return rows[0], rows[1]


def _row(one: Round, sentence: int) -> list[int]:
    """The row of a sentence in a round: none where it has ended."""
    return (one.sentences == sentence).nonzero().flatten().tolist()


def _without_padding(draft: list[int]) -> list[int]:
    while draft and draft[-1] == PAD:
        draft = draft[:-1]
    return draft


def _until_end(tokens: list[int], fates: list[Fate]) -> list[Marked]:
    """Tokens with their fates, up to the end symbol. There may be a fate more than tokens, of what is said behind."""
    marked = [Marked(token, fate) for token, fate in zip(tokens, fates, strict=False)]
    ends = [place for place, one in enumerate(marked) if one.token == EOS]
    return marked[:ends[0] + 1] if ends else marked
