"""Word alignment (fast_align), and the count model made from aligned pairs. No torch."""
