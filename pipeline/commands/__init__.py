"""The verbs of the command line, one file each: `run`, and `add_arguments` if the verb has options.

Slow imports are inside `run`.
"""
