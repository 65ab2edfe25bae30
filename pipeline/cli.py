"""The command line: `python -m pipeline COMMAND`."""

import argparse
import atexit
import errno
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from pipeline import __version__
from pipeline.commands import COMMANDS
from pipeline.errors import PipelineError, Terminated, one_line
from pipeline.extras import EXTRAS, missing
from pipeline.streams import Unread, standard_error, standard_output

PRINTING = {"validate", "translate", "explain", "score", "completion"}
"""Commands whose product is what they print. The others write files; see `_prints`."""
RESUMING = {"fit", "distill", "repro"}
"""Commands that continue an interrupted run."""
_FULL = "cannot be written", "free some space"
_DENIED = "cannot be opened", "give this user permission (ls -l shows who has it)"
_REMEDIES = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: _FULL, errno.EACCES: _DENIED, errno.EPERM: _DENIED}
"""What fails, and the remedy, for errors of the system that may come wherever a file is used, also within libraries."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    0: the product is complete, whether or not anybody has read the messages; 2: a `PipelineError`; 130: interrupted;
    141: the product is what is printed, and nobody reads it any more (as shells report a program that SIGPIPE ends);
    143: a scheduler has ended a training, a `test` or the like by SIGTERM.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with standard_error():
        try:
            with standard_output(product=True):
                command, options, run = _parse(given)
            with standard_output(product=_prints(command, options)):
                run()
        except PipelineError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except ModuleNotFoundError as error:
            library = str(error.name).split(".")[0]
            if library not in EXTRAS:
                raise
            print(f"error: {missing(library, given[0])}", file=sys.stderr)
            return 2
        except OSError as error:
            if error.errno not in _REMEDIES:
                raise
            failure, remedy = _REMEDIES[error.errno]
            name = one_line(str(error.filename or "a file"))
            print(f"error: {name}: {failure}: {error.strerror}; {remedy}, then run the same command again",
                  file=sys.stderr)
            return 2
        except Terminated:
            print(f"terminated{_resumes(given)}", file=sys.stderr)
            return 143
        except KeyboardInterrupt:
            print(f"interrupted{_resumes(given)}", file=sys.stderr)
            return 130
        except Unread:
            return 141
        return 0


@atexit.register
def _leave_the_others() -> None:
    """End the threads that connect this process to the others of its run, while Python still works.

    One of gloo's threads may still own a tensor. If it gives that up when Python is already being taken down, the
    process is aborted, after all its work is done (pytorch issue 190489).
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class _Parser(argparse.ArgumentParser):
    """Escapes what the shell's patterns may have put into a command line: names of files."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))


def _prints(command: str, options: argparse.Namespace) -> bool:
    """Whether a command's product is what it prints."""
    if command == "tune":
        return getattr(options, "dry_run", False) or getattr(options, "budget_bleu", None) is not None
    of_a_model = command not in ("serve", "ddg") and getattr(options, "model", None) is not None
    return command in PRINTING or of_a_model


def _resumes(given: list[str]) -> str:
    """What is added to the report of an interruption."""
    return "; the same command continues where it stopped" if RESUMING & set(given[:1]) else ""


def _program() -> str:
    """How the user has called the program: as a module, or by the console command that pip installs."""
    name = Path(sys.argv[0]).name
    return name if name == "fast-nmt" else "python -m pipeline"


def _parse(given: list[str]) -> tuple[str, argparse.Namespace, Callable[[], None]]:
    """The command, its options, and a function that runs it with them."""
    parser = _Parser(
        prog=_program(), formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Fast neural machine translation decoding: one command line for the whole pipeline.",
        epilog="commands:\n" + "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
               + f"\n\n`{_program()} COMMAND --help` shows the options of a command.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    command = parser.parse_args(given[:1]).command
    module = importlib.import_module(f"pipeline.commands.{command}")
    own = _Parser(prog=f"{_program()} {command}", description=module.__doc__,
                  formatter_class=argparse.RawDescriptionHelpFormatter)
    if hasattr(module, "add_arguments"):
        module.add_arguments(own)
    # The commands of Lightning pass options that they do not know on to Lightning's own parser.
    if getattr(module, "PASSES_ON", False):
        options, rest = own.parse_known_args(given[1:])
        return command, options, lambda: module.run(options, rest)
    options = own.parse_args(given[1:])
    return command, options, lambda: module.run(options)
