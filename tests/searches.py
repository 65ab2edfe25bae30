"""Every algorithm of `pipeline.decoding`, with a model that it searches."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from drafters import drafter, with_heads
from lattices import lattice
from masked import masked

import pipeline.decoding
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import Decoder, make_decoder, read_entry
from pipeline.model.transformer import Transformer

LIMIT = LengthLimit(ratio=1.5, extra=4, longest=23)
ALGORITHMS = sorted(module.name for module in pkgutil.iter_modules(pipeline.decoding.__path__)
                    if hasattr(importlib.import_module(f"pipeline.decoding.{module.name}"), "search"))
SETTINGS: dict[str, dict[str, Any]] = {"beam": {"beams": 3}, "pair_beam": {"beams": 3}}
"""Where there is no default."""
TRAITS = {name: read_entry(name, {"algorithm": name, **SETTINGS.get(name, {})}).traits for name in ALGORITHMS}
IN_ONE_CALL = [name for name, traits in TRAITS.items() if traits.in_one_call]
assert len(IN_ONE_CALL) == 14


def searched_by(algorithm: str, tiny: Callable[..., Transformer]) -> Any:
    """A model that an algorithm searches."""
    if algorithm == "pair_beam":
        return tiny("interleaved")
    kind, verifier = TRAITS[algorithm].kind, tiny()
    if kind == "lattice":
        network = lattice()
        network.attach_verifier(verifier)
        return network
    return {"ordered": lambda: verifier, "drafter": lambda: drafter(verifier), "heads": lambda: with_heads(verifier),
            "masked": masked}[kind]()


def decoder(algorithm: str, quantization: str = "float32", limit: LengthLimit = LIMIT) -> Decoder:
    return make_decoder(algorithm, {"algorithm": algorithm, "quantization": quantization,
                                    **SETTINGS.get(algorithm, {})}, limit)


def short_and_long(algorithm: str) -> tuple[Decoder, Decoder]:
    """Decoders whose outputs are cut after 4 and after 23 words."""
    short, long = (decoder(algorithm, limit=LengthLimit(ratio=0, extra=words, longest=words)) for words in (4, 23))
    return short, long
