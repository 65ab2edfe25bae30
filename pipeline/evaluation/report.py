"""From the measurements of all stages to the files that people read."""

from collections.abc import Sequence
from dataclasses import asdict

from pipeline import layout
from pipeline.errors import PipelineError
from pipeline.evaluation.claims import judge
from pipeline.evaluation.figures import DARK, quality_speed_png
from pipeline.evaluation.page import Texts, render_page
from pipeline.evaluation.resampled_bleu import Resampled
from pipeline.evaluation.rows import (
    Row,
    assemble_rows,
    counts_of,
    read_lines,
    read_speed,
    texts_of,
    timed_decoders,
)
from pipeline.evaluation.table import markdown_table, measurement_notes
from pipeline.files import atomic_path, read_json, write_json, write_text
from pipeline.params import Params


def build_report(params: Params) -> None:
    """Write `decoders.json`, `decoders.md`, `claims.json` and `quality_speed.png` into reports/, and the page.

    The page is elsewhere because it shows sentences of the corpus, which do not belong in git. Everything is read and
    checked before the first file is written.

    Raises:
        PipelineError: a file is absent or damaged, or the files do not belong together.
    """
    source_file = layout.CORPUS / "test.source"
    sources, references = layout.read_corpus(source_file), []
    for path in layout.references("test"):
        references.append(layout.read_corpus(path))
        if len(sources) != len(references[-1]):
            raise PipelineError(f"{source_file}: {len(sources)} lines, but {path} has {len(references[-1])}; "
                                "both sides must have the same sentences")
    speed = read_speed(layout.REPORTS / "speed.json")
    lines = read_lines(layout.HYPOTHESES, timed_decoders(speed), len(sources))
    hypotheses = texts_of(lines)
    resampled = Resampled(references, params.evaluation.bleu_tokenizer, params.evaluation.bootstrap_samples)
    bleu = {name: resampled(texts) for name, texts in hypotheses.items()}
    rows = assemble_rows(layout.REPORTS / "quality", speed, hypotheses, bleu, params.greedy_of)
    judgements = judge(rows, bleu, counts_of(lines), resampled.times, speed,
                       read_json(layout.REPORTS / "analyses.json"))
    texts = Texts(sources, references, hypotheses, params.corpus.source_language, params.corpus.target_language)
    shown = drawn(rows)
    picture = quality_speed_png(shown)
    html = render_page(rows, texts, speed, picture, quality_speed_png(shown, DARK))

    write_json(layout.REPORTS / "decoders.json", [asdict(row) for row in rows])
    write_text(layout.REPORTS / "decoders.md", markdown_table(rows, measurement_notes(rows, speed)))
    write_json(layout.REPORTS / "claims.json", judgements)
    with atomic_path(layout.REPORTS / "quality_speed.png") as aside:
        aside.write_bytes(picture)
    write_text(layout.PAGE, html)


def drawn(rows: Sequence[Row]) -> list[Row]:
    """The rows of the picture: with less than half of the best score, a decoder would squeeze the others together."""
    best = max(row.quality for row in rows)
    return [row for row in rows if row.quality >= best / 2]
