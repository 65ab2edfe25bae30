"""What the baseline of a run must have, for tests that begin with the stage `facts`."""

BEAM5 = {"decoders": {"beam5": {"algorithm": "beam", "beams": 5}}, "default_decoders": ["greedy", "beam5"]}
"""Over the test parameters."""
