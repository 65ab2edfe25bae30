"""From the measurements of all stages to the files that people read."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.evaluation.claims import claims
from pipeline.evaluation.figures import DARK, quality_speed_png
from pipeline.evaluation.page import Texts, render_page
from pipeline.evaluation.rows import assemble_rows, read_speed, read_texts, timed_decoders
from pipeline.evaluation.table import markdown_table, measurement_notes
from pipeline.files import atomic_path, write_json, write_text
from pipeline.lines import read_lines


def build_report(*, quality: Path, evaluation: Path, speed: Path, references: Sequence[Path],
                 sources: Path, out: Path, page: Path, source_language: str, target_language: str,
                 tokenizer: str = "13a", samples: int = 1000, seed: int = 12345) -> None:
    """Write `decoders.json`, `decoders.md`, `claims.json`, `quality_speed.png` into `out`; the page.

    The page has a path of its own because it shows sentences of the corpus, which do not belong into git.
    Everything is read and checked before the first file is written.

    Args:
        quality: folder of `<family>.json`, {family, data, decoders: {name: `quality.Quality` and more}}.
        evaluation: folder of `<family>/<decoder>.jsonl`.
        speed: file of `speed.speed_report`.
        references: files with a reference of each test sentence, one a line.
        sources: the test sentences, likewise.
        source_language, target_language: language tags for the page.
        tokenizer: BLEU's, as in the quality files; the paired bootstrap uses it too.
        samples, seed: of the paired bootstrap.

    Raises:
        PipelineError: a file is absent or damaged, or the files do not belong together.
    """
    source_lines, reference_lines = list(read_lines(sources)), [list(read_lines(path)) for path in references]
    for path, lines in zip(references, reference_lines, strict=True):
        if len(source_lines) != len(lines):
            raise PipelineError(f"{sources}: {len(source_lines)} lines, but {path} has {len(lines)}; "
                                "both sides must have the same sentences")
    measured = read_speed(speed)
    hypotheses = read_texts(evaluation, timed_decoders(measured), len(source_lines))
    rows = assemble_rows(quality, measured, hypotheses, reference_lines, tokenizer=tokenizer, samples=samples,
                         seed=seed)
    found = claims(hypotheses, reference_lines, measured, tokenizer, samples, seed)
    texts = Texts(source_lines, reference_lines, hypotheses, source_language, target_language)
    picture = quality_speed_png(rows)
    html = render_page(rows, texts, measured, picture, quality_speed_png(rows, DARK))

    write_json(out / "decoders.json", [asdict(row) for row in rows])
    write_text(out / "decoders.md", markdown_table(rows, measurement_notes(rows, measured)))
    write_json(out / "claims.json", found)
    with atomic_path(out / "quality_speed.png") as aside:
        aside.write_bytes(picture)
    write_text(page, html)
