"""Metrics of tasks other than translation, one file each: corrections (edits, ERRANT, GLEU), simplification, summaries.

Each scores N hypotheses against their sources and R references, and its figures are fields of `quality.Quality`.
"""
