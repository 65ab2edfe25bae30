"""Other libraries that search with our weights, each search in a process of its own.

Two OpenMP runtimes in one process slow each other down, so none of them is imported where ours runs.
"""
