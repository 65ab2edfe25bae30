"""Translate and score sentences by a model folder of an ordered family: `python examples/translate.py FOLDER`.

`python -m pipeline export folder --family ar --output FOLDER` writes one.
"""

import sys

from pipeline import Scorer, Translator

SENTENCES = ["The window in the hall is open.", "Close the garage door at ten.", "How warm is it in the cellar?"]


def main(folder: str) -> None:
    translator = Translator.from_pretrained(folder)
    print(translator.translate("The battery of the doorbell is almost empty."))
    for found in translator(SENTENCES):  # in batches, in their order
        print(f"{found.source} -> {found.hypotheses[0]} ({found.calls} decoder calls)")
    total, tokens = Scorer.from_pretrained(folder).score("The window is open.", "Das Fenster ist offen.")
    print(f"log-probability {total:.2f} of {tokens} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
