"""The tables of `docs/training.md` that show what each lever of training does: from runs of the presets `levers`,
`levers_parallel` for systems that predict much at once, and `larger` for students that are larger than their start; and
from one run per lever of the data, `levers_data` and those that extend it.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from docs.tables import number, table, when

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "reports"
_NOT_MEASURED = "Not measured yet."


class Lever(NamedTuple):
    """A pair of systems that differ in the parameters that it names."""

    parameter: str
    system: str
    """The one that has it; the other one is its counterpart."""
    counterpart: str = "plain"
    tried_on: str = "two words per step, from both ends"
    measure: str = "bleu"
    """A column of the run's rows."""


_RIGHT, _NEIGHBOURS = "right to left, learned positions", "two neighbours per step, learned positions"
_ONE_SHOT, _DRAFTER = "everything at once", "a drafter of five tokens, one layer"
LEVERS = (
    Lever("`data.bpe_dropout: 0.1`", "bpe_dropout"),
    Lever("`network.dropout: 0.2` instead of 0.1", "dropout"),
    Lever("`optimisation.learning_rate: 1.5e-3` instead of 3e-3", "half_rate"),
    Lever("`training.average: 1` instead of 4", "last_only"),
    Lever("`warm_start: false`", "random_start"),
    Lever("`data.side: raw` instead of both", "only_raw"),
    Lever("`data.side: distilled` instead of both", "only_distilled"),
    Lever("`training.steps: 6000` instead of 2,000", "long"),
    Lever("`training.patience: 4`, `patience_gain: 0.1`, `cooldown: 600`, `schedule: constant`", "patient", "long"),
    Lever("`start_with.positions: [-1, -1]`", "r2l_positions", "r2l", _RIGHT),
    Lever("`start_with.weights: encoder`", "r2l_encoder", "r2l", _RIGHT),
    Lever("`start_with.positions: [-1, 1]`", "neighbours_positions", "neighbours", _NEIGHBOURS),
    Lever("`glancing: [0.5, 0.3]`", "one_shot_glancing", "one_shot", _ONE_SHOT),
    Lever("`data.side: distilled` instead of both", "drafter_distilled", "drafter", _DRAFTER, "accepted_per_call"),
    Lever("`drafting.labels: data`", "drafter_of_data", "drafter_distilled", f"{_DRAFTER}, distilled data",
          "accepted_per_call"),
    Lever("`drafting.glancing: [0.5, 0.3]`", "drafter_glancing", "drafter", _DRAFTER, "accepted_per_call"),
    Lever("`drafting.chained: false`", "drafter_independent", "drafter", _DRAFTER, "accepted_per_call"),
)
_SAME, _WIDE, _DEEP = (f"left to right, {size}, learned positions" for size in (
    "as large as its start", "twice as wide", "twice as deep"))
LARGER = (
    Lever("`network.width: 256`, `heads: 8`, `feed_forward: 1024`", "wide", "same", _SAME),
    Lever("`network.encoder_layers: 4`, `decoder_layers: 4`", "deep", "same", _SAME),
    Lever("`warm_start: false`", "wide_random", "wide", _WIDE),
    Lever("`warm_start: false`", "deep_random", "deep", _DEEP),
)
_FOUR, _MASKED, _LATTICE = "four words per step, from both ends", "Mask-Predict, 10 iterations", "lattice, K = 64"
PARALLEL = (
    Lever("`data.side: both` instead of distilled", "interleaved_sa_both", "interleaved_sa", _FOUR),
    Lever("`optimisation.learning_rate: 1.5e-3` instead of 3e-3", "interleaved_sa_half_rate", "interleaved_sa", _FOUR),
    Lever("`start: ar` instead of interleaved", "interleaved_sa_ar", "interleaved_sa", _FOUR),
    Lever("`training.steps: 3600` instead of 1,200", "interleaved_sa_long", "interleaved_sa", _FOUR),
    Lever("`data.side: both` instead of distilled", "mask_predict_both", "mask_predict", _MASKED),
    Lever("`optimisation.learning_rate: 1.5e-3` instead of 3e-3", "mask_predict_half_rate", "mask_predict", _MASKED),
    Lever("`start: interleaved` instead of teacher", "mask_predict_interleaved", "mask_predict", _MASKED),
    Lever("`data.batch_tokens: 1800` instead of 600", "mask_predict_batch", "mask_predict", _MASKED),
    Lever("`training.steps: 3600` instead of 1,200", "mask_predict_long", "mask_predict", _MASKED),
    Lever("`data.side: raw` instead of both", "lattice_raw", "lattice", _LATTICE),
    Lever("`optimisation.learning_rate: 1.5e-3` instead of 3e-3", "lattice_half_rate", "lattice", _LATTICE),
    Lever("`network.decoder_layers: 1` instead of 2", "lattice_one_layer", "lattice", _LATTICE),
    Lever("`training.steps: 3600` instead of 1,200", "lattice_long", "lattice", _LATTICE),
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
    if not (RUNS / preset).exists():
        return _NOT_MEASURED
    pairs = TABLES[preset]
    rows = {row["family"]: row for row in _read(preset, "decoders.json")}
    steps = {one.system: _read(preset, f"training/{one.system}/metrics.json")["step"] + 1 for one in pairs}  # from 0
    return "\n\n".join((when(_read(preset, "speed.json")), table(
        ["lever", "tried on", "measured", "steps", "without", "with"],
        ([one.parameter, one.tried_on, _TITLES[one.measure], f"{steps[one.system]:,}",
          *(number(rows[name][one.measure], ".2f") for name in (one.counterpart, one.system))] for one in pairs),
        texts=3)))


def levers_data() -> str:
    """Test scores of three systems with each lever of the data."""
    runs = [run for run in DATA if (RUNS / run).exists()]
    if not runs:
        return _NOT_MEASURED
    scores = {run: {(row["family"], row["decoder"]): row["bleu"] for row in _read(run, "decoders.json")}
              for run in runs}
    return "\n\n".join((when(_read(runs[0], "speed.json")), table(
        ["lever", *(f"{family}, {decoder}" for family, decoder in _ROWS)],
        ([DATA[run], *(number(scores[run][name], ".2f") for name in _ROWS)] for run in runs))))


def _read(preset: str, report: str) -> Any:
    return json.loads((RUNS / preset / report).read_text(encoding="utf-8"))
