"""Find the settings of a decoder that drafts and verifies, for this machine, and write them into params.yaml.

On the validation split: the block size k (and what else leaves the output greedy search's) that is fastest; then, if
params.yaml has NAME++_quality and NAME++_speed, their k, beta and tau: the fastest that loses at most 0.1 and 0.3 BLEU
against greedy search. How many sentences are timed, and how often, is said by params.yaml's block `speed`.

Nothing else in params.yaml changes. In the folder of a profile, which is made anew, copy the result to its preset.
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError
from pipeline.params import PARAMS, Params, load_params

if TYPE_CHECKING:
    from pipeline.evaluation.tuning import Stage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--decoder", required=True, metavar="NAME", help="an exact entry of `decoders`")
    parser.add_argument("--family", help="a trained block of `families` (default: the first system under that decoder)")
    parser.add_argument("--sentences", type=int, default=200, metavar="N", help="of which BLEU is measured (200)")
    for option, kind, text in (("--blocks", int, "k (1 to 12, 16, 25, 30)"),
                               ("--shortest", int, "of iad: fewest tokens of a suffix (1, 2, 3)"),
                               ("--longest", int, "of iad: most tokens of a suffix (4, 8, 16)"),
                               ("--betas", int, "of relaxed variants (3, 5)"),
                               ("--taus", float, "of relaxed variants (0.5, 1, 2, 3, 4, 5)")):
        parser.add_argument(option, type=_list_of(kind), metavar="LIST", help=f"values to try, with commas: {text}")
    parser.add_argument("--dry-run", action="store_true", help="print, and leave params.yaml as it is")


def run(arguments: argparse.Namespace) -> None:
    if arguments.sentences < 1:
        raise PipelineError(f"--sentences: {arguments.sentences} must be at least 1")
    params = load_params()
    params.decoder(arguments.decoder)
    family = arguments.family or _family_under(params, arguments.decoder)
    from pipeline.edit import edit_yaml
    from pipeline.evaluation.tuning import MARGINS, Bench, Grid, tune

    given = {"block": arguments.blocks, "shortest": arguments.shortest, "longest": arguments.longest,
             "beta": arguments.betas, "tau": arguments.taus}
    grid = Grid(**{name: values for name, values in given.items() if values is not None})
    names = {"": arguments.decoder} | {variant: f"{arguments.decoder}++_{variant}" for variant in MARGINS}
    variants = [variant for variant in MARGINS if names[variant] in params.decoders]
    bench = Bench(params, family, arguments.decoder, arguments.sentences)
    found = {names[variant]: setting for variant, setting in tune(bench, grid, variants, _print_stage).items()}
    for name, setting in found.items():
        print(f"{name}: {_in_words(setting)}")
    if not arguments.dry_run:
        edit_yaml(PARAMS, {"decoders": found})
        print(f"{PARAMS}: written")


def _list_of(kind: type[int] | type[float]) -> Callable[[str], tuple[Any, ...]]:
    """A reader of numbers with commas between them; argparse says it where they are none."""
    def read(text: str) -> tuple[Any, ...]:
        return tuple(kind(part) for part in text.split(","))

    read.__name__ = f"list of {kind.__name__}"
    return read


def _family_under(params: Params, decoder: str) -> str:
    """The first of the systems that is evaluated under a decoder."""
    found = [family for family in params.systems if decoder in params.decoders_of(family)]
    if not found:
        raise PipelineError(f"--family: no system of params.yaml is evaluated under {decoder!r}; name a family")
    return found[0]


def _print_stage(stage: "Stage") -> None:
    for setting, reason in stage.refused:
        print(f"left out: {_in_words(setting)} ({reason})")
    scored = stage.greedy.bleu is not None
    print(f"{'setting':<32} {'ms':>7} {'x greedy':>8} {'calls':>6} {'words/call':>10}" + f" {'BLEU':>6}" * scored)
    for trial in (stage.greedy, *stage.trials):
        speedup = stage.greedy.milliseconds / trial.milliseconds
        print(f"{_in_words(trial.setting) or 'greedy':<32} {trial.milliseconds:7.2f} {speedup:8.2f} {trial.calls:6.1f} "
              f"{trial.accepted:10.2f}" + (f" {trial.bleu:6.2f}" if trial.bleu is not None else ""))
    print(flush=True)


def _in_words(setting: Any) -> str:
    """A setting as `block 8, beta 3, tau 1.0`."""
    flat = {**setting, **setting.get("acceptance", {})}
    return ", ".join(f"{name} {value}" for name, value in flat.items() if name != "acceptance")
