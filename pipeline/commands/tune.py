"""Choose a decoder for this machine, or find the settings of one that drafts and verifies or has a length penalty.

With --budget-bleu, time all trained systems under all their decoders on the validation split, and name the fastest that
loses at most so much BLEU against the best: for one sentence at a time, and for 32 together.

With --decoder, find its settings on the validation split and write them into params.yaml. Of a decoder that drafts, it
finds the fastest block size k (and other settings that do not change the output); then, if params.yaml has
NAME++_quality and NAME++_speed, their k, beta and tau: the fastest that lose at most 0.1 and 0.3 BLEU against greedy
search. Of a beam search, a lattice or Mask-Predict it finds the exponent of the length penalty with the best BLEU. The
comments of params.yaml are kept. Every run makes the folder of a profile anew: copy the printed block to its preset.

The block `speed` of params.yaml sets how many sentences are timed, and how often.
"""

import argparse
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError
from pipeline.params import PARAMS, Params, load_params

if TYPE_CHECKING:
    from pipeline.evaluation.tuning import TuningRound

_SENTENCES = 200
_EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0)
SEARCHED = {"blocks": "block", "shortest": "shortest", "longest": "longest", "betas": "beta", "taus": "tau"}
"""The options with values to try, and the settings that they are of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--budget-bleu", type=float, metavar="BLEU", help="what a quicker one may lose, for example 0.5")
    task.add_argument("--decoder", metavar="NAME", help="an entry of `decoders` (of drafts, the exact one)")
    parser.add_argument("--family", help="a trained block of `families` (default: the first system under that decoder)")
    parser.add_argument("--sentences", type=int, metavar="N",
                        help="validation sentences for BLEU (200 for drafts, else all)")
    for option, kind, text in (("--blocks", int, "k (1 to 12, 16, 25, 30)"),
                               ("--shortest", int, "for iad: fewest tokens of a suffix (1, 2, 3)"),
                               ("--longest", int, "for iad: most tokens of a suffix (4, 8, 16)"),
                               ("--betas", int, "for relaxed variants (3, 5)"),
                               ("--taus", float, "for relaxed variants (0.5, 1, 2, 3, 4, 5)"),
                               ("--alphas", float, "for length penalties (0, 0.5, 1, 1.5, 2)")):
        parser.add_argument(option, type=_list_of(kind), metavar="LIST", help=f"values to try, comma-separated: {text}")
    parser.add_argument("--dry-run", action="store_true", help="print, and do not change params.yaml")


def run(arguments: argparse.Namespace) -> None:
    if arguments.sentences is not None and arguments.sentences < 1:
        raise PipelineError(f"--sentences: {arguments.sentences} must be at least 1")
    params = load_params()
    if arguments.budget_bleu is not None:
        for option in ("family", *SEARCHED, "alphas", "dry_run"):
            if getattr(arguments, option):
                raise PipelineError(f"--{option.replace('_', '-')}: goes with --decoder; --budget-bleu compares all "
                                    "systems as they are")
        _choose(params, arguments.budget_bleu, arguments.sentences)
        return
    block = params.decoder(arguments.decoder)
    family = arguments.family or _family_under(params, arguments.decoder)
    import yaml

    from pipeline.decoding.settings import read_entry

    penalty = getattr(read_entry(arguments.decoder, block).settings, "length_penalty", None)
    for option in ("alphas",) if penalty is None else SEARCHED:
        if getattr(arguments, option) is not None:
            raise PipelineError(f"--{option}: is not a setting of {arguments.decoder!r}; leave it out")
    found = (_tune_drafts(params, family, arguments) if penalty is None
             else _tune_exponent(params, family, arguments, penalty.alpha))
    print(yaml.safe_dump({"decoders": found}, sort_keys=False, default_flow_style=None), end="")
    if not arguments.dry_run:
        write_decoders(PARAMS, found)
        print(f"{PARAMS}: written")


def _tune_drafts(params: Params, family: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Find the settings of a decoder that drafts and of its relaxed variants; new content of their entries."""
    from pipeline.evaluation.tuning import MARGINS, SearchSpace, TuningBench, tune

    given = {name: getattr(arguments, option) for option, name in SEARCHED.items()}
    space = SearchSpace(**{name: values for name, values in given.items() if values is not None})
    names = {"": arguments.decoder} | {variant: f"{arguments.decoder}++_{variant}" for variant in MARGINS}
    variants = [variant for variant in MARGINS if names[variant] in params.decoders]
    bench = TuningBench(params, family, arguments.decoder, arguments.sentences or _SENTENCES)
    # Copies: YAML would write what two decoders share as an anchor and an alias.
    return {names[variant]: deepcopy(dict(setting))
            for variant, setting in tune(bench, space, variants, _print_round).items()}


def _tune_exponent(params: Params, family: str, arguments: argparse.Namespace, current: float) -> dict[str, Any]:
    """Find the exponent of a length penalty, of equally good ones the smallest; new content of the decoder's entry."""
    from pipeline.evaluation.length_penalties import score_exponents

    for alpha in arguments.alphas or ():
        if not 0 <= alpha < float("inf"):
            raise PipelineError(f"--alphas: {alpha} must be finite and at least 0")
    exponents = {*(arguments.alphas or _EXPONENTS), current}
    bleu = score_exponents(params, family, arguments.decoder, exponents, arguments.sentences)
    print(f"{'alpha':>6} {'BLEU':>6}")
    for alpha, score in bleu.items():
        print(f"{alpha:6g} {score:6.2f}")
    return {arguments.decoder: {"length_penalty": {"alpha": max(bleu, key=lambda alpha: bleu[alpha])}}}


def _choose(params: Params, budget: float, sentences: int | None) -> None:
    """Print every trained system under every decoder, and the fastest within the budget."""
    if not 0 <= budget < float("inf"):
        raise PipelineError(f"--budget-bleu: {budget} must be 0 or more")
    from pipeline.evaluation.choosing import choose, measure_candidates

    candidates = measure_candidates(params, sentences)
    single, batched = choose(candidates, budget)
    print(f"{'family':<20} {'decoder':<22} {'BLEU':>6} {'ms/sentence':>12} {'ms, 32 at once':>15}")
    for one in candidates:
        print(f"{one.family:<20} {one.decoder:<22} {one.bleu:6.2f} {one.milliseconds:12.2f} "
              f"{one.milliseconds_in_batch:15.2f}")
    print(f"\nthe fastest within {budget:g} BLEU of the best, {candidates[0].bleu:.2f}:")
    for one, way in ((single, "one sentence at a time"), (batched, "32 at once")):
        print(f"{way}: python -m pipeline translate --family {one.family} --decoder {one.decoder}")


def write_decoders(path: Path, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Merge settings into entries of a file's `decoders`; its comments, quotes and the order of its keys are kept.

    Raises:
        PipelineError: it cannot be written, or not without changing other values, such as those that an alias shares.
    """
    import io

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    from pipeline.blocks import merge
    from pipeline.files import replacing, write_text
    from pipeline.strict_yaml import load_yaml

    given = path.read_bytes().decode("utf-8")
    text = given.replace("\r\n", "\n")
    editor, stream = YAML(), io.StringIO()
    editor.preserve_quotes, editor.width = True, len(text)  # no line is folded
    try:
        content = editor.load(text)
        _lay_over(content["decoders"], found)
        editor.dump(content, stream)
        edited = stream.getvalue()
        is_right = load_yaml(edited) == merge(load_yaml(text), {"decoders": found})
    except YAMLError:
        is_right = False
    if not is_right:
        raise PipelineError(f"{path}: left as it is, because other values would change as well; write the block above "
                            "into it yourself")
    write_text(path, edited.replace("\n", "\r\n") if "\r\n" in given else edited, replacing)


def _lay_over(block: Any, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if key not in block:  # not at the end: the comment of the next block belongs to the last key of this one
            block.insert(len(block) - 1, key, value)
        elif isinstance(value, Mapping) and isinstance(block[key], Mapping):
            _lay_over(block[key], value)
        else:
            block[key] = value


def _list_of(kind: type[int] | type[float]) -> Callable[[str], tuple[Any, ...]]:
    """A parser of numbers separated by commas, whose name argparse shows in its error message."""
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


def _print_round(tried: "TuningRound") -> None:
    for setting, reason in tried.refused:
        print(f"left out: {_in_words(setting)} ({reason})")
    scored = tried.greedy.bleu is not None
    print(f"{'setting':<32} {'ms':>7} {'x greedy':>8} {'calls':>6} {'words/call':>10}" + f" {'BLEU':>6}" * scored)
    for trial in (tried.greedy, *tried.trials):
        speedup = tried.greedy.milliseconds / trial.milliseconds
        print(f"{_in_words(trial.setting) or 'greedy':<32} {trial.milliseconds:7.2f} {speedup:8.2f} {trial.calls:6.1f} "
              f"{trial.accepted:10.2f}" + (f" {trial.bleu:6.2f}" if trial.bleu is not None else ""))
    print(flush=True)


def _in_words(setting: Any) -> str:
    """A setting as `block 8, beta 3, tau 1.0`."""
    flat = {**setting, **setting.get("acceptance", {})}
    return ", ".join(f"{name} {value}" for name, value in flat.items() if name != "acceptance")
