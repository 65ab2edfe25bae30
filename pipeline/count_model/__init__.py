"""The count model of lattices and drafts from counts: tables in memory, looked up by compiled code. No torch."""
