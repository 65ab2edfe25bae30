"""Sentence pairs as ids: byte-pair encoding, the packed file of aligned ids, and batches."""
