"""Text in, id arrays out: sources, filters, byte-pair encoding and the packed file of aligned ids."""
