"""What the papers measure of their own systems, measured of a run: one package per paper, one analysis per file."""
