"""The tables of runs: every decoder of a run, and which of them to use."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.reports import (
    BASE,
    CORRECTION,
    CORRECTION_BASE,
    FULL,
    RUN,
    Row,
    baseline,
    dated,
    decoders,
    drafts,
    find,
    measured,
    parameters,
    read,
    steps,
)
from docs.tables import number, table
from pipeline.peer_settings import FAMILY as PEER
from pipeline.systems import TEACHER

TOLERANCE = 0.5
"""BLEU that a decoder may be below the search whose quality is asked for."""
TRANSLATION = {"bleu": "BLEU"}
EDITS = {"precision": "precision", "recall": "recall", "f05": "F0.5", "gleu": "GLEU"}
"""Measures of quality of translations and of corrections, and their titles."""


def summary() -> str:
    """The README's first figures."""
    corpus = read(f"{RUN}/corpus.json")
    greedy, beam = (find(RUN, baseline(), name) for name in ("greedy", "beam5"))
    others = [f"{title} {row['ms_per_sentence']:.1f} ms" for row in decoders(RUN)
              for name, title in (("hf_greedy", "Hugging Face transformers"), ("ctranslate2_greedy", "CTranslate2"))
              if row["decoder"] == name]
    return (f"Trained on {corpus['train']['kept']:,} pairs, the baseline `{baseline()}` takes "
            f"{greedy['ms_per_sentence']:.1f} ms per test sentence under greedy search (sacreBLEU "
            f"{greedy['bleu']:.1f}) and {beam['ms_per_sentence']:.1f} ms under beam search with five beams "
            f"({beam['bleu']:.1f}). Greedy search of the same weights by other libraries, in float32 with the fastest "
            f"number of threads: {', '.join(others)}. {measured(f'{RUN}/speed.json')}")


def choice() -> str:
    """Which decoder to use, by size and device: the fastest that keeps what is asked for."""
    def row(model: str, wish: str, found: Row) -> list[str]:
        quality = f"BLEU {found['bleu']:.1f}" if found["f05"] is None else f"F0.5 {found['f05']:.1f}"
        return [model, wish, f"`{found['family']}`", f"`{found['decoder']}`", quality,
                f"{found['speedup_vs_beam5']:.1f}", f"{found['speedup_vs_greedy']:.1f}"]

    def width(run: str, family: str) -> int:  # of the model whose text it is: drafts are by a model of any size
        params = parameters(run)
        return params.family(params.family(family).verifier or family).network.width

    def fastest(run: str, kept: Callable[[Row], bool]) -> Row:
        candidates = [one for one in decoders(run) if one["family"] not in (PEER, TEACHER) and kept(one)
                      and width(run, one["family"]) == width(run, baseline())]
        return max(candidates, key=lambda one: one["speedup_vs_greedy"] or 0.0)

    def nearly(run: str, decoder: str) -> Callable[[Row], bool]:
        least = find(run, baseline(), decoder)["bleu"] - TOLERANCE
        return lambda one: one["bleu"] >= least

    def exact(run: str) -> Callable[[Row], bool]:
        params, greedy = parameters(run), find(run, baseline(), "greedy")
        return lambda one: one == greedy or (drafts(one) and one["identical_to_greedy"] == 1
                                             and params.greedy_of(one["decoder"]) == "greedy")

    def as_right(run: str) -> Callable[[Row], bool]:
        least = find(run, baseline(), "greedy")["f05"] - TOLERANCE
        return lambda one: one["f05"] >= least

    task = "correction (`PROFILE={}`)"
    sizes = ("d=128, CPU", RUN), ("d=256, CPU", FULL), ("d=512, CPU", BASE)
    rows = list[list[str]]()
    for model, run in sizes:
        wishes = dict[tuple[str, str], list[str]]()  # one row where a decoder is the best for two
        for wish, kept in (("the least time", nearly(run, "greedy")), ("greedy search's text", exact(run)),
                           ("beam search's quality", nearly(run, "beam5"))):
            best = fastest(run, kept)
            wishes.setdefault((best["family"], best["decoder"]), []).append(wish)
        rows += [row(model, ", ".join(wished), find(run, *name)) for name, wished in wishes.items()]
    return table(
        ["model, device", "you want", "family", "decoder", "quality", "× `beam5`", "× `greedy`"],
        [*rows,
         *(row(model, task.format(Path(run).name), fastest(run, as_right(run)))
           for model, run in (("d=128, CPU", CORRECTION), ("d=512, CPU", CORRECTION_BASE)))], texts=5)


def search(run: str = RUN) -> str:
    """Every search of a run that neither drafts nor is another library's."""
    rows = [row for row in decoders(run) if row["family"] != PEER and not drafts(row)]
    return dated(f"{run}/speed.json", table(
        ["family", "decoder", "data", "steps", "BLEU", "chrF", "ms", "ms, long", "× beam 5", "× same beam"],
        ([row["family"], f"`{row['decoder']}`", row["data"], f"{steps(run, row['family']):,}",
          number(row["bleu"], ".2f"), number(row["chrf"], ".1f"), number(row["ms_per_sentence"], ".1f"),
          number(row["ms_per_sentence_long"], ".1f"), number(row["speedup_vs_beam5"], ".2f"),
          number(row["ratio_vs_ar_same_decoder"], ".2f")] for row in rows), texts=3),
        f"`{rows[0]['bleu_signature']}`")


def peers(run: str = RUN, qualities: Mapping[str, str] = TRANSLATION) -> str:
    """The same weights in other libraries and here. The arguments are those of `drafting`."""
    ours = [(baseline(), "greedy"), (baseline(), "beam5"), ("speculative", "speculative"), (baseline(), "greedy_int8"),
            ("speculative", "speculative_int8")]
    return dated(f"{run}/speed.json", table(
        ["search", *qualities.values(), "ms", "ms, long", "× beam 5", "× greedy", "tokens/s", "tokens/s, 32 at once",
         "= greedy"],
        ([row["decoder"] if row["family"] == PEER else f"**{row['family']} {row['decoder']}**",
          *(number(row[key], ".2f") for key in qualities),
          number(row["ms_per_sentence"], ".1f"), number(row["ms_per_sentence_long"], ".1f"),
          number(row["speedup_vs_beam5"], ".2f"), number(row["speedup_vs_greedy"], ".2f"),
          number(row["tokens_per_second"], ",.0f"), number(row["tokens_per_second_batch32"], ",.0f"),
          number(row["identical_to_greedy"], ".1%")]
         for row in decoders(run) if row["family"] == PEER or (row["family"], row["decoder"]) in ours)))


def everything(run: str) -> str:
    """Searches of a run, draft and verify, and other libraries, in one block."""
    return "\n\n".join((search(run), "Draft and verify:", drafting(run), "Other libraries:", peers(run)))


def corrections(run: str) -> str:
    """Draft and verify in grammatical error correction, and other libraries."""
    return "\n\n".join((drafting(run, EDITS), "Other libraries:", peers(run, EDITS)))


def drafting(run: str = RUN, qualities: Mapping[str, str] = TRANSLATION) -> str:
    """Draft and verify beside greedy and beam search.

    Args:
        run: folder of a run's reports.
        qualities: its measures of quality, and their titles.
    """
    references = [(baseline(), "greedy"), (baseline(), "beam5")]
    together = find(run, *references[0])["ms_per_sentence_batch32"]
    return dated(f"{run}/speed.json", table(
        ["family", "decoder", *qualities.values(), "accepted", "ms, long", "× beam 5", "× greedy",
         "× greedy, 32 at once", "= greedy", "ties"],
        ([row["family"], f"`{row['decoder']}`", *(number(row[key], ".2f") for key in qualities),
          number(row["accepted_per_call"], ".2f"), number(row["ms_per_sentence_long"], ".1f"),
          number(row["speedup_vs_beam5"], ".2f"), number(row["speedup_vs_greedy"], ".2f"),
          number(together / row["ms_per_sentence_batch32"], ".2f"), number(row["identical_to_greedy"], ".1%"),
          number(row["ties"], "d")]
         for row in decoders(run) if drafts(row) or (row["family"], row["decoder"]) in references), texts=2))
