"""What the tests of several folders share: a reproducible Hypothesis, tiny models, and a workspace for commands."""

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import settings
from model_folders import export
from orders import EVERY_ORDER

from pipeline import layout
from pipeline.blocks import build, merge
from pipeline.checksums import SUMS
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.settings import BpeSettings
from pipeline.engine import bounds, helpers, team
from pipeline.engine.choice import Engine
from pipeline.engine.door import open_engine, use_engine
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.orders import Order
from pipeline.model.settings import NetworkSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.sources.build import build_corpus
from pipeline.sources.settings import CorpusSettings
from pipeline.train_bpe import train_bpe

settings.register_profile("tests", derandomize=True, deadline=None)
settings.load_profile("tests")
# The number of threads decides how sums are rounded: processes that the tests start must count like this one.
os.environ["OMP_NUM_THREADS"] = "1"
# Tests make repositories of their own. A hook of git, or a rebase, names the user's one, and its settings may ask for
# signatures.
for _name in [name for name in os.environ if name.startswith("GIT_") and name != "GIT_EXEC_PATH"]:
    del os.environ[_name]
os.environ["GIT_CONFIG_GLOBAL"] = os.environ["GIT_CONFIG_SYSTEM"] = os.devnull
torch.set_num_threads(1)

Tiny = Callable[..., Transformer]
_FIRST = [re.compile(files) for files in (
    "test_smoke", "^tests/(?!training/).*/", "^tests/(training/|test_(stages|team))")]
"""The whole pipeline; what compiles searches; trainings and runs of DVC. All the others are short."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process ends long after the others."""
    items.sort(key=lambda item: next((place for place, files in enumerate(_FIRST) if files.search(item.nodeid)), 3))


_SETTINGS: dict[str, Any] = {"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 2, "decoder_layers": 2,
                             "max_length": 48, "dropout": 0.0, "tied_embeddings": "none"}
_SHARPNESS, _END_SHARPNESS = 3.0, 4.0


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """A function that makes a small random Transformer in evaluation mode: `tiny("interleaved", norm="post")`.

    The engine has opened it (`pipeline.engine.door`), whichever searches.

    Its logits are sharpened, the end symbol's most of all, so that many of its searches end, and not all.
    """
    def make(order: str | Order = "left_to_right", *, dtype: torch.dtype = torch.float64, vocabulary: int = 20,
             target_vocabulary: int | None = None, seed: int = 2, **changes: Any) -> Transformer:
        torch.manual_seed(seed)
        network = Transformer(NetworkSettings(**{**_SETTINGS, **changes}), vocabulary, target_vocabulary or vocabulary,
                              EVERY_ORDER[order] if isinstance(order, str) else order)
        pre = network.settings.norm == "pre"
        last_norm = network.decoder_norm if pre else network.decoder[-1].around_feed_forward.norm
        with torch.no_grad():
            last_norm.weight.mul_(_SHARPNESS)
            network.projection.weight[network.order.end].mul_(_END_SHARPNESS)
        opened: Transformer = open_engine(network.to(dtype).eval())
        return opened
    return make


@pytest.fixture(scope="module")
def uninitialised_is_nan() -> Iterator[None]:
    """Fill uninitialised tensors with NaN, so that whoever reads what nobody wrote is found out."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    with torch.inference_mode():
        yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    torch.utils.deterministic.fill_uninitialized_memory = filled


@pytest.fixture(scope="module", params=["compiled", "torch"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Runs the tests that use it by both engines, on networks that the engine has opened."""
    with use_engine(request.param):
        yield request.param


# A toy language pair. Its second language puts the verb last and glues the place to the preposition.

_ANIMALS = {"otter": "lumo", "raven": "kestu", "snail": "prina", "badger": "torvel", "moth": "siki"}
_COLOURS = {"red": "aro", "pale": "fenn", "striped": "zilvo", "tiny": "mip"}
_VERBS = {"paints": "daglu", "hides": "oprat", "counts": "nurem", "follows": "hesk"}
_THINGS = {"lantern": "bolka", "teapot": "ruvin", "ladder": "stel", "{name}": "{name}"}
_PLACES = {"near": "ba", "above": "su", "inside": "vo"}
_COUNTS = {"train": 300, "validation": 24, "test": 24}


def _toy_pair(choose: random.Random, number: int) -> tuple[str, str]:
    """A sentence and its translation; the number keeps sentences apart."""
    animal, other = choose.choice(list(_ANIMALS)), choose.choice(list(_ANIMALS))
    colour, verb = choose.choice(list(_COLOURS)), choose.choice(list(_VERBS))
    thing, place = choose.choice(list(_THINGS)), choose.choice(list(_PLACES))
    source = f"The {colour} {animal} {verb} the {thing}"
    target = f"Da {_ANIMALS[animal]} {_COLOURS[colour]} {_THINGS[thing]}"
    if choose.random() < 0.6:
        source, target = f"{source} {place} {number} {other}s", f"{target} {_PLACES[place]}{_ANIMALS[other]} {number}"
    return f"{source} no {number} .", f"{target} {_VERBS[verb]} nu {number} ."


_PARAMS: dict[str, Any] = {
    "corpus": {"source": "files", "source_language": "en", "target_language": "xx", "files": {
        split: [f"{split}.en", f"{split}.xx"] for split in _COUNTS}},
    "bpe": {"vocabulary": 120, "joint": True, "max_length": 60},
    "network": {"width": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 1, "decoder_layers": 1,
                "tied_embeddings": "all", "max_length": 64},
    "optimisation": {"learning_rate": 0.01, "warmup_steps": 4},
    "training": {"steps": 12, "validate_every": 4, "validation_sentences": 8, "average": 2},
    "data": {"side": "raw", "batch_tokens": 300},
    "families": {"teacher": {"order": {"name": "left_to_right"}}, "interleaved": {"order": {"name": "interleaved"}}},
    "students": {"interleaved": "teacher"},
    "systems": ["teacher", "interleaved"],
    "baseline": "teacher",
    "decoders": {"greedy": {"algorithm": "greedy"}, "beam3": {"algorithm": "beam", "beams": 3}},
    "default_decoders": ["greedy", "beam3"],
    "limit": {"ratio": 0.5, "extra": 4},
    "distillation": {"decoder": "beam3", "shard_rows": 64, "batch_tokens": 160},
    "evaluation": {"batch_tokens": 160},
}


def _write_params(folder: Path, content: dict[str, Any]) -> None:
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory, tiny: Tiny) -> Path:
    """A folder with params.yaml, corpus, vocabulary, and random checkpoints of both families; not to be written to."""
    folder = tmp_path_factory.mktemp("workspace")
    paths = {}
    for split, count in _COUNTS.items():
        choose = random.Random(split)
        pairs = [_toy_pair(choose, number) for number in range(count)]
        paths[split] = (str(folder / f"{split}.en"), str(folder / f"{split}.xx"))
        for path, side in zip(paths[split], zip(*pairs, strict=True), strict=True):
            Path(path).write_text("".join(line + "\n" for line in side), encoding="utf-8")
    build_corpus(build(CorpusSettings, {"source": "files", "files": paths}, "corpus"), folder / layout.CORPUS,
                 folder / "reports/corpus.json")
    train_bpe(BpeSettings(vocabulary=120, max_length=60), folder / layout.CORPUS, folder / layout.BPE,
              folder / "reports/bpe.json")
    _write_params(folder, _PARAMS)
    tokenizer = Tokenizer.load(folder / layout.BPE)
    vocabulary = VocabularySettings(tokenizer.source_size, tokenizer.target_size, tokenizer.digest)
    # Of these two, some translations end before the limit and some do not.
    for seed, (family, block) in zip((5, 7), _PARAMS["families"].items(), strict=True):
        network = tiny(block["order"]["name"], dtype=torch.float32, vocabulary=tokenizer.source_size, seed=seed,
                       **_PARAMS["network"])
        save_checkpoint(folder / layout.checkpoint(family), network, vocabulary, unique_weights(network),
                        {"family": family, "data": "raw", "steps": 4})
    return folder


@pytest.fixture
def workspace(toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the toy folder, which becomes the working directory, without digests: tests change its files."""
    folder = tmp_path / "workspace"
    shutil.copytree(toy_folder, folder, ignore=shutil.ignore_patterns(SUMS))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def folder(workspace: Path) -> Path:
    """A model folder of the teacher, in a workspace."""
    return export()


@pytest.fixture
def change_params(workspace: Path) -> Callable[[dict[str, Any]], None]:
    """A function that lays blocks over the toy folder's parameters: `change_params({"seed": 2})`."""
    return lambda changes: _write_params(workspace, merge(_PARAMS, changes))


@pytest.fixture
def lattice_family(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> Path:
    """The workspace with a lattice besides: counts of the corpus (nothing aligned it), and a random checkpoint."""
    from lattices import diagonal, lattice  # numba, which few tests need

    from pipeline.alignment.bitext import Bitext
    from pipeline.alignment.build import piece_copies
    from pipeline.alignment.counting import count
    from pipeline.corpus.pairs import Pairs

    network_changes = {"decoder_layers": 2}
    change_params({
        "families": {"lattice": {"kind": "lattice", "network": network_changes, "decoders": ["lattice8", "counts"]}},
        "lattices": {"lattice": "teacher"}, "systems": ["teacher", "interleaved", "lattice"],
        "decoders": {"lattice8": {"algorithm": "lattice", "candidates": 8, "window": 2},
                     "counts": {"algorithm": "counts"}},
        "analyses": {"decoder": "lattice8"}})
    tokenizer = Tokenizer.load(layout.BPE)
    counts = count([diagonal(Bitext.from_pairs(Pairs.open(layout.TRAINING_SIDES["raw"])))], top=10,
                   target_vocabulary=tokenizer.target_size, copies=piece_copies(tokenizer), digest=tokenizer.digest,
                   tension=4.0, null_probability=0.08)
    counts.save(layout.counts("raw"))
    network = lattice(dtype=torch.float32, vocabulary=tokenizer.source_size, counts=counts,
                      **_PARAMS["network"] | network_changes)
    save_checkpoint(layout.checkpoint("lattice"), network, VocabularySettings(
        tokenizer.source_size, tokenizer.target_size, tokenizer.digest), unique_weights(network),
                    {"data": "raw", "steps": 4})
    return workspace


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads of PyTorch, two cores and helpers for every width."""
    monkeypatch.setattr(helpers, "usable_cores", lambda: 2)
    monkeypatch.setattr(bounds, "SHARED", 0)
    monkeypatch.setattr(team, "_SMALLEST", 0)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)
