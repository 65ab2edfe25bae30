"""What the verbs of Lightning's command line have in common before any heavy library is imported."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import yaml

from pipeline.errors import PipelineError
from pipeline.params import Params


def add_family(parser: argparse.ArgumentParser) -> None:
    """Add the option that `family_of` completes."""
    parser.add_argument("--family", help="a block of `families` in params.yaml (default: that of --config, or the "
                                         "baseline)")


def add_arguments(parser: argparse.ArgumentParser, in_place: str | None = None) -> None:
    """Add the options that Lightning's own parser does not have.

    Args:
        parser: of the verb.
        in_place: what the verb writes for the pipeline; None: nothing.
    """
    if in_place is not None:
        parser.add_argument("--in-place", action="store_true",
                            help=f"write {in_place} also where there are options of Lightning, which else write to a "
                                 "folder of their own, runs/FAMILY/NUMBER or --trainer.default_root_dir")
    parser.add_argument("--help-lightning", action="store_true",
                        help="list the options of Lightning's command line, such as --config, --print_config, "
                             "--ckpt_path and --trainer.max_steps")


def family_of(params: Params, given: str | None, options: list[str]) -> str:
    """The family that an option names, or else a configuration file, or else the baseline.

    Raises:
        PipelineError: there is no such family.
    """
    named = given or next(_named_in_files(options), params.baseline)
    params.family(named)
    return named


def _named_in_files(options: list[str]) -> Iterator[str]:
    """The families of Lightning's configuration files, from the last one, which takes precedence."""
    flags = ("-c", "--config")
    files = [value for flag, value in pairwise(options) if flag in flags]
    files += [option.partition("=")[2] for option in options if option.startswith("--config=")]
    for file in reversed(files):
        with suppress(OSError, UnicodeDecodeError, yaml.YAMLError):  # which Lightning's parser reports
            with open(file, encoding="utf-8") as content:
                content = yaml.safe_load(content)
            if isinstance(content, dict) and content.get("family") is not None:
                if not isinstance(content["family"], str):
                    raise PipelineError(f"{file}: family: {content['family']!r} is not the name of a family")
                yield content["family"]
