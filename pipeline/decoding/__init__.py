"""Search: one algorithm a file, plain functions on the three verbs of `protocol.Model`."""
