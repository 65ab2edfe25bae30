"""The shapes of networks on random weights that several benchmarks share."""

from pipeline.model.settings import NetworkSettings

DEFAULT = NetworkSettings(width=128, heads=4, feed_forward=512, encoder_layers=2, decoder_layers=2)
"""That of params.yaml."""
MIDDLE = NetworkSettings(width=256, heads=4, feed_forward=1024, encoder_layers=4, decoder_layers=4)
BASE = NetworkSettings(width=512, heads=8, feed_forward=2048, encoder_layers=6, decoder_layers=6)
"""Transformer base."""
BIG = NetworkSettings(width=1024, heads=16, feed_forward=4096, encoder_layers=6, decoder_layers=6)
"""Transformer big."""
SHAPES = {shape.width: shape for shape in (DEFAULT, MIDDLE, BASE, BIG)}
"""All of them, by width."""
