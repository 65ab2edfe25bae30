"""Translation over HTTP."""
