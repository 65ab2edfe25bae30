"""The documentation, and what makes its figures (`generate.py`)."""
