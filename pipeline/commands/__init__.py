"""The commands of the command line, one file each: `run`, and `add_arguments` if the command has options.

Slow imports are inside `run`.
"""
