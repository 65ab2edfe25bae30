"""The table as people read it: rounded, with the same columns in Markdown and on the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluation.rows import Row

ABSENT = "–"


@dataclass(frozen=True)
class Column:
    title: str
    hint: str
    """What the number is, in a sentence."""
    value: Callable[[Row], str | float | None]
    """What the column sorts by."""
    text: Callable[[Row], str]


def _number(title: str, hint: str, value: Callable[[Row], float | None], form: str,
            interval: Callable[[Row], Sequence[float] | None] = lambda row: None) -> Column:
    def text(row: Row) -> str:
        number, bounds = value(row), interval(row)
        if number is None:
            return ABSENT
        return format(number, form) + (f" [{bounds[0]:{form}}, {bounds[1]:{form}}]" if bounds else "")

    return Column(title, hint, value, text)


_CI = "long sentences, with its 95 % interval"

COLUMNS = (
    Column("family", "the trained model", lambda row: row.family, lambda row: row.family),
    Column("decoder", "the search algorithm", lambda row: row.decoder, lambda row: row.decoder),
    Column("data", "target side of the training data", lambda row: row.data, lambda row: row.data),
    _number("F0.5", "of edits: right ones against wrong and, less, missed ones, higher is better",
            lambda row: row.f05, ".2f"),
    _number("precision", "right edits among those made", lambda row: row.precision, ".2f"),
    _number("recall", "right edits among those to be made", lambda row: row.recall, ".2f"),
    _number("GLEU", "BLEU that takes off what should have been corrected, higher is better",
            lambda row: row.gleu, ".2f"),
    _number("BLEU", "sacreBLEU, higher is better", lambda row: row.bleu, ".2f"),
    _number("p", "paired bootstrap on BLEU against the baseline under the same decoder (or as many beams)",
            lambda row: row.p_value_vs_ar, ".3f"),
    _number("chrF", "character n-gram F-score, higher is better", lambda row: row.chrf, ".1f"),
    _number("TER", "translation edit rate, lower is better", lambda row: row.ter, ".1f"),
    _number("× beam5", f"speed over the baseline's beam 5, {_CI}",
            lambda row: row.speedup_vs_beam5, ".2f", lambda row: row.speedup_vs_beam5_interval),
    _number("× greedy", f"speed over the baseline's greedy search, {_CI}",
            lambda row: row.speedup_vs_greedy, ".2f", lambda row: row.speedup_vs_greedy_interval),
    _number("× same", f"speed over the baseline under the same decoder (or as many beams), {_CI}",
            lambda row: row.ratio_vs_ar_same_decoder, ".2f",
            lambda row: row.ratio_vs_ar_same_decoder_interval),
    _number("× beam5, all", "speed over the baseline's beam 5, all sentences",
            lambda row: row.speedup_vs_beam5_all, ".2f"),
    _number("× greedy, all", "speed over the baseline's greedy search, all sentences",
            lambda row: row.speedup_vs_greedy_all, ".2f"),
    _number("ms, long", "milliseconds a long sentence, one at a time",
            lambda row: row.ms_per_sentence_long, ".1f"),
    _number("ms", "milliseconds a sentence, one at a time", lambda row: row.ms_per_sentence, ".1f"),
    _number("tokens/s", "output tokens a second, one sentence at a time",
            lambda row: row.tokens_per_second, ",.0f"),
    _number("tokens/s, 32", "output tokens a second, 32 sentences at a time",
            lambda row: row.tokens_per_second_batch32, ",.0f"),
    _number("calls, long", "decoder calls a long sentence", lambda row: row.calls_long, ".1f"),
    _number("calls", "decoder calls a sentence", lambda row: row.calls, ".1f"),
    _number("accepted", "tokens that a call of the verifier accepts", lambda row: row.accepted_per_call, ".2f"),
    _number("drafter calls", "calls of the drafter a sentence", lambda row: row.drafter_calls, ".1f"),
    _number("= greedy", "share of sentences with exactly the text of greedy search (the family's or its verifier's)",
            lambda row: row.identical_to_greedy, ".1%"),
    _number("ties", "sentences with another text only because of a numerical tie", lambda row: row.ties, ".0f"),
)


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """The columns in which a row has a value."""
    return [column for column in COLUMNS if any(column.value(row) is not None for row in rows)]


def markdown_table(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The table, what its columns mean and the notes, as a Markdown document."""
    columns = columns_of(rows)
    lines = [[column.title for column in columns],
             ["---" if isinstance(column.value(rows[0]), str) else "---:" for column in columns],
             *([column.text(row) for column in columns] for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    meanings = "\n".join(f"- **{column.title}**: {column.hint}" for column in columns)
    return f"# Decoders\n\n{table}\n\n{meanings}\n\n" + "\n\n".join(notes) + "\n"


def measurement_notes(rows: Sequence[Row], speed: Mapping[str, Any]) -> list[str]:
    """What a reader must know to compare the numbers with others: signatures, sample sizes, the machine."""
    kinds = (("F0.5", [row.edits_signature for row in rows]), ("GLEU", [row.gleu_signature for row in rows]),
             ("BLEU", [row.bleu_signature for row in rows]), ("chrF", [row.chrf_signature for row in rows]),
             ("TER", [row.ter_signature for row in rows]))
    signatures = [f"{name} signature: " + ", ".join(different) for name, column in kinds
                  if (different := list(dict.fromkeys(filter(None, column))))]
    sizes = (f"Speed: {speed['sentences']} sentences, {speed['long_sentences']} of them long "
             f"({speed['long_rule']}); median of {speed['repetitions']} repetitions, all decoders "
             "interleaved sentence by sentence in one process; intervals by paired bootstrap over sentences.")
    made = speed["made"]
    return [*signatures, sizes, f"Measured on {made['date']} by commit {made['commit'] or 'unknown'}.",
            f"Machine: {_flatten(speed['machine'])}"]


def _flatten(machine: Mapping[str, Any]) -> str:
    return " · ".join(f"{key}: {_flatten(value)}" if isinstance(value, Mapping) else f"{key} {value}"
                      for key, value in machine.items())
