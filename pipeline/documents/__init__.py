"""Documents: what `translate` reads other than single lines, and writes in the same form with the translations."""
