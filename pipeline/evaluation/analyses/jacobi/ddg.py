"""How often is a token independent of the previous one? (The paper's section 3.5, over many sentences.)

Token i is independent of token i - 1 if it settles no later (see `grid`). The first token has no previous one and is
not counted. Intervals assume that tokens are independent draws, which is only roughly true of those of a sentence.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.protocol import is_ordered
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding, not_measured
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.jacobi.context import GREEDY
from pipeline.evaluation.analyses.jacobi.grid import Grid, jacobi_grid
from pipeline.model.transformer import Transformer

PARTS = {"first_third": "first third", "middle_third": "middle third", "last_third": "last third"}
KINDS = {"begins_word": "begins a word", "inside_word": "inside a word", "punctuation": "punctuation",
         "end_symbol": "end symbol"}
_WORD = "▁"
"""The first character of a piece that begins a word."""
_Z = 1.959964
"""The normal distribution's 97.5 % quantile."""
_ROWS = 64
"""Sentences per batch where only lengths are needed."""


def ask(run: FinishedRun) -> Finding:
    """Of the baseline, over the first long sentences of the test split."""
    params, network = run.params, run.network(run.params.baseline)
    if not is_ordered(network) or network.order.width != 1:
        return not_measured(f"the baseline {params.baseline!r} does not generate one word per step")
    sentences = _long_sentences(run, network, params.analyses.jacobi.sentences)
    grids = [jacobi_grid(network, source, run.limit(network)) for source in sentences]
    return ddg(grids, run.tokenizer.target_pieces, {
        "family": params.baseline,
        "long_rule": f"greedy output of {params.baseline} has at least {params.speed.long_tokens} tokens"})


def _long_sentences(run: FinishedRun, network: Transformer, count: int) -> list[Tensor]:
    """The first ones, (1, S) ids each."""
    found: list[Tensor] = []
    sources, longest = run.sources(), network.settings.max_length
    greedy = make_decoder(GREEDY, run.params.decoder(GREEDY), run.limit(network))
    for start in range(0, len(sources), _ROWS):
        rows = sources[start:start + _ROWS]
        lengths = greedy(network, pad_sources(rows, longest).to(run.device)).lengths[:, 0].tolist()
        found += [pad_sources([row], longest).to(run.device) for row, length in zip(rows, lengths, strict=True)
                  if length >= run.params.speed.long_tokens]
        if len(found) >= count:
            break
    return found[:count]


@dataclass(frozen=True)
class Share:
    """How many of some tokens are independent of the previous one."""

    independent: int
    tokens: int

    @property
    def value(self) -> float:
        """The share, of at least one token."""
        return self.independent / self.tokens

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval.

        >>> [round(end, 4) for end in Share(3, 10).interval]
        [0.1078, 0.6032]
        """
        n, p = self.tokens, self.value
        middle, half = p + _Z**2 / (2 * n), _Z * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        scale = 1 + _Z**2 / n
        # Rounding must not put the share itself outside, nor an end outside of 0 to 1.
        return max(min((middle - half) / scale, p), 0.0), min(max((middle + half) / scale, p), 1.0)

    def metric(self) -> dict[str, float]:
        """The entry of a metrics file."""
        low, high = self.interval
        return {"independent": self.independent, "tokens": self.tokens, "share": self.value, "low": low, "high": high}


@dataclass(frozen=True)
class Summary:
    """The independent tokens of some sentences."""

    sentences: int
    tokens: int
    """First tokens and end symbols included."""
    iterations: int
    """Over all sentences, each until all tokens are right; the paper's loop takes one more where there are fewer
    iterations than tokens."""
    iterations_per_token: float
    """The mean over the sentences."""
    overall: Share | None
    """None where no sentence has a second token."""
    parts: dict[str, Share]
    """By third of the sentence; those of `PARTS` that have tokens."""
    kinds: dict[str, Share]
    """By kind of piece; those of `KINDS` that have tokens."""

    def metric(self) -> dict[str, Any]:
        """The content of a metrics file."""
        return {**vars(self), "overall": self.overall.metric() if self.overall else None,
                "parts": {name: share.metric() for name, share in self.parts.items()},
                "kinds": {name: share.metric() for name, share in self.kinds.items()}}


def summarise(grids: Sequence[Grid], pieces: Sequence[str]) -> Summary:
    """Count independent tokens.

    Args:
        grids: of at least one sentence.
        pieces: of the target vocabulary, by id.
    """
    tokens = [(grid.settled[at] <= grid.settled[at - 1], list(PARTS)[3 * at // len(grid.tokens)],
               "end_symbol" if grid.ended and at == len(grid.tokens) - 1 else kind_of(pieces[grid.tokens[at]]))
              for grid in grids for at in range(1, len(grid.tokens))]
    lengths = [len(grid.tokens) for grid in grids]
    return Summary(
        len(grids), sum(lengths), sum(grid.iterations for grid in grids),
        sum(grid.iterations / length for grid, length in zip(grids, lengths, strict=True)) / len(grids),
        _shares([(independent, "all") for independent, _, _ in tokens], ["all"]).get("all"),
        _shares([(independent, part) for independent, part, _ in tokens], PARTS),
        _shares([(independent, kind) for independent, _, kind in tokens], KINDS))


def kind_of(piece: str) -> str:
    """The kind of a piece that is not the end symbol.

    >>> [kind_of(piece) for piece in ("▁Haus", "en", "▁-", ",", "▁")]
    ['begins_word', 'inside_word', 'punctuation', 'punctuation', 'begins_word']
    """
    letters = piece.removeprefix(_WORD)
    if letters and all(unicodedata.category(letter)[0] in "PS" for letter in letters):
        return "punctuation"
    return "begins_word" if piece.startswith(_WORD) else "inside_word"


def ddg(grids: Sequence[Grid], pieces: Sequence[str], description: Mapping[str, Any]) -> Finding:
    """Summarise grids and draw the summary.

    Args:
        grids, pieces: see `summarise`.
        description: describes the sentences and the model in the metrics file.
    """
    if not grids:
        return not_measured("no sentence is long")
    summary = summarise(grids, pieces)
    if summary.overall is None:
        return not_measured("no long sentence has a second token")
    groups = {"overall": ("all", summary.overall)}
    groups |= {name: (PARTS[name], share) for name, share in summary.parts.items()}
    groups |= {name: (KINDS[name], share) for name, share in summary.kinds.items()}
    return Finding({**description, **summary.metric()}, _draw(summary, list(groups.values())))


def _shares(tokens: Sequence[tuple[bool, str]], groups: Iterable[str]) -> dict[str, Share]:
    """The share of each group that has tokens, each of which is independent or not."""
    counted = Counter(tokens)
    shares = {group: Share(counted[True, group], counted[True, group] + counted[False, group]) for group in groups}
    return {group: share for group, share in shares.items() if share.tokens}


def _draw(summary: Summary, groups: Sequence[tuple[str, Share]]) -> Figure:
    figure, (axes,) = chart.new_picture()
    for at, (name, share) in enumerate(groups):
        colour = chart.COLOURS[0 if at == 0 else 2 if name in PARTS.values() else 3]
        low, high = share.interval
        axes.plot([100 * low, 100 * high], [at, at], color=colour, linewidth=5, alpha=0.3, solid_capstyle="round")
        axes.plot(100 * share.value, at, color=colour, marker="o", markersize=7)
        axes.annotate(f"{100 * share.value:.1f} % of {share.tokens:,}", (100 * high, at), xytext=(9, 0),
                      textcoords="offset points", va="center", fontsize=8, color=chart.THEME.muted)
    axes.set_yticks(range(len(groups)), [name for name, _ in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(0, 120 * max(share.interval[1] for _, share in groups))  # with room for the last number
    axes.grid(axis="y", visible=False)
    chart.name_axes(axes, "tokens that settle no later than the previous one, %; bars: 95 % intervals", "",
                    f"{summary.sentences} sentences, {summary.iterations_per_token:.3f} iterations per token")
    return figure
