"""What search repeats for every token, compiled: numba, no torch. Training does not run it."""
