"""Write every system as a model folder, data/models/FAMILY, with its card.

`translate --model FOLDER` and `Translator.from_pretrained` open one, wherever it then stands. `export folder` writes a
folder elsewhere, under another licence, or for a family that is not a system.
"""

import argparse

from pipeline.params import load_params


def run(arguments: argparse.Namespace) -> None:
    from pipeline import layout
    from pipeline.files import atomic_path, locked
    from pipeline.interop.cards import licence_of
    from pipeline.interop.export_model import export_model

    params = load_params()
    with locked(layout.MODELS), atomic_path(layout.MODELS) as aside:
        aside.mkdir()
        for family in params.systems:
            export_model(aside / family, params, family, licence_of(params.corpus, None))
            print(f"{layout.MODELS / family}: a model folder of {family}")
