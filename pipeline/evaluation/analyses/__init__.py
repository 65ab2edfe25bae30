"""What the papers ask of their own systems, asked of a run: a package a paper, a question a file."""
