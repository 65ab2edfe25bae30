"""Word alignment (fast_align), and the counting of aligned pairs for the count model. No torch but in `group.py`."""
