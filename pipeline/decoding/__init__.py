"""Search: one algorithm per file, plain functions on the three methods of `protocol.Model`."""
