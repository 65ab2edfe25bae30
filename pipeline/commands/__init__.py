"""The command line's verbs, a file each: `add_arguments` and `run`. What is slow to import is imported in `run`."""
