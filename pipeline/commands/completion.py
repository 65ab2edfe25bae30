"""Print a script with which a shell completes the commands and options of this program.

    fast-nmt completion bash > ~/.local/share/bash-completion/completions/fast-nmt

Further options of the Lightning CLI are not completed. Needs the extra `completion`.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.commands import COMMANDS

PROGRAM = "fast-nmt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="for which the script is")


def run(arguments: argparse.Namespace) -> None:
    import shtab

    parser = _every_command(shtab.FILE)
    sys.stdout.write(shtab.complete(parser, arguments.shell) + "\n")


def _every_command(paths: Mapping[str, Any]) -> argparse.ArgumentParser:
    """One parser of all commands, whose options that take paths are completed by `paths`.

    The command line itself imports only the command that is called.
    """
    parser = argparse.ArgumentParser(prog=PROGRAM)
    added = parser.add_subparsers()
    for command, summary in COMMANDS.items():
        module = importlib.import_module(f"pipeline.commands.{command}")
        own = added.add_parser(command, help=summary)
        if hasattr(module, "add_arguments"):
            module.add_arguments(own)
        for option in own._actions:  # where shtab also finds them
            if option.type is Path or option.dest == "model":
                vars(option)["complete"] = paths
    return parser
