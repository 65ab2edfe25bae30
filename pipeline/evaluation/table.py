"""The table as people read it: rounded, with the same columns in Markdown and on the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluation.rows import Row
from pipeline.measures import MEASURES

ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    title: str
    field: str
    """The field of `Row` that the column shows and sorts by."""
    form: str
    """How its number is formatted; empty for text."""
    hint: str
    """One sentence on what it means."""
    has_interval: bool = False
    """Whether the field `<field>_interval` is shown as well."""

    def value(self, row: Row) -> str | float | None:
        """The row's value before it is formatted; None where there is none."""
        value: str | float | None = getattr(row, self.field)
        return value

    def text(self, row: Row) -> str:
        """The row's cell."""
        value = self.value(row)
        if value is None:
            return ABSENT
        text = format(value, self.form)
        if self.has_interval:
            low, high = getattr(row, f"{self.field}_interval")
            text += f" [{low:{self.form}}, {high:{self.form}}]"
        return text


_CI = "long sentences, with its 95 % interval"

COLUMNS = (
    Column("family", "family", "", "the trained model"),
    Column("decoder", "decoder", "", "the search algorithm"),
    Column("data", "data", "", "target side of the training data"),
    Column("F0.5", "f05", ".2f", "of edits: right ones against wrong and, less, missed ones, higher is better"),
    Column("precision", "precision", ".2f", "right edits among those made"),
    Column("recall", "recall", ".2f", "right edits among those to be made"),
    Column("GLEU", "gleu", ".2f", "BLEU that takes off what should have been corrected, higher is better"),
    Column("SARI", "sari", ".2f", "n-grams that a simplification adds, keeps and deletes rightly, higher is better"),
    Column("ROUGE-L", "rouge_l", ".2f", "the longest common subsequence with the summary, higher is better"),
    Column("BLEU", "bleu", ".2f", "sacreBLEU, higher is better"),
    Column("BLEU, Moses", "moses_bleu", ".2f", "BLEU of Moses tokens, as `multi-bleu.perl` computes it"),
    Column("p", "p_value_vs_ar", ".3f",
           "paired bootstrap on BLEU, two-sided, against the baseline under the same decoder (or as many beams)"),
    Column("chrF", "chrf", ".1f", "character n-gram F-score, higher is better"),
    Column("TER", "ter", ".1f", "translation edit rate, lower is better"),
    Column("× beam5", "speedup_vs_beam5", ".2f", f"speed over the baseline's beam 5, {_CI}", has_interval=True),
    Column("× greedy", "speedup_vs_greedy", ".2f", f"speed over the baseline's greedy search, {_CI}",
           has_interval=True),
    Column("× same", "ratio_vs_ar_same_decoder", ".2f",
           f"speed over the baseline under the same decoder (or as many beams), {_CI}", has_interval=True),
    Column("× beam5, all", "speedup_vs_beam5_all", ".2f", "speed over the baseline's beam 5, all sentences"),
    Column("× greedy, all", "speedup_vs_greedy_all", ".2f", "speed over the baseline's greedy search, all sentences"),
    Column("× beam5, 32", "speedup_vs_beam5_batch32", ".2f",
           "speed over the baseline's beam 5, 32 at a time, with its 95 % interval", has_interval=True),
    Column("× greedy, 32", "speedup_vs_greedy_batch32", ".2f",
           "speed over the baseline's greedy search, 32 at a time, with its 95 % interval", has_interval=True),
    Column("ms, long", "ms_per_sentence_long", ".1f", "milliseconds per long sentence, one at a time"),
    Column("ms", "ms_per_sentence", ".1f", "milliseconds per sentence, one at a time"),
    Column("ms, 32", "ms_per_sentence_batch32", ".2f", "milliseconds per sentence, 32 at a time"),
    Column("tokens/s", "tokens_per_second", ",.0f", "output tokens per second, one sentence at a time"),
    Column("tokens/s, 32", "tokens_per_second_batch32", ",.0f",
           "output tokens per second, 32 sentences at a time"),
    Column("calls, long", "calls_long", ".1f", "decoder calls per long sentence"),
    Column("calls", "calls", ".1f", "decoder calls per sentence"),
    Column("accepted", "accepted_per_call", ".2f", "tokens accepted per call of the verifier"),
    Column("drafter calls", "drafter_calls", ".1f", "calls of the drafter per sentence"),
    Column("= greedy", "identical_to_greedy", ".1%",
           "share of sentences with exactly the text of greedy search (the family's or its verifier's)"),
    Column("ties", "ties", ".0f", "sentences with another text only because of a numerical tie"),
)


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """The columns in which at least one row has a value."""
    return [column for column in COLUMNS if any(column.value(row) is not None for row in rows)]


def markdown_table(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The table, what its columns mean and the notes, as a Markdown document."""
    columns = columns_of(rows)
    lines = [[column.title for column in columns],
             ["---:" if column.form else "---" for column in columns],
             *([column.text(row) for column in columns] for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    meanings = "\n".join(f"- **{column.title}**: {column.hint}" for column in columns)
    return f"# Decoders\n\n{table}\n\n{meanings}\n\n" + "\n\n".join(notes) + "\n"


def measurement_notes(rows: Sequence[Row], speed: Mapping[str, Any]) -> list[str]:
    """What a reader must know to compare the numbers with others: signatures, sample sizes, the machine."""
    signatures = {one.title: dict.fromkeys(filter(None, (getattr(row, one.signature) for row in rows)))
                  for one in MEASURES}
    sizes = (f"Speed: {speed['sentences']} sentences of all lengths, and {speed['long_sentences']} long ones "
             f"({speed['long_rule']}); median of {speed['repetitions']} repetitions, all decoders "
             "interleaved sentence by sentence, this project's in one process; intervals by paired bootstrap over "
             "sentences.")
    made = speed["made"]
    return [*(f"{name} signature: {', '.join(found)}" for name, found in signatures.items() if found),
            sizes, f"Measured on {made['date']} by commit {made['commit'] or 'unknown'}.",
            f"Machine: {_flatten(speed['machine'])}"]


def _flatten(machine: Mapping[str, Any]) -> str:
    return " · ".join(f"{key}: {_flatten(value)}" if isinstance(value, Mapping) else f"{key} {value}"
                      for key, value in machine.items())
