"""Model folders for tests."""

from pathlib import Path

from pipeline.cli import main

LINES = ["The tiny otter paints the ladder no 1 .", "", "The red raven hides the teapot above 7 snails no 7 .",
         "a moth"]


def export(family: str = "teacher", *options: str) -> Path:
    """The model folder of a family of the current workspace."""
    assert main(["export", "folder", "--family", family, "--output", f"out/{family}", *options]) == 0
    return Path("out") / family
