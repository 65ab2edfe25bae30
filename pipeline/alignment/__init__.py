"""Word alignment (fast_align), and what is counted on aligned pairs. No network, no torch."""
