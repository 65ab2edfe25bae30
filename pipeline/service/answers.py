"""What clients get: translations and explanations as JSON objects."""

from collections.abc import Sequence
from typing import Any

from pipeline.service.models import Explanation
from pipeline.trace import Marked, MarkedRound, Trace
from pipeline.translation import Translation


def translation_fields(found: Translation) -> dict[str, Any]:
    """The translation of a line, its decoder calls, and a note if something was cut."""
    return {"text": found.hypotheses[0], "calls": found.calls, "warning": found.warning}


def explanation_fields(found: Explanation) -> dict[str, Any]:
    """The translation of a line, the time of its search, and the rounds of draft and verification if there are any."""
    drafting = None if found.trace is None else _drafting_fields(found.trace, found.pieces)
    return {**translation_fields(found.translation), "seconds": found.seconds, "drafting": drafting}


def _drafting_fields(trace: Trace, pieces: Sequence[str]) -> dict[str, Any]:
    return {"verifier_calls": len(trace.rounds), "drafter_calls": trace.drafter_calls,
            "rounds": [_round_fields(one, pieces) for one in trace.rounds]}


def _round_fields(one: MarkedRound, pieces: Sequence[str]) -> dict[str, Any]:
    def row(marked: list[Marked]) -> list[dict[str, str]]:
        return [{"piece": pieces[token], "fate": fate.value} for token, fate in marked]

    return {"draft": row(one.draft), "verdict": row(one.verdict), "accepted": one.accepted}
