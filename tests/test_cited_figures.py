"""Figures that the prose of README and docs cites are those of the reports; where one changes, its sentence must be
read again. Tables are generated and need none of this.
"""

from collections.abc import Callable, Iterable, Iterator

import pytest

from docs.curves import best, validations
from docs.reports import BASE, CORRECTION_BASE, DRAFTERS, FULL, LATTICES, ROOT, RUN, decoders, find, read

PAPERS, LEVERS, PARALLEL, LARGER = (
    "reports/papers", "reports/levers", "reports/levers_parallel", "reports/larger")


def bleu(run: str, family: str, decoder: str) -> float:
    score: float = find(run, family, decoder)["bleu"]
    return score


def below(run: str, family: str, decoder: str, other: str = "ar", by: str | None = None) -> str:
    """How much BLEU a family has less than another one, under its decoder or another one."""
    return f"{bleu(run, other, by or decoder) - bleu(run, family, decoder):.1f}"


def gain(run: str, system: str, other: str, decoder: str) -> str:
    """The difference in BLEU that a lever makes, in either direction."""
    return f"{abs(bleu(run, system, decoder) - bleu(run, other, decoder)):.1f}"


def ratio(run: str, column: str, family: str, decoder: str) -> float:
    """A column of the baseline over that of a family."""
    value: float = find(run, "ar", decoder)[column] / find(run, family, decoder)[column]
    return value


def step_cost(decoder: str) -> str:
    """The time of a step of two words, in steps of one word."""
    steps, time = (ratio(RUN, f"{column}_long", "interleaved", decoder) for column in ("calls", "ms_per_sentence"))
    return f"{steps / time:.1f}"


def deduplicated(run: str) -> dict[str, float]:
    """How much BLEU de-duplication brings each family."""
    decoder = "beam4_deduplicated"
    return {row["family"]: row["bleu"] - bleu(run, row["family"], "beam4") for row in decoders(run)
            if row["decoder"] == decoder}


def estimate(run: str, finding: int, part: int) -> list[float]:
    """The estimate of a finding's part, with the lower and the upper end of its interval."""
    values: list[float] = next(one for one in read(f"{run}/claims.json")
                               if one["finding"] == finding)["parts"][part]["figures"]["estimate"]
    return values


def points(run: str, finding: int, part: int) -> float:
    """The estimate of a finding's part."""
    return estimate(run, finding, part)[0]


def in_readme() -> Iterator[str]:
    greedy = read("benchmarks/results/opus_mt.json")["engines"]["ours greedy"]
    times = (greedy[f"times_faster_than_{library}"][0] for library in ("transformers", "ctranslate2"))
    yield "{:.0f} times as fast as `generate`, {:.1f} times as CTranslate2".format(*times)


def in_papers() -> Iterator[str]:
    yield (f"a step of two words costs {step_cost('greedy')} times one of a single word under greedy search and "
           f"{step_cost('beam4')} times under beam search, with {ratio(RUN, 'calls_long', 'interleaved', 'beam4'):.1f} "
           "times fewer steps")
    yield f"greedy search more than blocks, which lose {100 - 100 * points(FULL, 32, 0):.0f} % against it."
    whole = (read(f"{run}/analyses.json")["scaling"]["decoders"]["pj"] for run in (FULL, BASE))
    gains = (f"{100 * one['most_against_fewest_threads']['speedup_vs_greedy'] - 100:.0f} %" for one in whole)
    yield "(`pj`) gain {} there and {} in `base`".format(*gains)
    yield (f"{points(RUN, 4, 0):.2f} for four times as many pieces, not decided, and {points(FULL, 4, 0):.2f} in "
           "`full`, decided.")
    yield f"There `interleaved` is {points(BASE, 9, 0):.1f} times as fast as `ar` with four beams"
    seconds = ([find(BASE, *name)["ms_per_sentence_long"] for name in (("ar", f"beam{beams}"),
                                                                       ("double_token", f"pair_beam{beams}"))]
               for beams in (4, 10))
    yield "`double_token` is {:.1f} times as fast with four beams and {:.1f} times with ten".format(
        *(one / two for one, two in seconds))
    for trained, size in (("the small models are {} BLEU (greedy search) and {} (four beams) apart", "_small"),
                          ("train for 300 more steps, are {} and {} apart", "")):
        yield trained.format(*(below(BASE, f"interleaved{size}", decoder, f"ar{size}")
                               for decoder in ("greedy", "beam4")))
    yield (f"`double_token` is {below(BASE, 'double_token', 'greedy')} below under greedy search and "
           f"{below(BASE, 'double_token', 'pair_beam10', by='beam10')} under ten beams")
    yield f"where neither starts so, `interleaved` is {below(PAPERS, 'interleaved_raw', 'beam4', 'ar_raw')} below"
    yield (f"it is {below(FULL, 'interleaved', 'beam4')} below, and `double_token` "
           f"{below(FULL, 'double_token', 'pair_beam10', by='beam10')}:")
    yield f"In the default run `interleaved` is {below(RUN, 'interleaved', 'beam4')} below under four beams"
    four = (f"{bleu(BASE, name, 'beam4'):.0f}" for name in ("multi_directional", "interleaved_sa"))
    yield f"where both have learnt ({' and '.join(four)} BLEU)"
    yield f"{abs(points(FULL, 17, 0)):.1f} BLEU are between the two"
    masked = (f"{bleu(PAPERS, f'mask_predict_{side}', 'mask_predict10'):.1f}" for side in ("raw", "distilled"))
    yield f"On the test set it has {' and '.join(masked)}."
    yield f"four words per step from left to right ({bleu(PAPERS, 'semi_autoregressive4_raw', 'beam4'):.1f} BLEU)"
    yield f"`interleaved` is {points(FULL, 15, 0):.1f} BLEU ahead of two neighbours per step"
    ablations = (f"{bleu(PAPERS, f'{name}_raw', 'beam4'):.1f}" for name in ("middle_to_side", "vanilla_positions"))
    yield f"costs less than vanilla positions ({' and '.join(ablations)} BLEU)"
    dear = sorted(f"{1 / points(run, 33, 2):.1f}" for run in (RUN, LATTICES))
    yield (f"Four times as many candidates take {' to '.join(dict.fromkeys(dear))} times as long in the default run "
           "and in `lattice`, and are as good within "
           f"{below(RUN, 'lattice', 'lattice32', 'lattice', 'lattice128')} BLEU")
    yield f"than under `ar` in the default run, by {points(RUN, 39, 0):.1f} points, most of all"
    yield f"takes {points(PAPERS, 8, 2):.1f} times as long as ten beams with 10 iterations"
    gaps = (below(PAPERS, f"interleaved_{side}", "beam4", f"ar_{side}") for side in ("raw", "distilled"))
    yield "{} BLEU with raw data and {} with distilled data".format(*gaps)
    repeated = read(f"{PAPERS}/analyses.json")["repetition"]
    *words, most = (f"{repeated[f'interleaved{name}_raw beam4']['otem']:.1f}"
                    for name in ("", "_sa", "_3", "_4", "_5", "_6"))
    yield f"OTEM is {', '.join(words)} and {most} %"
    learnt, raw = (repeated[f"interleaved_{side} beam4"]["otem"] for side in ("distilled", "raw"))
    yield f"({learnt:.1f} instead of {raw:.1f} %, not decided)"
    sides = (below(LATTICES, "lattice_distilled", f"lattice{k}", "lattice_raw") for k in (128, 64))
    yield f"A lattice of raw data is {' to '.join(sides)} BLEU better than one of distilled data"
    yield f"after 6,000 steps it has {bleu(LATTICES, 'lattice_raw', 'lattice64'):.1f} BLEU"
    yield f"`ar` itself is {below(PAPERS, 'ar_distilled', 'beam4', 'ar_raw')} BLEU better with raw data."
    yield (f"A shallow `interleaved` is {points(PAPERS, 18, 0):.1f} times as fast as a deep one, but under four beams "
           "slower than a shallow `ar`")
    depths = (f"{bleu(LATTICES, f'nat_{layers}', 'nat'):.0f}" for layers in (1, 6))
    yield f"the non-autoregressive models have {' to '.join(depths)} BLEU"
    cost, *interval = (f"{1 - estimate(LATTICES, 38, 0)[end]:.1f}" for end in (0, 2, 1))
    yield f"whether by less than one BLEU ({cost}, {' to '.join(interval)})"
    yield f"a lattice has {points(FULL, 34, 0):.1f} more than the {bleu(FULL, 'nat', 'nat'):.1f} of such a model"
    several = sorted(deduplicated(PAPERS).values())
    yield f"gains {several[0]:.1f} to {several[-1]:.1f} BLEU in `papers`"
    fewest, most = (deduplicated(FULL)[name] for name in ("semi_autoregressive", "multi_directional"))
    yield f"and {fewest:.1f} (two neighbours) to {most:.1f} (four directions) in `full`"
    relaxed = (f"{bleu(run, 'drafter', 'gad++_quality'):.2f} {against} {bleu(run, 'ar', 'greedy'):.2f}"
               for run, against in ((RUN, "BLEU against"), (FULL, "against")))
    yield "it has {} in the default run and {} in `full`".format(*relaxed)
    drafters = {row["family"]: row["bleu"] for row in decoders(DRAFTERS) if row["decoder"] == "gad5++_quality"}
    assert [name for name, score in drafters.items() if score > bleu(DRAFTERS, "ar", "greedy")] == ["drafter_3"]
    assert len(drafters) == 6
    yield f"only `drafter_3` has more than greedy search, {drafters['drafter_3']:.2f}."


def in_results() -> Iterator[str]:
    def on_validation(part: int) -> float:
        return best(validations(FULL, "interleaved", "bleu"))[part]

    yield (f"`interleaved` is {below(FULL, 'interleaved', 'beam4')} BLEU below `ar` after as many steps, of which the "
           f"last third brought it {on_validation(2) - on_validation(1):.1f}")
    yield f"is {below(FULL, 'double_token', 'pair_beam10', by='beam10')} below under ten"
    neighbours, four, other_four, masked, lattice = (below(FULL, *name, by="beam4") for name in (
        *((family, "beam4_deduplicated") for family in ("semi_autoregressive", "multi_directional", "interleaved_sa")),
        ("mask_predict", "mask_predict10"), ("lattice", "lattice64")))
    assert four == other_four  # one figure in the text
    yield (f"are {neighbours} below (four beams, de-duplicated), four words {four}, Mask-Predict {masked} (ten "
           f"iterations) and a lattice {lattice} (K = 64)")
    levers = (gain(PARALLEL, f"mask_predict_{lever}", "mask_predict", "mask_predict10")
              for lever in ("batch", "interleaved"))
    yield "help Mask-Predict by {} and {} BLEU".format(*levers)


def in_training() -> Iterator[str]:
    yield f"steps gain most: {gain(LEVERS, 'long', 'plain', 'beam4')} BLEU if there are three times as many"
    yield f"and so does averaging ({gain(LEVERS, 'last_only', 'plain', 'beam4')})"
    yield f"ended a training {gain(LEVERS, 'patient', 'long', 'beam4')} BLEU too early"
    longer = (gain(PARALLEL, f"{name}_long", name, decoder) for name, decoder in (
        ("lattice", "lattice64"), ("interleaved_sa", "beam4"), ("mask_predict", "mask_predict10")))
    batch = gain(PARALLEL, "mask_predict_batch", "mask_predict", "mask_predict10")
    yield ("three times as many gain {} BLEU (lattice), {} (four words) and {} (Mask-Predict, which gains "
           "{} ").format(*longer, batch)
    starts = (gain(PARALLEL, "interleaved_sa", "interleaved_sa_ar", "beam4"),
              gain(PARALLEL, "mask_predict_interleaved", "mask_predict", "mask_predict10"))
    yield "is worth {} to four words, and {} to Mask-Predict".format(*starts)
    halved = sorted(gain(PARALLEL, f"{name}_half_rate", name, decoder) for name, decoder in (
        ("interleaved_sa", "beam4"), ("mask_predict", "mask_predict10")))
    yield f"Half the rate costs both {' to '.join(halved)}, but not a lattice"
    yield f"which loses {gain(PARALLEL, 'lattice_one_layer', 'lattice', 'lattice64')} with a layer less"
    begun = (gain(LARGER, f"{name}_random", name, "beam4") for name in ("wide", "deep"))
    yield f"the start is worth {' to '.join(begun)} BLEU"
    gains = (f"{bleu(f'{LEVERS}_data_pieces_6000', *name) - bleu(f'{LEVERS}_data', *name):.1f}"
             for name in (("teacher", "beam5"), ("ar", "beam4"), ("interleaved", "beam4")))
    yield "6,000 pieces instead of 3,000 gain {} BLEU (teacher), {} (`ar`) and {} (`interleaved`)".format(*gains)


def in_drafting() -> Iterator[str]:
    accepted = (f"{find(DRAFTERS, name, 'gad5')['accepted_per_call']:.1f}"
                for name in ("drafter_independent", "drafter_2"))
    yield "blocks of five yield {} tokens per call instead of {}".format(*accepted)
    faster = find(CORRECTION_BASE, "ar", "iad8")["speedup_vs_greedy"]
    yield f"Drafts of eight tokens of the input are {faster:.1f} times as fast as greedy search"


@pytest.mark.parametrize(("page", "sentences"), [
    ("README.md", in_readme), ("docs/results.md", in_results), ("docs/papers.md", in_papers),
    ("docs/training.md", in_training), ("docs/drafting.md", in_drafting)])
def test_cited_figures_are_those_of_the_reports(page: str, sentences: Callable[[], Iterable[str]]) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert [sentence for sentence in sentences() if sentence not in text] == []
