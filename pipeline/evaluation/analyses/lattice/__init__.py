"""What the sequence-to-lattice paper measures of its own system (its section 5 and appendix), one analysis per file."""
