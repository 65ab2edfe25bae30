"""The README's figures are those of the committed run."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def table() -> str:
    """The table of the README, from `reports/decoders.json`."""
    rows = json.loads((ROOT / "reports/decoders.json").read_text())
    lines = ["| family | decoder | BLEU | chrF | ms | ms, long | times `ar` beam 5 | times `ar`, same decoder |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        same = row["ratio_vs_ar_same_decoder"]
        lines.append(f"| {row['family']} | {row['decoder']} | {row['bleu']:.2f} | {row['chrf']:.1f} | "
                     f"{row['ms_per_sentence']:.1f} | {row['ms_per_sentence_long']:.1f} | "
                     f"{row['speedup_vs_beam5']:.2f} | {'' if same is None else f'{same:.2f}'} |")
    return "\n".join([*lines, "", f"`{rows[0]['bleu_signature']}`"])


def test_the_readme_shows_the_committed_run() -> None:
    assert table() in (ROOT / "README.md").read_text()


if __name__ == "__main__":
    print(table())
