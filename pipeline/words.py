"""What a word is, in any script that separates words."""

from unicodedata import category, name

_SIGNS = "\u200c\u200d\u0300-\u036f" + "".join(
    sign for sign in map(chr, range(0x20000))
    if category(sign).startswith("M") and not name(sign).startswith(("COMBINING", "VARIATION")))
"""Parts of a word that \\w does not match: the joiners of its letters, combining accents, and signs of one script, such
as those of vowels. Other combining marks, and the variation selectors of emoji, belong to no word."""
_LETTERS = rf"\w[\w{_SIGNS}]*"
WORD = rf"{_LETTERS}(?:['’-]{_LETTERS})*"
"""A regular expression: letters and digits with their signs, inner apostrophes and hyphens."""
