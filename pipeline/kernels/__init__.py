"""What search repeats for every token, and the encoder, compiled: numba, no torch. Training does not run it."""
