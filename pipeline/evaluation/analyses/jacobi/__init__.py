"""What the Jacobi paper (Santilli et al. 2023) measures: dependencies of tokens, known lengths, operations, threads."""
