"""The kinds of sources, one per file. Nothing lists them; `pipeline.sources.settings` says what a file defines."""
