"""The special ids, which are the same in every vocabulary of this project; training of the BPE model fixes them."""

PAD, UNK, BOS, EOS, MASK, EOD, LENGTH = range(7)

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<eod>", "<length>")
"""The piece of each id, in the order of the ids."""
