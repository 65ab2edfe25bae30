"""The tables of `docs/training.md` that show what each lever of training does: from runs of the presets `levers`,
`levers_parallel` for systems that predict much at once, and `larger` for students that are larger than their start; and
from one run per lever of the data, `levers_data` and those that extend it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from docs.reports import NOT_MEASURED, dated, decoders, exists, parameters, steps
from docs.tables import number, table
from pipeline.params import Params


class Levers(NamedTuple):
    """Systems that have one lever each, which their counterpart does not have."""

    tried_on: str
    counterpart: str
    systems: tuple[str, ...]
    measure: str = "bleu"
    """A column of the run's rows."""


_PLAIN, _DRAFTER, _ACCEPTED = (
    "two words per step, from both ends", "a drafter of five tokens, one layer", "accepted_per_call")
LEVERS = (
    Levers(_PLAIN, "plain", ("bpe_dropout", "dropout", "half_rate", "last_only", "random_start", "only_raw",
                             "only_distilled", "long")),
    Levers(_PLAIN, "long", ("patient",)),
    Levers("right to left, learned positions", "r2l", ("r2l_positions", "r2l_encoder")),
    Levers("two neighbours per step, learned positions", "neighbours", ("neighbours_positions",)),
    Levers("everything at once", "one_shot", ("one_shot_glancing",)),
    Levers(_DRAFTER, "drafter", ("drafter_distilled", "drafter_glancing", "drafter_independent"), _ACCEPTED),
    Levers(f"{_DRAFTER}, distilled data", "drafter_distilled", ("drafter_of_data",), _ACCEPTED),
)
LARGER = (
    Levers("left to right, as large as its start, learned positions", "same", ("wide", "deep")),
    Levers("left to right, twice as wide, learned positions", "wide", ("wide_random",)),
    Levers("left to right, twice as deep, learned positions", "deep", ("deep_random",)),
)
PARALLEL = (
    Levers("four words per step, from both ends", "interleaved_sa", (
        "interleaved_sa_both", "interleaved_sa_half_rate", "interleaved_sa_ar", "interleaved_sa_long")),
    Levers("Mask-Predict, 10 iterations", "mask_predict", (
        "mask_predict_both", "mask_predict_half_rate", "mask_predict_interleaved", "mask_predict_batch",
        "mask_predict_long")),
    Levers("lattice, K = 64", "lattice", ("lattice_raw", "lattice_half_rate", "lattice_one_layer", "lattice_long")),
)
TABLES = {"levers": LEVERS, "levers_parallel": PARALLEL, "larger": LARGER}
"""By preset."""
DATA = {
    "levers_data": "none",
    "levers_data_pieces_1500": "`bpe.vocabulary: 1500` instead of 3,000",
    "levers_data_pieces_6000": "`bpe.vocabulary: 6000` instead of 3,000",
    "levers_data_pieces_12000": "`bpe.vocabulary: 12000` instead of 3,000",
    "levers_data_wheels": "`corpus.source: wheels`",
    "levers_data_penalty": "`distillation.length_penalty: [1.0, 1.5, 2.0]`",
    "levers_data_hypotheses": "`distillation.hypotheses: 2`",
    "levers_data_sampled": "`distillation.decoder: sampled`",
}
"""What each run of a lever of the data changes."""
_ROWS = (("teacher", "beam5"), ("ar", "beam4"), ("interleaved", "beam4"))
_TITLES = {"bleu": "BLEU", "accepted_per_call": "tokens per call"}


def levers(preset: str) -> str:
    """Test scores with and without each lever of a preset."""
    run = f"reports/{preset}"
    if not exists(run):
        return NOT_MEASURED
    params, rows = parameters(run), {row["family"]: row for row in decoders(run)}

    def row(levers: Levers, system: str) -> list[str]:
        scores = (number(rows[name][levers.measure], ".2f") for name in (levers.counterpart, system))
        return [in_words(changes(params, system, levers.counterpart)), levers.tried_on, _TITLES[levers.measure],
                f"{steps(run, system):,}", *scores]

    return dated(f"{run}/speed.json", table(
        ["lever", "tried on", "measured", "steps", "without", "with"],
        (row(one, system) for one in TABLES[preset] for system in one.systems), texts=3))


def changes(params: Params, system: str, counterpart: str) -> dict[str, tuple[Any, Any]]:
    """The settings in which a system differs from its counterpart, by their path in a family's block: both values."""
    mine, theirs = (dict(leaves(asdict(params.family(name)) | {"start": params.starts[name]}))
                    for name in (system, counterpart))
    return {path: (mine.get(path), theirs.get(path)) for path in sorted(mine.keys() | theirs.keys())
            if mine.get(path) != theirs.get(path)}


def in_words(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """Settings with what they have been changed from.

    >>> in_words({"data.side": ("raw", "both"), "start_with.positions": ((-1, 1), None)})
    '`data.side: raw` instead of both, `start_with.positions: [-1, 1]`'
    """
    return ", ".join(f"`{path}: {_in_yaml(new)}`" + (f" instead of {_in_yaml(old)}" if old is not None else "")
                     for path, (new, old) in changed.items())


def _in_yaml(value: Any) -> str:
    return json.dumps(value).strip('"')


def leaves(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting within blocks, with its path."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def levers_data() -> str:
    """Test scores of three systems with each lever of the data."""
    runs = [run for run in DATA if exists(f"reports/{run}")]
    if not runs:
        return NOT_MEASURED
    scores = {run: {(row["family"], row["decoder"]): row["bleu"] for row in decoders(f"reports/{run}")}
              for run in runs}
    return dated(f"reports/{runs[0]}/speed.json", table(
        ["lever", *(f"{family}, {decoder}" for family, decoder in _ROWS)],
        ([DATA[run], *(number(scores[run][name], ".2f") for name in _ROWS)] for run in runs)))
