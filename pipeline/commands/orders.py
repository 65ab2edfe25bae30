"""Draw every generation order, its positions and its mask: the text of docs/orders.md."""

import argparse


def run(arguments: argparse.Namespace) -> None:
    from pipeline.model.drawing import page

    print(page(), end="")
