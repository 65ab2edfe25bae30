"""The questions of the Jacobi paper (Santilli et al. 2023): what waits for what, operations, and threads."""
