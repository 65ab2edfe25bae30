"""Models of other libraries in, and ours out."""
