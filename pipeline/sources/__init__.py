"""Sentence pairs in: a reader per kind of source, filters, synthetic errors and splits."""
