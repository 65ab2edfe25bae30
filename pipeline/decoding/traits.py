"""What a search algorithm states about itself, in the `TRAITS` of its file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """Which models and which requests a search suits, and how a batch of it is computed fastest."""

    kind: str = "ordered"
    """The kind of model that it searches."""
    width: int | None = None
    """The slots per step of the orders that it searches; None: any."""
    takes_shortlist: bool = False
    """It searches any vocabulary in which the special ids are the first, such as a part of the model's own."""
    takes_terms: bool = False
    """Its `search` has a fifth argument, the terms that the translations of one sentence contain."""
    verifies: bool = False
    """Its models draft, and it returns what their `verifier` predicts."""
    in_one_call: bool = False
    """The search of one sentence runs in compiled calls that release the GIL (`engine.sentence`), so that the sentences
    of a batch may be searched in threads."""
    shares_calls: bool = False
    """Moreover, such a call can search several sentences, which read weights together."""
    reads_at_once: bool = False
    """In such calls, it reads so many tokens of one sentence at once that a batch reads weights no less often."""
