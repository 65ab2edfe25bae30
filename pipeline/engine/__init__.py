"""The CPU inference engine: what search repeats for every token, and the encoder, compiled by numba. Not for training."""
