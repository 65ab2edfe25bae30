"""A toy language pair from a little grammar, large enough to learn a vocabulary on."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.blocks import build
from pipeline.sources.settings import CorpusSettings

_SUBJECTS = (("The grey heron", "Der graue Reiher"), ("My neighbour", "Mein Nachbar"),
             ("A young baker", "Ein junger Bäcker"), ("The night train", "Der Nachtzug"),
             ("Our lighthouse", "Unser Leuchtturm"))
_VERBS = (("waits", "wartet"), ("sings", "singt"), ("turns", "dreht sich"), ("sleeps", "schläft"),
          ("hums", "summt"))
_PLACES = (("beside the canal", "neben dem Kanal"), ("under the old bridge", "unter der alten Brücke"),
           ("above the orchard", "über dem Obstgarten"), ("behind the mill", "hinter der Mühle"))
_TIMES = (("until noon", "bis zum Mittag"), ("every second winter", "jeden zweiten Winter"),
          ("before the storm", "vor dem Sturm"), ("without a sound", "ohne ein Geräusch"))


def _sentence_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    choose = random.Random(seed).choice
    pairs = []
    for number in range(count):
        parts = [choose(words) for words in (_SUBJECTS, _VERBS, _PLACES, _TIMES)]
        source, target = (" ".join(part[side] for part in parts) for side in (0, 1))
        # The number keeps sentences, and the seed keeps splits, apart.
        pairs.append((f"{source} at gate {seed}-{number} .", f"{target} an Tor {seed}-{number} ."))
    return pairs


@pytest.fixture(scope="session")
def write_toy_files() -> Callable[[Path], CorpusSettings]:
    """Return a function that writes 400, 30 and 30 pairs into a folder and returns their settings."""
    def write(folder: Path) -> CorpusSettings:
        paths = {}
        for seed, (split, count) in enumerate({"train": 400, "validation": 30, "test": 30}.items()):
            paths[split] = [str(folder / f"{split}.{language}") for language in ("en", "de")]
            sides = zip(*_sentence_pairs(count, seed), strict=True)
            for path, lines in zip(paths[split], sides, strict=True):
                Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return build(CorpusSettings, {"source": "files", "files": paths}, "corpus")
    return write


@pytest.fixture
def toy_settings(tmp_path: Path, write_toy_files: Callable[[Path], CorpusSettings]) -> CorpusSettings:
    """Settings of a fresh toy corpus in `tmp_path`."""
    return write_toy_files(tmp_path)


@pytest.fixture
def no_pip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hand out the wheel in the returned folder, which has the module's `NAME`, instead of running pip."""
    monkeypatch.setattr("pipeline.sources.wheel.download_wheel",
                        lambda package, version, folder: tmp_path / request.module.NAME)
    return tmp_path
