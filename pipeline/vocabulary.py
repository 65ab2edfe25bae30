"""The ids that mean the same in every vocabulary of this project. They are pinned when the BPE model is trained."""

PAD, UNK, BOS, EOS, MASK, EOD, LENGTH = range(7)

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<eod>", "<length>")
"""The piece of each id, in the order of the ids."""
