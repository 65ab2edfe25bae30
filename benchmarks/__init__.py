"""Measurements that print and write JSON. They are not tests: what they say depends on the machine and its load."""
