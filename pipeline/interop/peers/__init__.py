"""Searches of other libraries with our weights, in separate processes: two OpenMP runtimes slow each other down."""
