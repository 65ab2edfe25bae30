"""What the interleaved paper's analyses share."""

from pipeline.evaluation.analyses.orders import open_context

__all__ = ["open_context"]
