"""A fault campaign: what the pipeline does when the ground moves. `python -m benchmarks.faults --help`."""
