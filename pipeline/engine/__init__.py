"""The CPU inference engine: the encoder and what search repeats for every token, compiled. Training does not run it."""
