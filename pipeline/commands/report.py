"""Write the table, the claims, the picture and the page: decoders.*, claims.json, quality_speed.png, data/page."""

import argparse

from pipeline import layout
from pipeline.files import locked
from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline.evaluation.report import build_report

    params = load_params()
    with locked(layout.REPORTS):
        build_report(quality=layout.REPORTS / "quality", evaluation=layout.HYPOTHESES,
                     speed=layout.REPORTS / "speed.json", references=layout.references("test"),
                     sources=layout.CORPUS / "test.source", out=layout.REPORTS,
                     page=layout.PAGE, source_language=params.corpus.source_language,
                     target_language=params.corpus.target_language, tokenizer=params.evaluation.bleu_tokenizer,
                     samples=params.evaluation.bootstrap_samples)
