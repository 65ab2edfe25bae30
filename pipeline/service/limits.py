"""What the service accepts."""

from dataclasses import dataclass

from pipeline.checks import AboveZero, Amount, Checked, Positive, Refused


@dataclass(frozen=True)
class Limits(Checked):
    """Bounds of one request, and of all that wait together. Each is an option of `serve`."""

    max_body: Positive = 2**18
    """Bytes of a request's body."""
    max_lines: Positive = 100
    """Lines of a request."""
    max_words: Positive = 1000
    """Words of a line. A model translates less of one: what fits into its positions."""
    max_waiting: Positive = 1000
    """Lines that wait for one model; further requests are refused with status 503."""
    batch_rows: Positive = 32
    """Lines handed to the search at once, which divides them into batches by tokens."""
    window: Amount = 0.0
    """Milliseconds that a line waits for others to share its batch, if its model is idle. While a model is busy, its
    next batch gathers without a window."""
    patience: AboveZero = 30.0
    """Seconds that the head of a request has to arrive, then its body, and that requests under way have to finish when
    the service is stopped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_waiting < self.max_lines:
            raise Refused(f"max_waiting: {self.max_waiting} is less than the {self.max_lines} lines that a request may "
                          "have, which could never wait; raise it, or lower --max-lines")
