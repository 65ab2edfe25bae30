"""The tables of `docs/training.md` that show how long distilled targets are: from the reports of two runs."""

from docs.reports import FULL, RUN, read
from docs.tables import table

RUNS = {"default": RUN, "full": FULL}
"""Folders of runs by their title."""


def distilled() -> str:
    """What the exponents do on validation, where a run has tried several, and the lengths of the targets."""
    reports = {title: read(f"{run}/distilled.json") for title, run in RUNS.items()}
    tried = {title: one["length_penalty"] for title, one in reports.items() if "length_penalty" in one}
    return "\n\n".join((
        table(["run", "exponent", "BLEU", "pieces, relative to the references"],
              ([f"`{title}`", f"{exponent} (chosen)" if float(exponent) == one["alpha"] else exponent,
                f"{scores['bleu']:.2f}", f"{scores['length_ratio']:.3f}"]
               for title, one in tried.items() for exponent, scores in one["validation"].items())),
        table(["run", "exponent", "pieces per distilled target", "per reference"],
              ([f"`{title}`", f"{tried[title]['alpha']:g}" if title in tried else "of the decoder",
                f"{one['mean_length']:.2f}", f"{one['raw_mean_length']:.2f}"] for title, one in reports.items()))))
