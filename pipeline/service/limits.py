"""What the service accepts."""

from dataclasses import dataclass, field

from pipeline.checks import AboveZero, Amount, Checked, Positive, Refused


def _help(unit: str, meaning: str) -> dict[str, str]:
    """What the help of `serve` shows of a bound."""
    return {"unit": unit, "meaning": meaning}


@dataclass(frozen=True)
class Limits(Checked):
    """Bounds of one request, and of all that wait together. Each is an option of `serve`."""

    max_body: Positive = field(default=2**18, metadata=_help("BYTES", "of a request's body"))
    max_lines: Positive = field(default=100, metadata=_help("N", "lines of a request"))
    max_words: Positive = field(default=1000, metadata=_help(
        "N", "words of a line, of which a model reads what fits into its positions"))
    max_waiting: Positive = field(default=1000, metadata=_help(
        "N", "lines that wait for one model; further requests get status 503"))
    batch_rows: Positive = field(default=32, metadata=_help(
        "N", "lines handed to the search at once, which divides them into batches by tokens"))
    window: Amount = field(default=0.0, metadata=_help(
        "MS", "milliseconds that a line waits for others to share its batch, if its model is idle; while it is busy, "
              "its next batch gathers without a window"))
    patience: AboveZero = field(default=30.0, metadata=_help(
        "S", "seconds that the head of a request has to arrive, then its body, and that requests have to finish once "
             "the service is stopped"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_waiting < self.max_lines:
            raise Refused(f"max_waiting: {self.max_waiting} is less than the {self.max_lines} lines that a request may "
                          "have, which could never wait; let more lines wait, or a request have fewer")
