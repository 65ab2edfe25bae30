"""Traces a search by draft and verification, token by token (Ge et al. 2022, Table 17).

Every round is two rows: the draft (D), and the verifier's predictions at the drafted positions and the next one (V).
Tokens after an end symbol are left out, as in the paper.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.verify import Round
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.model.formats import in_format
from pipeline.model.top import best
from pipeline.translation import Translator
from pipeline.vocabulary import EOS, PAD


class Fate(Enum):
    """What became of a token."""

    ACCEPTED = "accepted"
    """It is the verifier's argmax and part of the output."""
    RELAXED = "relaxed"
    """It is part of the output although the verifier's argmax is another token (GAD++)."""
    BIFURCATION = "bifurcation"
    """Draft and verifier first differ here: the verifier's token is part of the output, the drafted one is not."""
    DROPPED = "dropped"
    """It is after the bifurcation or after the end."""


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
        """The number of tokens that became part of the output, the end symbol included."""
        return sum(one.fate is not Fate.DROPPED for one in self.verdict)


@dataclass(frozen=True)
class Trace:
    """The search for the translation of one line."""

    source: str
    translation: str
    rounds: list[MarkedRound]
    """The rounds in their order; none for a line without words."""
    drafter_calls: int
    """Calls of the drafter's own network."""
    warning: str | None = None
    """A note for the reader if the source or the translation was cut."""


class NothingDrafted(PipelineError):
    """The decoder drafts nothing, so there is no trace."""


class Tracer(Translator):
    """Translates lines one by one and keeps the trace."""

    def trace(self, line: str) -> Trace:
        """Translate one line.

        Raises:
            NothingDrafted: by this decoder.
            PipelineError: the decoder cannot search this kind of model.
        """
        ids, = self.model.encode([line])
        if not ids:
            return Trace(line, "", [], 0)
        source = pad_sources([ids], self.model.longest).to(self.device)
        found = self._decode(self.network, source)
        if found.verification is None:
            raise NothingDrafted(f"--decoder: {self.decoder!r} drafts nothing, so there is nothing to explain; choose "
                                 "an entry of `decoders` that does, such as one of algorithm gad or iad")
        rounds = found.verification.rounds
        output = output_of(rounds, 0)
        relaxed = [False] * len(output)
        if not found.verification.exact:
            network = in_format(self.network, self._quantization)
            relaxed = departures(getattr(network, "verifier", network), source, output)
        text = self.model.text.decode_target(found.tokens[0, 0, :int(found.lengths[0, 0])].tolist())
        return Trace(line, text, mark_rounds(rounds, 0, relaxed), int(found.verification.drafter_calls[0]),
                     self.model.warning(len(ids), bool(found.ended[0, 0])))


def output_of(rounds: Sequence[Round], sentence: int) -> list[int]:
    """The accepted tokens of all rounds of one sentence of the batch, in the order of generation."""
    return [token for _, verdict, accepted in _rounds_of(rounds, sentence) for token in verdict[:accepted]]


def mark_rounds(rounds: Sequence[Round], sentence: int, relaxed: Sequence[bool]) -> list[MarkedRound]:
    """The rounds of one sentence with the fate of every token.

    Args:
        rounds: of a batch.
        sentence: its index in the batch.
        relaxed: per token of its output, whether the verifier's argmax is another token.
    """
    marked: list[MarkedRound] = []
    slot = 0
    for draft, verdict, accepted in _rounds_of(rounds, sentence):
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
    """Per token of an output, whether the verifier's argmax there is another token.

    Args:
        verifier: an ordered model that generates one token per step.
        source: (1, S) ids.
        output: tokens in the order of generation.
    """
    verifier = open_engine(verifier)
    state = verifier.start(verifier.encode(source), capacity=len(output))
    logits = verifier.step(source.new_tensor([[*verifier.order.starts, *output[:-1]]]), state)[0]
    return (best(logits) != source.new_tensor(output)).tolist()


_COLOURS = {Fate.ACCEPTED: "32", Fate.RELAXED: "34", Fate.BIFURCATION: "1;31", Fate.DROPPED: "2;9"}
"""Colours of a terminal: green, blue, bold red, and dim with a line through the text."""
_SIGNS = {Fate.ACCEPTED: "{}", Fate.RELAXED: "({})", Fate.BIFURCATION: "[{}]", Fate.DROPPED: "~{}~"}


def render(trace: Trace, pieces: Sequence[str], *, colour: bool) -> str:
    """A trace as text: the source, two rows per round, the translation, calls and accepted tokens.

    Args:
        trace: to show.
        pieces: of the target vocabulary, by id.
        colour: whether fates are shown by a terminal's colours; otherwise by signs around the pieces.
    """
    if not trace.rounds:
        return "  (no words)\n"
    lines = [f"  {trace.source}"]
    for number, one in enumerate(trace.rounds, 1):
        draft, verdict = _aligned(one, pieces, colour)
        lines += [f"{number:3} D  {draft}".rstrip(), f"    V  {verdict}"]
    calls, accepted = len(trace.rounds), sum(one.accepted for one in trace.rounds)
    lines += [f"  = {trace.translation}", f"    calls: {calls} of the verifier, {trace.drafter_calls} of the drafter; "
              f"accepted: {accepted} tokens, {accepted / calls:.2f} per call"]
    return "".join(line + "\n" for line in lines)


def _aligned(one: MarkedRound, pieces: Sequence[str], colour: bool) -> tuple[str, str]:
    """Both rows, with each drafted token above the verifier's."""
    texts = [[pieces[token] if colour else _SIGNS[fate].format(pieces[token]) for token, fate in row] for row in one]
    widths = [max(map(len, column)) for column in zip(*texts, strict=False)]
    rows = []
    for marked, row in zip(one, texts, strict=True):
        painted = [f"\x1b[{_COLOURS[token.fate]}m{text}\x1b[0m" if colour else text
                   for token, text in zip(marked, row, strict=True)]
        padding = [" " * (width - len(text)) for text, width in zip(row, widths, strict=False)]
        padding += [""] * (len(row) - len(padding))
        rows.append(" ".join(map("".join, zip(painted, padding, strict=True))).rstrip())
    return rows[0], rows[1]


def _rounds_of(rounds: Sequence[Round], sentence: int) -> Iterator[tuple[list[int], list[int], int]]:
    """The draft, the verdict on it and on the next token, and how many of the latter were accepted, per round."""
    for one in rounds:
        for row in (one.sentences == sentence).nonzero().flatten().tolist():  # none after the sentence has ended
            draft = one.draft[row].tolist()
            while draft and draft[-1] == PAD:
                draft.pop()
            yield draft, one.verdict[row, :len(draft) + 1].tolist(), int(one.accepted[row])


def _until_end(tokens: list[int], fates: list[Fate]) -> list[Marked]:
    """Tokens with their fates, up to the end symbol; a verdict's last fate has no drafted token."""
    marked = [Marked(token, fate) for token, fate in zip(tokens, fates, strict=False)]
    return marked[:tokens.index(EOS) + 1] if EOS in tokens else marked
