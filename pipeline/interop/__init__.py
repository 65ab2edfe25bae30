"""Models of other libraries, as models that search can search."""
