"""Decoders: from an entry of `decoders` in params.yaml to a function.

The entry's `algorithm` names a file of this package, which defines

* `Settings`, a dataclass of the entry's other fields,
* `search(model, source, limit, settings) -> Hypotheses`, where source is (B, S) ids, right-padded with PAD, and limit
  the greatest length of a translation,
* `KIND`, the kind of model that it searches, if that is not `ordered`.

A new algorithm is therefore one file, and nothing here knows it. Any entry may also have

* `deduplicate: N`: immediate repeats of n-grams of up to N words are removed from the hypotheses, within the decoder's
  own time,
* `quantization: int8`: the model is searched with linear maps of 8 bits (`pipeline.model.quantised`).

Whether compiled code searches is decided here and nowhere else in this package (`engine.door`).
"""

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from pipeline.blocks import build
from pipeline.decoding.deduplicate import deduplicated
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.threaded import search_in_threads
from pipeline.engine.door import is_quicker_in_threads, open_engine
from pipeline.errors import PipelineError
from pipeline.model.quantised import FORMATS, in_format

Decoder = Callable[[Any, Tensor], Hypotheses]
"""From a model of the algorithm's kind and padded ids (B, S) to hypotheses."""


def make_decoder(name: str, block: Mapping[str, Any], limit: LengthLimit) -> Decoder:
    """The function that an entry of `decoders` describes.

    Args:
        name: of the entry, for error messages.
        block: `algorithm`, the fields of that file's `Settings`, `deduplicate` (default 0: no removal) and
            `quantization` (default float32: none).
        limit: the greatest length of a translation.

    Raises:
        PipelineError: no such algorithm, or a setting that it does not have.
    """
    options = dict(block)
    algorithm = str(options.pop("algorithm", ""))
    longest = options.pop("deduplicate", 0)
    if type(longest) is not int or longest < 0:
        raise PipelineError(f"params.yaml: decoders.{name}.deduplicate is {longest!r}; it must be a number of words, "
                            "0 or more")
    quantization = options.pop("quantization", FORMATS[0])
    if quantization not in FORMATS:
        raise PipelineError(f"params.yaml: decoders.{name}.quantization is {quantization!r}; choose one of "
                            f"{', '.join(FORMATS)}")
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
        model = open_engine(in_format(model, quantization))
        if is_quicker_in_threads(algorithm, model, source):
            found = search_in_threads(lambda sentence: search(model, sentence, limit, settings), source)
        else:
            found = search(model, source, limit, settings)
        return deduplicated(found, longest) if longest else found
    return decode
