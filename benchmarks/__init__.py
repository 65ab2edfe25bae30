"""Measurements that print and write JSON. No tests: what they say depends on the machine and on its load."""
