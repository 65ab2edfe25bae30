"""The command line's verbs, a file each: `HELP`, `add_arguments` and `run`. What is slow to import is imported in `run`."""
