"""The questions that the Aggressive Decoding paper asks of its own system (sections 4.1.2 and 4.2.3, appendix B), one a
file."""
