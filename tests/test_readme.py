"""The README's figures are those of the committed run."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.params import load_params
from pipeline.peer_settings import FAMILY as PEER

ROOT = Path(__file__).parents[1]
SHOWN = ("greedy", "beam4", "beam4_deduplicated", "pair_beam10", "mask_predict4", "mask_predict10", "nat", "lattice16",
         "lattice32", "lattice64", "lattice128", "counts")
"""Decoders in the README; all are in reports/decoders.md. Of the baseline all are shown."""


def table() -> str:
    """The table of the README, from `reports/decoders.json` and params.yaml."""
    params = load_params(ROOT / "params.yaml")
    rows = json.loads((ROOT / "reports/decoders.json").read_text())
    lines = ["| family | data | steps | decoder | BLEU | chrF | ms | ms, long | times `ar` beam 5 | "
             "times `ar`, same beam |",
             "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        if not _is_main(row, params.baseline):
            continue
        same = row["ratio_vs_ar_same_decoder"]
        lines.append(f"| {row['family']} | {row['data']} | {params.family(row['family']).training.steps} | "
                     f"{row['decoder']} | {row['bleu']:.2f} | {row['chrf']:.1f} | {row['ms_per_sentence']:.1f} | "
                     f"{row['ms_per_sentence_long']:.1f} | {row['speedup_vs_beam5']:.2f} | "
                     f"{'' if same is None else f'{same:.2f}'} |")
    return "\n".join([*lines, "", f"`{rows[0]['bleu_signature']}`"])


def _is_main(row: Mapping[str, Any], baseline: str) -> bool:
    if row["family"] == PEER or row["decoder"].endswith("_oracle"):
        return False
    return row["decoder"] in SHOWN or row["family"] == baseline


def peers() -> str:
    """The same weights in other libraries beside ours."""
    rows = json.loads((ROOT / "reports/decoders.json").read_text())
    baseline = load_params(ROOT / "params.yaml").baseline
    ours = [(baseline, "greedy"), (baseline, "beam5"), ("speculative", "speculative")]
    lines = ["| | BLEU | ms | ms, long | times `ar` beam 5 | times `ar` greedy | tokens/s | tokens/s, 32 at once | "
             "= greedy |", "| --- |" + " ---: |" * 8]
    for row in rows:
        if row["family"] == PEER or (row["family"], row["decoder"]) in ours:
            name = row["decoder"] if row["family"] == PEER else f"**{row['family']} {row['decoder']}**"
            lines.append(f"| {name} | {row['bleu']:.2f} | {row['ms_per_sentence']:.1f} | "
                         f"{row['ms_per_sentence_long']:.1f} | {row['speedup_vs_beam5']:.2f} | "
                         f"{row['speedup_vs_greedy']:.2f} | {row['tokens_per_second']:,.0f} | "
                         f"{row['tokens_per_second_batch32']:,.0f} | {row['identical_to_greedy']:.1%} |")
    return "\n".join(lines)


def lossless(reports: str = "reports", qualities: Mapping[str, str] = {"bleu": "BLEU"}) -> str:
    """A table of draft and verify of the README: rows of a run, and its measures of quality with their names."""
    rows = json.loads((ROOT / reports / "decoders.json").read_text())
    baseline = load_params(ROOT / "params.yaml").baseline
    greedy = next(row for row in rows if (row["family"], row["decoder"]) == (baseline, "greedy"))
    lines = [f"| family | decoder | {' | '.join(qualities.values())} | tokens a call | ms, long | times beam 5 | "
             "times greedy | times greedy, 32 at once | = greedy | ties |",
             "| --- | --- |" + " ---: |" * (7 + len(qualities))]
    for row in rows:
        reference = row["family"] == baseline and row["decoder"] in ("greedy", "beam5")
        drafts = row["accepted_per_call"] is not None and not row["decoder"].endswith("_oracle")
        if not (reference or drafts or row["decoder"] == "draft"):
            continue
        together = row["tokens_per_second_batch32"] / greedy["tokens_per_second_batch32"]
        accepted = "" if row["accepted_per_call"] is None else f"{row['accepted_per_call']:.2f}"
        same = "" if row["identical_to_greedy"] is None else f"{row['identical_to_greedy']:.1%}"
        speeds = f"{row['speedup_vs_beam5']:.2f} | {row['speedup_vs_greedy']:.2f} | {together:.2f}"
        scores = " | ".join(f"{row[key]:.2f}" for key in qualities)
        lines.append(f"| {row['family']} | {row['decoder']} | {scores} | {accepted} | "
                     f"{row['ms_per_sentence_long']:.1f} | {speeds} | {same} | "
                     f"{'' if row['ties'] is None else row['ties']} |")
    return "\n".join(lines)


def correction() -> str:
    """The same of the profile `gec`."""
    return lossless("reports/gec", {"precision": "precision", "recall": "recall", "f05": "F0.5", "gleu": "GLEU"})


def test_the_readme_shows_the_committed_run() -> None:
    assert table() in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("shown", [lossless, correction, peers])
def test_the_readme_shows_draft_and_verify_of_the_committed_runs(shown: Callable[[], str]) -> None:
    assert shown() in (ROOT / "README.md").read_text()


if __name__ == "__main__":
    print(f"{table()}\n\n{lossless()}\n\n{correction()}\n\n{peers()}")
