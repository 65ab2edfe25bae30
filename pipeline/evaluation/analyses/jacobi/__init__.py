"""The questions that the parallel Jacobi decoding paper asks of its own system (section 4.3), one a file."""
