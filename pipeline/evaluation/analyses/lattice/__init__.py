"""What the sequence-to-lattice paper measures of its own system (its section 5 and appendix), and `reach`, one analysis
per file."""
