"""From an entry of `decoders` in params.yaml to a function.

The entry's `algorithm` is the name of a file of this package, which has two names to offer: `Settings`, a dataclass
of what the entry may say, and `search(model, source, limit, settings) -> Hypotheses`; if it searches models of another
kind than `ordered`, a third, `KIND`. A new algorithm is therefore one file, and nothing here knows it. Every entry may
also say `deduplicate: N`: immediate repeats of n-grams of up to N words are then removed from what was found, within
the decoder's own time.

Whether compiled code searches is decided here and nowhere else in this package (`engine.door`).
"""

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from pipeline.blocks import build
from pipeline.decoding.apart import search_apart
from pipeline.decoding.deduplicate import deduplicated
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.engine.door import is_quicker_apart, open_engine
from pipeline.errors import PipelineError

Decoder = Callable[[Any, Tensor], Hypotheses]
"""From a model of the kind that the algorithm searches and (B, S) padded ids."""


def make_decoder(name: str, block: Mapping[str, Any], limit: LengthLimit) -> Decoder:
    """The function that an entry of `decoders` describes.

    Args:
        name: of the entry, for error messages.
        block: `algorithm`, the fields of that file's `Settings`, and `deduplicate` (0, the default: nothing).
        limit: the longest output.

    Raises:
        PipelineError: no such algorithm, or a setting that it does not have.
    """
    options = dict(block)
    algorithm = str(options.pop("algorithm", ""))
    longest = options.pop("deduplicate", 0)
    if type(longest) is not int or longest < 0:
        raise PipelineError(f"params.yaml: decoders.{name}.deduplicate is {longest!r}; it must be a number of words, "
                            "0 or more")
    path = f"pipeline.decoding.{algorithm}"
    module = None
    if re.fullmatch(r"[a-z][a-z0-9_]*", algorithm) and importlib.util.find_spec(path):
        module = importlib.import_module(path)
    if not hasattr(module, "search"):
        raise PipelineError(f"params.yaml: decoders.{name}.algorithm: {algorithm!r} is no file of pipeline/decoding "
                            "that has a search")
    settings = build(module.Settings, options, f"decoders.{name}")  # type: ignore[union-attr]
    search, kind = module.search, getattr(module, "KIND", "ordered")  # type: ignore[union-attr]

    def decode(model: Any, source: Tensor) -> Hypotheses:
        if model.kind != kind:
            raise PipelineError(f"decoders.{name}: {algorithm} searches {kind} models, and this one is {model.kind}; "
                                "choose another decoder for its family")
        model = open_engine(model)
        if is_quicker_apart(algorithm, model, source):
            found = search_apart(lambda sentence: search(model, sentence, limit, settings), source)
        else:
            found = search(model, source, limit, settings)
        return deduplicated(found, longest) if longest else found
    return decode
