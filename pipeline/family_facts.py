"""What stages depend on and dvc.yaml cannot name: the settings of a training, decoders, and the code of both.

dvc.yaml knows no lists that depend on a parameter, so it cannot say that an evaluation depends on the entries of
`decoders` that its family names and on the files of these algorithms. And a parameter is a whole block to it, so it
cannot say that a training depends on all of a family's block but the decoders under which the family is evaluated, or
that a default matters only to the families that do not override it; nor that a training depends on the files of its
own kind of family and on those of no other. Files with all this are such dependencies.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pipeline.families.settings import plain
from pipeline.fingerprint import file_digests, training_code
from pipeline.imports import modules

if TYPE_CHECKING:
    from pipeline.params import Params

_SEARCH = ("pipeline.decoding", "pipeline.engine")
"""The packages whose files are listed one by one; dvc.yaml lists all others that a stage uses."""
_EVALUATION = ("pipeline.evaluation.test", "pipeline.evaluation.clock", "pipeline.evaluation.speed")
"""What evaluates and times a family, and itself uses some of these packages' files."""
_DISTILLATION = ("pipeline.distillation",)


def describe_training(params: "Params", family: str) -> dict[str, Any]:
    """The settings in force for the training of a family, its block merged with the defaults, without its decoders, and
    the SHA-256 of each file of code that decides the weights."""
    settings = plain(params.family(family))
    del settings["decoders"]
    return {**settings, "code": training_code(settings["kind"])}


def describe_decoders(params: "Params", family: str) -> dict[str, Any]:
    """The decoders under which a family is evaluated and timed; see `_describe`."""
    return _describe(params, params.decoders_of(family), _EVALUATION)


def describe_distillation(params: "Params") -> dict[str, Any]:
    """The decoder with which the teacher translates the training source; see `_describe`."""
    return _describe(params, [params.distillation.decoder], _DISTILLATION)


def _describe(params: "Params", names: Iterable[str], users: Iterable[str]) -> dict[str, Any]:
    """Decoders, each with its entry, and the SHA-256 of each file of a search that they and their users need.

    Decoders are found by their names, so no import leads to their files; an unknown algorithm is left out, and what
    searches with it reports it.
    """
    decoders = {name: params.decoder(name) for name in names}
    algorithms = {f"{_SEARCH[0]}.{block.get('algorithm')}" for block in decoders.values()} & modules().keys()
    return {"decoders": decoders, "code": file_digests([*users, *algorithms], _SEARCH)}
