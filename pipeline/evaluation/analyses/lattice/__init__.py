"""The questions that the sequence-to-lattice paper asks of its own system (its section 5 and appendix), one a file."""
