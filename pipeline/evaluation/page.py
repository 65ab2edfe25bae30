"""The page: everything that a colleague needs to choose a decoder, in one HTML file without external addresses."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from operator import attrgetter
from pathlib import Path
from string import Template
from typing import Any

from pipeline.evaluation.rows import Name, Row, pareto
from pipeline.evaluation.table import Column, columns_of, measurement_notes

_SAMPLES = 10
_TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True)
class Texts:
    """The test set with all its translations; every list has one entry per sentence."""

    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    """(R, N), R per sentence."""
    hypotheses: Mapping[Name, Sequence[str]]
    source_language: str
    target_language: str
    """Language tags for the browser (hyphenation, fonts, screen readers)."""


def render_page(rows: Sequence[Row], texts: Texts, speed: Mapping[str, Any], picture: bytes,
                dark_picture: bytes) -> str:
    """Render the report as one HTML page.

    Args:
        rows: at least one.
        texts: of all decoders in `rows`.
        speed: the content of `reports/speed.json`.
        picture, dark_picture: PNGs for light and dark screens.
    """
    best, columns = pareto(rows), columns_of(rows)
    choices = sorted((row for row in rows if row.name in best), key=attrgetter("speed"))
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        direction=f"{escape(texts.source_language)} → {escape(texts.target_language)}",
        sentences=f"{len(texts.sources):,}",
        measure=rows[0].quality_name,
        choices="\n".join(_choice(row, rows, speed["baseline"]) for row in choices),
        picture=base64.b64encode(picture).decode(),
        dark_picture=base64.b64encode(dark_picture).decode(),
        head="".join(_head(at, column) for at, column in enumerate(columns)),
        body="\n".join(_table_row(row, columns, row.name in best) for row in rows),
        samples="\n".join(_sample(index, texts) for index in choose_samples(texts)),
        notes="\n".join(f"<li>{escape(note)}</li>" for note in measurement_notes(rows, speed)),
    )


def choose_samples(texts: Texts, count: int = _SAMPLES) -> list[int]:
    """Sentences of evenly spaced source lengths; if there are enough, only such as decoders disagree on."""
    everything = range(len(texts.sources))
    disputed = [index for index in everything
                if len({hypotheses[index] for hypotheses in texts.hypotheses.values()}) > 1]
    pool = sorted(disputed if len(disputed) >= count else everything,
                  key=lambda index: (len(texts.sources[index].split()), index))
    chosen = min(count, len(pool))
    return [pool[(2 * at + 1) * len(pool) // (2 * chosen)] for at in range(chosen)]


def mark_differences(text: str, reference: str) -> str:
    """Escaped HTML of `text` with `<mark>` around the words that the reference does not have at this position.

    >>> mark_differences("Das <b> Licht", "Das Licht")
    'Das <mark>&lt;b&gt;</mark> Licht'
    """
    mine = re.findall(r"(?:\w+|[^\w\s])\s*|\s+", text)
    theirs = re.findall(r"\w+|[^\w\s]", reference)
    matcher = SequenceMatcher(None, [piece.strip() for piece in mine], theirs, autojunk=False)
    html = []
    for kind, start, end, *_ in matcher.get_opcodes():
        words = "".join(mine[start:end])
        if kind == "equal" or not words.strip():
            html.append(escape(words))
        else:
            space = words[len(words.rstrip()):]
            html.append(f"<mark>{escape(words.rstrip())}</mark>{space}")
    return "".join(html)


def _choice(row: Row, rows: Sequence[Row], baseline: str) -> str:
    """A card for a decoder worth choosing: its speed and quality relative to the baseline's beam search."""
    gain = row.quality - next(other.quality for other in rows if other.name == (baseline, "beam5"))
    signed = f"{gain:+.1f}".replace("-", "\N{MINUS SIGN}")
    return (f'<li><p class="who"><b>{escape(row.family)}</b> {escape(row.decoder)}</p>'
            f'<p class="big">{row.speed:.2f}<small>×</small></p>'
            f'<p>{row.quality:.1f} {row.quality_name} <span class="muted">({signed})</span></p></li>')


def _head(at: int, column: Column) -> str:
    title = escape(column.title).replace(", ", ",<br>")
    return (f'<th scope="col" title="{escape(column.hint)}">'
            f'<button type="button" data-column="{at}">{title}</button></th>')


def _table_row(row: Row, columns: Sequence[Column], is_best: bool) -> str:
    cells = []
    for column in columns:
        value, text = column.value(row), escape(column.text(row))
        kind = "text" if isinstance(value, str) else "number"
        key = "" if value is None else escape(str(value))
        shown = re.sub(r" (\[.*\])", r" <small>\1</small>", text)  # the interval
        cells.append(f'<td class="{kind}" data-value="{key}">{shown}</td>')
    return f'<tr{" class=best" if is_best else ""}>{"".join(cells)}</tr>'


def _sample(index: int, texts: Texts) -> str:
    """One sentence with its distinct translations, each after the decoders that agree on it."""
    writers: dict[str, dict[str, list[str]]] = {}  # decoders by family, by hypothesis
    for (family, decoder), hypotheses in texts.hypotheses.items():
        writers.setdefault(hypotheses[index], {}).setdefault(family, []).append(decoder)
    source, target = escape(texts.source_language), escape(texts.target_language)
    references = list(dict.fromkeys(one[index] for one in texts.references))
    entries = [f'<dt>source</dt><dd lang="{source}" dir="auto">{escape(texts.sources[index])}</dd>',
               *(f'<dt>reference</dt><dd lang="{target}" dir="auto">{escape(one)}</dd>' for one in references)]
    for hypothesis, families in writers.items():
        shown = mark_differences(hypothesis, _nearest(hypothesis, references)) or '<span class="muted">(empty)</span>'
        chips = (f'<span class="chip"><b>{escape(family)}</b> {escape(", ".join(decoders))}</span>'
                 for family, decoders in families.items())
        entries.append(f'<dt>{"".join(chips)}</dt><dd lang="{target}" dir="auto">{shown}</dd>')
    return f'<article><h3>sentence {index + 1}</h3><dl>{"".join(entries)}</dl></article>'


def _nearest(text: str, references: Sequence[str]) -> str:
    return max(references, key=lambda one: SequenceMatcher(None, text.split(), one.split(), autojunk=False).ratio())
