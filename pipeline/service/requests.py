"""What a client asks for: the body of a request, fully checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.service.limits import Limits

_FIELDS = ("text", "model", "decoder")


class RequestError(Exception):
    """A request that is not served. The message is one line for the client."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


@dataclass(frozen=True)
class TranslationRequest:
    """Lines to be translated."""

    lines: list[str]
    model: str
    decoder: str


def parse(body: bytes, decoders: Mapping[str, Sequence[str]], limits: Limits) -> TranslationRequest:
    """What the body of a request asks for.

    Args:
        body: a JSON object with `text`, a string (one line) or a list of them, and perhaps `model` and `decoder`.
        decoders: by model; the first of each is the default.
        limits: for the lines.

    Raises:
        RequestError: the body is something else.

    >>> parse(b'{"text": "a line"}', {"ar": ["greedy", "beam5"]}, Limits())
    TranslationRequest(lines=['a line'], model='ar', decoder='greedy')
    """
    fields = _object(body)
    if unknown := sorted(fields.keys() - set(_FIELDS)):
        raise RequestError(400, f"{json.dumps(unknown[0])[:100]} is not a field; the fields are {', '.join(_FIELDS)}")
    model = _choice(fields, "model", list(decoders))
    decoder = _choice(fields, "decoder", decoders[model])
    return TranslationRequest(_lines(fields.get("text"), limits), model, decoder)


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body.decode())
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the body is not UTF-8 (byte {error.start + 1})") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RequestError(400, 'the body is not a JSON object such as {"text": "a line"}')
    return fields


def _choice(fields: dict[str, Any], field: str, known: Sequence[str]) -> str:
    chosen = fields.get(field, known[0])
    if not isinstance(chosen, str) or chosen not in known:
        raise RequestError(400, f"{field}: {json.dumps(chosen)[:100]} is unknown; choose one of {', '.join(known)}")
    return chosen


def _lines(text: Any, limits: Limits) -> list[str]:
    lines = [text] if isinstance(text, str) else text
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise RequestError(400, "text must be a string, or a list of strings")
    if len(lines) > limits.max_lines:
        raise RequestError(400, f"text has {len(lines)} lines, and at most {limits.max_lines} are translated at once")
    for number, line in enumerate(lines, 1):
        words = len(line.split())
        if words > limits.max_words:
            raise RequestError(400, f"line {number} of text has {words} words, and at most {limits.max_words} are "
                                    "translated; split it into sentences")
        if any("\ud800" <= letter <= "\udfff" for letter in line):
            raise RequestError(400, f"line {number} of text has half of a surrogate pair, which is not a character")
    return lines
