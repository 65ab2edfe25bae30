"""Parameters that several tests lay over those of the tests."""

from typing import Any

BEAM5 = {"decoders": {"beam5": {"algorithm": "beam", "beams": 5}}, "default_decoders": ["greedy", "beam5"]}
"""What the baseline of a run must have, for tests that begin with the stage `facts`."""
STARTS = {"ar": "teacher", "nat": "teacher", "small": "ar", "late": "small"}
"""Students, some of which start from others."""
STUDENTS: dict[str, Any] = {
    **BEAM5, "families": {name: {"order": {"name": "left_to_right"}} for name in STARTS},
    "students": {"interleaved": None, **STARTS}, "systems": ["teacher", *STARTS]}
"""A run of these students."""
