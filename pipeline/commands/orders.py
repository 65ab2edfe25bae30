"""Draw every generation order, its positions and its mask: the text of docs/orders.md."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(arguments: argparse.Namespace) -> None:
    from pipeline.model.drawing import page

    print(page(), end="")
