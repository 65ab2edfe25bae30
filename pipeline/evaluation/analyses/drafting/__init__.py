"""What the Aggressive Decoding paper measures of its system (sections 4.1.2 and 4.2.3, appendix B), one per file."""
