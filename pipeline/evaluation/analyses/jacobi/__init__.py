"""What the Jacobi paper asks of a model (Santilli et al. 2023, section 3.5): which tokens wait for which."""
