"""The only exception whose message is meant for users."""


class PipelineError(Exception):
    """A mistake in the input, the parameters or the environment.

    The message is one line that names the file (and line), the value and the remedy. The command line
    prints it without a traceback and exits with status 2; every other exception is a bug and keeps its traceback.
    """
