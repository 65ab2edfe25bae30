"""Checkpoints: bit-equal after a round trip, and one clear line for everything that does not fit."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lattices import counted, lattice, random_corpus
from orders import EVERY_ORDER

from pipeline.checksums import SUMS
from pipeline.errors import PipelineError
from pipeline.model.checkpoint import (
    CONFIG,
    WEIGHTS,
    average_weights,
    column_major,
    load_checkpoint,
    save_checkpoint,
    unique_weights,
)
from pipeline.model.lattice import COUNTS, LatticeTransformer
from pipeline.model.settings import TIES, OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.training.candidates import Candidate, Candidates

Tiny = Callable[..., Transformer]
VOCABULARY = VocabularySettings(20, 20, "c0ffee" * 10 + "1234")
SOURCE, SLOTS = torch.tensor([[8, 9, 3]]), torch.arange(7, 19).repeat(2).unsqueeze(0)


def save(folder: Path, network: Transformer) -> Path:
    save_checkpoint(folder, network, VOCABULARY, unique_weights(network), {"family": "toy"})
    return folder


def change_config(folder: Path, *keys: str, value: object) -> None:
    config = json.loads((folder / CONFIG).read_text())
    block = config
    for key in keys[:-1]:
        block = block[key]
    block[keys[-1]] = value
    (folder / CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_weights_may_be_read_by_whom_the_umask_lets(tmp_path: Path, tiny: Tiny, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        save(tmp_path / "model", tiny())
        Candidates(tmp_path / "candidates", 1, "last").add(Candidate(4, None), unique_weights(tiny()))
    finally:
        os.umask(before)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 6 and {stat.S_IMODE(path.stat().st_mode) for path in written} == {mode}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("order", EVERY_ORDER)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_round_trip_is_bit_equal(tmp_path: Path, tiny: Tiny, ties: str, order: str, positions: str) -> None:
    network = tiny(order, dtype=torch.float32, tied_embeddings=ties, positions=positions)
    loaded, config = load_checkpoint(save(tmp_path / "model", network), VOCABULARY.digest)
    assert not loaded.training
    assert (loaded.settings, loaded.order) == (network.settings, network.order)
    assert config["training"] == {"family": "toy"}
    for (name, weight), (other_name, other) in zip(
            loaded.named_parameters(), network.named_parameters(), strict=True):
        assert name == other_name and torch.equal(weight, other)
    # The same product of matrices that lie otherwise may be rounded otherwise.
    assert torch.equal(loaded(SOURCE, SLOTS), column_major(network)(SOURCE, SLOTS))


def test_the_same_weights_are_the_same_bytes(tmp_path: Path, tiny: Tiny) -> None:
    first, second = (save(tmp_path / name, tiny(dtype=torch.float32)) for name in ("first", "second"))
    for name in (WEIGHTS, CONFIG):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert sorted(path.name for path in first.iterdir()) == [SUMS, CONFIG, WEIGHTS]


def test_a_checkpoint_is_replaced_whole(tmp_path: Path, tiny: Tiny) -> None:
    save(tmp_path / "model", tiny(seed=1, dtype=torch.float32))
    newer = tiny(seed=2, dtype=torch.float32)
    with pytest.raises(TypeError):
        save_checkpoint(tmp_path / "model", newer, VOCABULARY, unique_weights(newer), {"not": {"JSON"}})
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # nothing half-written beside it
    loaded, _ = load_checkpoint(tmp_path / "model")
    assert torch.equal(loaded.projection.weight, tiny(seed=1, dtype=torch.float32).projection.weight)
    loaded, _ = load_checkpoint(save(tmp_path / "model", newer))
    assert torch.equal(loaded.projection.weight, newer.projection.weight)


def truncate(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:len(content) // 2])


def pickle_instead(folder: Path) -> None:
    torch.save({"weight": torch.ones(3)}, folder / WEIGHTS)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), f"{WEIGHTS}: not found"),
    "no config": (lambda folder: (folder / CONFIG).unlink(), f"{CONFIG}: not found"),
    "truncated": (truncate, f"{WEIGHTS}: truncated or damaged"),
    "empty": (lambda folder: (folder / WEIGHTS).write_bytes(b""), f"{WEIGHTS}: truncated or damaged"),
    "pickle": (pickle_instead, f"{WEIGHTS}: truncated or damaged"),
    "not JSON": (lambda folder: (folder / CONFIG).write_text("{"), f"{CONFIG}: not valid JSON"),
    "a list": (lambda folder: (folder / CONFIG).write_text("[]"), f"{CONFIG}: not a checkpoint of format 2"),
    "format": (lambda folder: change_config(folder, "format", value=99), f"{CONFIG}: not a checkpoint of format 2"),
    "no order": (lambda folder: change_config(folder, "order", value={}), f"{CONFIG}: incomplete"),
    "setting": (lambda folder: change_config(folder, "network", "widht", value=3), f"{CONFIG}: incomplete"),
    "type": (lambda folder: change_config(folder, "network", "width", value="16"), f"{CONFIG}: incomplete"),
    "order": (lambda folder: change_config(folder, "order", "name", value="diagonal"), "'diagonal' is unknown"),
    "width": (lambda folder: change_config(folder, "order", "width", value=2),
              "trained in the order .*'width': 2.* but .*'width': 1.* is in use; train it again"),
    "words": (lambda folder: change_config(folder, "order", "words", value=0), "words: 0 must be at least 1"),
    "end": (lambda folder: change_config(folder, "order", "end", value=5), "trained in the order .*'end': 5"),
    "shape": (lambda folder: change_config(folder, "network", "feed_forward", value=64),
              r"feed_forward.inner.bias is \(32,\) in the file and \(64,\) in the model"),
    "layers": (lambda folder: change_config(folder, "network", "decoder_layers", value=1), "in the file and"),
    "ties": (lambda folder: change_config(folder, "network", "tied_embeddings", value="all"),
             "in the file and absent in the model"),
    "vocabulary": (lambda folder: change_config(folder, "vocabulary", "digest", value="0" * 64),
                   "trained with vocabulary 000000000000, but c0ffeec0ffee is in use"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_clear_line(tmp_path: Path, tiny: Tiny, damage: str) -> None:
    spoil, message = DAMAGE[damage]
    folder = save(tmp_path / "model", tiny(dtype=torch.float32))
    spoil(folder)
    (folder / SUMS).unlink()
    with pytest.raises(PipelineError, match=message) as caught:
        load_checkpoint(folder, VOCABULARY.digest)
    assert "\n" not in str(caught.value)


def test_average_is_the_mean_and_knows_no_order() -> None:
    states = [{"a": torch.tensor([value, 1.0]), "b": torch.full((2, 2), value)} for value in (0.1, 1e8, -1e8, 0.3)]
    mean = average_weights(states, list("wxyz"))
    assert mean["a"].dtype == torch.float32
    torch.testing.assert_close(mean["a"], torch.tensor([0.1, 1.0]))  # in float32 the small ones would drown
    backwards = average_weights(states[::-1], list("zyxw"))
    assert all(torch.equal(mean[name], backwards[name]) for name in mean)


def test_only_models_of_one_shape_are_averaged(tiny: Tiny) -> None:
    weights = [unique_weights(tiny(feed_forward=width)) for width in (32, 64)]
    with pytest.raises(PipelineError, match="second: cannot be averaged with first: their shapes differ"):
        average_weights(weights, ["first", "second"])


def test_the_order_that_the_caller_expects(tmp_path: Path, tiny: Tiny) -> None:
    folder = save(tmp_path / "model", tiny("interleaved", dtype=torch.float32))
    assert load_checkpoint(folder, order=OrderSettings("interleaved", 2, 1))[0].order.width == 2
    for other in (OrderSettings("interleaved", words=2), OrderSettings("double_token"), OrderSettings("left_to_right")):
        with pytest.raises(PipelineError, match=r"trained in the order .*'interleaved'.* is in use; train it again or"):
            load_checkpoint(folder, order=other)


# A lattice brings its count model.

def save_lattice(folder: Path, digest: str = VOCABULARY.digest) -> LatticeTransformer:
    network = lattice(dtype=torch.float32, counts=counted(random_corpus(), digest=digest))
    save(folder, network)
    return network


def test_a_lattice_comes_back_with_its_counts(tmp_path: Path) -> None:
    network = save_lattice(tmp_path / "model")
    loaded, config = load_checkpoint(tmp_path / "model", VOCABULARY.digest)
    assert isinstance(loaded, LatticeTransformer) and not loaded.training
    assert (config["kind"], config["order"]) == ("lattice", None) and loaded.settings == network.settings
    assert loaded.counts.path == tmp_path / "model" / COUNTS
    for found, expected in zip(loaded.candidates(SOURCE, 6, 4), network.candidates(SOURCE, 6, 4), strict=True):
        assert torch.equal(found, expected)
    words, _ = network.candidates(SOURCE, 6, 4)
    for found, expected in zip(loaded.edges(loaded.encode(SOURCE), words), network.edges(network.encode(SOURCE), words),
                               strict=True):
        torch.testing.assert_close(found, expected)
    assert torch.equal(loaded.length(SOURCE), network.length(SOURCE))


def test_a_lattice_is_the_same_bytes_again(tmp_path: Path) -> None:
    save_lattice(tmp_path / "first")
    loaded, _ = load_checkpoint(tmp_path / "first")
    for folder in (tmp_path / "second", tmp_path / "first"):  # the last over the counts that are mapped
        before = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
        save(folder, loaded)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert sorted(before) == [SUMS, CONFIG, COUNTS, WEIGHTS]


def test_only_a_lattice_has_counts(tmp_path: Path, tiny: Tiny) -> None:
    save_lattice(tmp_path / "model")
    save(tmp_path / "model", tiny(dtype=torch.float32))
    assert not (tmp_path / "model" / COUNTS).exists()


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda path: path.unlink(), "not found"),
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "truncated"),
    (lambda path: counted(random_corpus(), digest="0" * 64).save(path), "counted with vocabulary 0{12}, but c0ffee"),
    (lambda path: counted(random_corpus(vocabulary=19), vocabulary=19).save(path), "counts 19 source and 19 target"),
])
def test_counts_that_do_not_belong_to_a_lattice(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    save_lattice(tmp_path / "model")
    spoil(tmp_path / "model" / COUNTS)
    (tmp_path / "model" / SUMS).unlink()
    with pytest.raises(PipelineError, match=f"{COUNTS}: {message}.*run `dvc repro` to produce") as caught:
        load_checkpoint(tmp_path / "model", VOCABULARY.digest)
    assert "\n" not in str(caught.value)
