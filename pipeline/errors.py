"""The only exception whose message is meant for users, and the end that a scheduler orders."""


class PipelineError(Exception):
    """A mistake in the input, the parameters or the environment.

    The message is one line that names the file (and line), the value and the remedy. The command line
    prints it without a traceback and exits with status 2; every other exception is a bug and keeps its traceback.
    """

    def __init__(self, message: object = "") -> None:
        """Take the message; what a terminal would not show, but obey, is escaped in it."""
        super().__init__(one_line(str(message)))


def one_line(text: str) -> str:
    r"""Return a text in which everything but printable characters is escaped: names and lines are not ours.

    >>> print(one_line("a\nb\x1b[2J"))
    a\nb\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as schedulers send it. The command line reports it and exits with status 143."""
