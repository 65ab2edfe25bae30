"""What the decoders of a family are: their settings, and the code that searches.

dvc.yaml cannot say that an evaluation depends on the entries of `decoders` that its family names and on the files of
these algorithms: it knows no lists that depend on a parameter. A file with both, for each family, is such a dependency.
"""

import hashlib
from typing import TYPE_CHECKING, Any

from pipeline.imports import modules, with_imports

if TYPE_CHECKING:
    from pipeline.params import Params

_SEARCH = ("pipeline.decoding", "pipeline.engine")
"""The packages whose files are listed one by one; dvc.yaml lists all others that an evaluation uses."""
_EVERY = ("pipeline.evaluation.test",)
"""What evaluates, and itself uses some of these packages' files."""


def describe_decoders(params: "Params", family: str) -> dict[str, Any]:
    """The decoders under which a family is evaluated, each with its entry, and the SHA-256 of each file that they use.

    Decoders are found by their names, so no import leads to their files; an unknown one is left out, and the
    evaluation reports it.
    """
    decoders = {name: params.decoder(name) for name in params.decoders_of(family)}
    algorithms = {f"{_SEARCH[0]}.{block.get('algorithm')}" for block in decoders.values()} & modules().keys()
    code = sorted(name for name in with_imports([*_EVERY, *algorithms]) if name.startswith(_SEARCH))
    return {"decoders": decoders,
            "code": {name: hashlib.sha256(modules()[name].read_bytes()).hexdigest() for name in code}}
