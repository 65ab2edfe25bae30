"""Fast neural machine translation decoding: corpus, teacher, distillation, students, and their comparison.

`docs/api.md` documents the names below. They are imported when they are first used, because PyTorch takes seconds.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.errors import PipelineError
    from pipeline.glossary import Glossary
    from pipeline.interop.hub import push_to_hub
    from pipeline.scoring import PairLine, Scorer
    from pipeline.translation import Translation, Translator

__version__ = "0.1.0"
__all__ = ["Glossary", "PairLine", "PipelineError", "Scorer", "Translation", "Translator", "push_to_hub"]

_HOMES = {"Glossary": "glossary", "PairLine": "scoring", "PipelineError": "errors", "Scorer": "scoring",
          "Translation": "translation", "Translator": "translation", "push_to_hub": "interop.hub"}
"""The modules of these names."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
