"""The tables of `docs/training.md` that show how long distilled targets are: from the reports of two runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.tables import table

ROOT = Path(__file__).parents[1]
RUNS = {"default": ROOT / "reports/distilled.json", "full": ROOT / "reports/full/distilled.json"}
"""Reports by the title of their run."""


def distilled() -> str:
    """What the exponents do on validation, where a run has tried several, and the lengths of the targets."""
    reports: Mapping[str, Any] = {title: json.loads(path.read_text(encoding="utf-8"))
                                  for title, path in RUNS.items() if path.exists()}
    tried = {title: one["length_penalty"] for title, one in reports.items() if "length_penalty" in one}
    return "\n\n".join((
        table(["run", "exponent", "BLEU", "pieces, relative to the references"],
              ([f"`{title}`", f"{exponent} (chosen)" if float(exponent) == one["alpha"] else exponent,
                f"{scores['bleu']:.2f}", f"{scores['length_ratio']:.3f}"]
               for title, one in tried.items() for exponent, scores in one["validation"].items())),
        table(["run", "exponent", "pieces per distilled target", "per reference"],
              ([f"`{title}`", f"{tried[title]['alpha']:g}" if title in tried else "of the decoder",
                f"{one['mean_length']:.2f}", f"{one['raw_mean_length']:.2f}"] for title, one in reports.items()))))
