"""What the five papers state as results, by number; `judge` says what a run's own figures make of each."""

from typing import NamedTuple

IMAMURA, ZHANG, GE = "Imamura and Sumita 2020", "Zhang et al. 2020", "Ge et al. 2022"
SANTILLI, DENG = "Santilli et al. 2023", "Deng and Rush 2021"


class Finding(NamedTuple):
    """A result that a paper states."""

    paper: str
    where: str
    statement: str
    revision: int = 1
    """Of the rule that judges it, raised with every change of it: verdicts by different rules are not compared."""


FINDINGS: dict[int, Finding] = {
    1: Finding(IMAMURA, "Table 2", "Double-token decoding loses at most 1.03 BLEU"),
    2: Finding(IMAMURA, "Table 2", "Bidirectional double-token decoding beats both unidirectional ones"),
    3: Finding(IMAMURA, "Table 2, section 5.2", "Double-token decoding is faster with as many beams, and more so for a "
                                                "larger model", 2),
    4: Finding(IMAMURA, "section 5.2", "A larger vocabulary lowers the double-token speed ratio"),
    5: Finding(IMAMURA, "Figure 3", "A smaller beam raises the double-token speed ratio", 2),
    6: Finding(IMAMURA, "Table 2", "Unidirectional double-token decoding is as fast", 2),
    7: Finding(IMAMURA, "Table 3", "Words at the right end are more precise, 4-grams at the left end less"),
    8: Finding(IMAMURA, "Table 2", "Mask-Predict is slower with 10 iterations, faster with 4, and worse with both", 2),
    9: Finding(ZHANG, "Tables 1 and 6", "IBDecoder is 1.75 to 1.9 times as fast with as many beams"),
    10: Finding(ZHANG, "Table 1", "Distillation recovers most of IBDecoder's loss, and some of IBDecoder + SA's and "
                                  "IMDecoder's", 2),
    11: Finding(ZHANG, "Table 2", "A vanilla mask costs BLEU"),
    12: Finding(ZHANG, "Table 2", "Vanilla positions cost BLEU"),
    13: Finding(ZHANG, "Table 2", "Middle-to-side costs BLEU, more than any other ablation"),
    14: Finding(ZHANG, "Table 2", "Independent directions cost BLEU"),
    15: Finding(ZHANG, "Table 2", "IBDecoder beats vanilla semi-autoregressive decoding with as many tokens per step"),
    16: Finding(ZHANG, "Table 3", "Words that IBDecoder predicts together depend less on each other than neighbours"),
    17: Finding(ZHANG, "Table 1", "IBDecoder + SA beats IMDecoder"),
    18: Finding(ZHANG, "Table 4", "A shallow student's gain adds to IBDecoder's"),
    19: Finding(ZHANG, "Figure 3", "IBDecoder gains more on longer sentences"),
    20: Finding(ZHANG, "Figure 4", "Over-translation grows with the words per direction and step", 2),
    21: Finding(ZHANG, "Figure 4", "Distillation lowers over-translation", 2),
    22: Finding(ZHANG, "Table 1", "IBDecoder trains nearly as fast"),
    23: Finding(GE, "section 3.1", "IAD gives greedy search's output"),
    24: Finding(GE, "Figure 5", "IAD gains less the more is edited", 2),
    25: Finding(GE, "section 3.2", "GAD gives greedy search's output"),
    26: Finding(GE, "Table 6", "GAD's gain peaks in the length of the draft", 2),
    27: Finding(GE, "Table 7", "Relaxed acceptance trades quality for speed", 2),
    28: Finding(GE, "Table 9", "A larger drafter has more tokens accepted"),
    29: Finding(GE, "section 3.2.2", "A verifier that is trained on distilled data accepts more tokens", 2),
    30: Finding(SANTILLI, "section 3.3", "PJ, PGJ and HGJ give greedy search's output"),
    31: Finding(SANTILLI, "Table 1", "Blocks of three are faster than blocks of five and than PJ", 2),
    32: Finding(SANTILLI, "Figure 3", "Parallel Jacobi decoding gains from more cores", 2),
    33: Finding(DENG, "Tables 4 to 9", "More candidates per position raise BLEU, and cost little time", 2),
    34: Finding(DENG, "Figure 3", "A lattice needs fewer layers than a non-autoregressive model"),
    35: Finding(DENG, "Figure 1", "Candidates by position recall more than a vocabulary shared by the sentence", 2),
    36: Finding(DENG, "Tables 4 to 9, Figure 2", "Distillation raises the lattice's BLEU, and search moves words"),
    37: Finding(DENG, "Table 2", "A lattice is better than its counts alone"),
    38: Finding(DENG, "Table 3", "One scorer layer costs little against six: less than one BLEU"),
    39: Finding(ZHANG, "Figure 5", "IBDecoder: fewer verbs agree apart from their subjects; with SA, also beside them",
                2),
    40: Finding(ZHANG, "Figure 4", "Without repeated n-grams, many words per direction and step are better"),
    41: Finding(GE, "Table 7", "Slightly relaxed acceptance is better than greedy search"),
}
"""By their numbers in the reports."""
