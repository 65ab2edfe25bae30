"""The stages `align` and `counts` on a toy corpus."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.pharaoh import read_pharaoh
from pipeline import layout
from pipeline.alignment.bitext import Bitext
from pipeline.alignment.build import align, count_sides, piece_copies, read_aligned, take_links
from pipeline.alignment.counting import Aligned, count
from pipeline.alignment.settings import AlignmentSettings, CountSettings
from pipeline.checksums import SUMS
from pipeline.cli import main
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Pairs, write_pairs
from pipeline.count_model.arrays import map_arrays, write_arrays
from pipeline.count_model.model import CountModel
from pipeline.errors import PipelineError
from pipeline.vocabulary import SPECIALS

SETTINGS = AlignmentSettings(iterations=2)


@pytest.fixture(scope="module")
def stages(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which both stages have run; not to be written to."""
    folder = tmp_path_factory.mktemp("stages")
    run_align(toy_folder, folder)
    run_counts(toy_folder, folder)
    return folder


def sides_of(toy_folder: Path) -> dict[str, Path]:
    return {"raw": toy_folder / layout.BPE / "train.pairs", "distilled": toy_folder / layout.BPE / "validation.pairs"}


def tokenizer_of(toy_folder: Path) -> Tokenizer:
    return Tokenizer.load(toy_folder / layout.BPE)


def run_align(toy_folder: Path, folder: Path) -> None:
    align(sides_of(toy_folder), tokenizer_of(toy_folder), SETTINGS, folder / "alignment", folder / "alignment.json")


def run_counts(toy_folder: Path, folder: Path, **changes: Any) -> None:
    arguments = {"sides": sides_of(toy_folder), "links": folder / "alignment", "tokenizer": tokenizer_of(toy_folder),
                 "settings": CountSettings(top=5), "out": folder / "counts", "report": folder / "counts.json"}
    count_sides(**cast(Any, {**arguments, **changes}))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def aligned_side(toy_folder: Path, stages: Path, side: str) -> Aligned:
    bitext = Bitext.from_pairs(Pairs.open(sides_of(toy_folder)[side]))
    return Aligned(bitext, map_arrays(stages / f"alignment/{side}.safetensors", "")[0]["heads"])


# Links.

def test_every_side_has_its_links(toy_folder: Path, stages: Path) -> None:
    assert {path.name for path in (stages / "alignment").iterdir()} == {
        SUMS, "raw.safetensors", "distilled.safetensors", "raw.pharaoh", "distilled.pharaoh", "lexicon.tsv"}
    report = json.loads((stages / "alignment.json").read_text())
    assert all(len(report[direction]["cross_entropy"]) == 2 for direction in ("forward", "reverse"))
    for side, path in sides_of(toy_folder).items():
        (bitext, heads), prior = read_aligned(path, stages / f"alignment/{side}.safetensors", tokenizer_of(toy_folder))
        longest = np.repeat(bitext.source.lengths, bitext.target.lengths)
        assert heads.dtype == np.int32 and (heads >= -1).all() and (heads < longest).all()
        assert not heads.flags.writeable
        assert prior["tension"] == pytest.approx(report["forward"]["tension"], abs=1e-4)
        assert prior["null_probability"] == SETTINGS.null_probability
        links = read_pharaoh(stages / f"alignment/{side}.pharaoh")
        assert report[side] == {"pairs": links.pairs, "links": len(links.source),
                                "unlinked_target_words": round(float((heads < 0).mean()), 4)}
        assert links.pairs == bitext.pairs and 0 < report[side]["unlinked_target_words"] < 1


def test_both_sides_are_aligned_as_one_corpus(toy_folder: Path, stages: Path, tmp_path: Path) -> None:
    align({"raw": sides_of(toy_folder)["raw"]}, tokenizer_of(toy_folder), SETTINGS, tmp_path / "alone",
          tmp_path / "alone.json")
    alone, together = (json.loads(path.read_text())["forward"] for path in (
        tmp_path / "alone.json", stages / "alignment.json"))
    assert alone["cross_entropy"] != together["cross_entropy"]
    assert (tmp_path / "alone/lexicon.tsv").read_bytes() != (stages / "alignment/lexicon.tsv").read_bytes()


def test_links_of_another_aligner_are_taken(toy_folder: Path, stages: Path, tmp_path: Path) -> None:
    sides, tokenizer = sides_of(toy_folder), tokenizer_of(toy_folder)
    links = {side: stages / f"alignment/{side}.pharaoh" for side in sides}
    take_links(sides, links, tokenizer, SETTINGS, tmp_path / "taken", tmp_path / "taken.json")
    for side, path in sides.items():
        (bitext, heads), prior = read_aligned(path, tmp_path / f"taken/{side}.safetensors", tokenizer)
        assert prior == {"tension": SETTINGS.tension, "null_probability": SETTINGS.null_probability}
        found = read_pharaoh(links[side])
        expected = np.full(len(heads), -1)
        for pair in reversed(range(bitext.pairs)):
            for link in reversed(range(found.offsets[pair], found.offsets[pair + 1])):
                expected[bitext.target.offsets[pair] + found.target[link]] = found.source[link]
        assert np.array_equal(heads, expected)


@pytest.mark.parametrize(("content", "message"), [
    ("0-0\n", "1 lines, but the corpus has"), ("0:0\n", r":1: '0:0' is not a link"),
    ("0-0 999-0\n", ":1: the link 999-0 is"), ("0-999\n", ":1: the link 0-999 is outside")])
def test_links_of_another_corpus_are_refused(toy_folder: Path, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "links").write_text(content)
    raw = {"raw": sides_of(toy_folder)["raw"]}
    with pytest.raises(PipelineError, match=message):
        take_links(raw, {"raw": tmp_path / "links"}, tokenizer_of(toy_folder), SETTINGS, tmp_path / "taken",
                   tmp_path / "taken.json")
    with pytest.raises(PipelineError, match="give SIDE=FILE for each of raw"):
        take_links(raw, {"other": tmp_path / "links"}, tokenizer_of(toy_folder), SETTINGS, tmp_path / "taken",
                   tmp_path / "taken.json")
    assert not (tmp_path / "taken").exists()


# Counts.

def test_every_side_is_counted_alone_and_all_together(toy_folder: Path, stages: Path) -> None:
    tokenizer = tokenizer_of(toy_folder)
    sides = {side: aligned_side(toy_folder, stages, side) for side in ("raw", "distilled")}
    metadata = map_arrays(stages / "alignment/raw.safetensors", "")[1]
    assert {path.stem for path in (stages / "counts").iterdir()} == {SUMS, "raw", "distilled", "both"}
    for name, part in {"raw": [sides["raw"]], "distilled": [sides["distilled"]], "both": list(sides.values())}.items():
        model = CountModel.open(stages / f"counts/{name}.safetensors", tokenizer.digest)
        expected = count(part, top=5, target_vocabulary=tokenizer.target_size, copies=piece_copies(tokenizer),
                         digest=tokenizer.digest, tension=float(metadata["tension"]),
                         null_probability=float(metadata["null_probability"]))
        assert model.lengths == expected.lengths and model.tension == expected.tension
        for table, wanted in ((model.lexicon.table, expected.lexicon.table), (model.prior, expected.prior),
                              (model.by_position, expected.by_position)):
            assert all(np.array_equal(one, other) for one, other in zip(table, wanted, strict=True))


def test_the_report_of_the_counts(toy_folder: Path, stages: Path) -> None:
    report = json.loads((stages / "counts.json").read_text())
    assert list(report) == ["raw", "distilled", "both"]
    for side, figures in report.items():
        path = stages / f"counts/{side}.safetensors"
        model = CountModel.open(path)
        parts = ["raw", "distilled"] if side == "both" else [side]
        bitexts = [aligned_side(toy_folder, stages, part).bitext for part in parts]
        sources, targets = (np.concatenate([getattr(bitext, which).lengths for bitext in bitexts])
                            for which in ("source", "target"))
        residuals = targets - model.lengths.predict(sources)
        assert figures["pairs"] == len(sources) and figures["entries"] == len(model.lexicon.table.items)
        assert figures["pairs_of_word_and_offset"] == len(model.lexicon.offsets)
        assert figures["megabytes"] == round(path.stat().st_size / 1e6, 2)
        assert 0 < figures["growth_exponent"] < 1
        assert figures["length"]["slope"] == round(model.lengths.slope, 4)
        assert figures["length"]["residual_quantiles"]["0.5"] == float(np.median(residuals))
        assert figures["length"]["within_3"] == round(float(np.mean(abs(residuals) <= 3)), 4)


def test_the_projection_follows_the_growth(toy_folder: Path, stages: Path, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """From half of the pairs to all of them, and as many times on."""
    side, whole = aligned_side(toy_folder, stages, "raw"), CountModel.open(stages / "counts/raw.safetensors")
    pairs = side.bitext.pairs // 2
    half = Aligned(side.bitext.part(0, pairs), side.links[:side.bitext.target.offsets[pairs]])
    entries = len(count([half], top=5, target_vocabulary=whole.target_vocabulary, copies=whole.copies, digest="",
                        tension=1.0, null_probability=0.1).lexicon.table.items)
    factor = len(whole.lexicon.table.items) / entries
    monkeypatch.setattr("pipeline.alignment.build._PROJECTED_PAIRS", 2 * pairs * 2**30)
    shutil.copytree(stages / "alignment", tmp_path / "alignment")
    run_counts(toy_folder, tmp_path)
    figures = json.loads((tmp_path / "counts.json").read_text())["raw"]
    size = (stages / "counts/raw.safetensors").stat().st_size
    assert figures["growth_exponent"] == round(np.log2(factor), 3)
    assert figures["projected_megabytes"] == round(size / 1e6 * factor**30) > 1


def test_a_rerun_gives_the_same_bytes(toy_folder: Path, stages: Path, tmp_path: Path,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    run_align(toy_folder, tmp_path)
    run_counts(toy_folder, tmp_path)
    assert content(tmp_path) == content(stages)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "counts of raw", "counts of distilled", "counts of both"]


def test_the_commands(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({"counts": {"top": 3}, "alignment": {"iterations": 1}})
    assert main(["counts"]) == 2  # nothing is aligned
    layout.DISTILLED.mkdir(parents=True)
    shutil.copy(layout.BPE / "validation.pairs", layout.TRAINING_SIDES["distilled"])
    assert main(["align"]) == main(["counts"]) == 0
    assert len(json.loads(Path("reports/alignment.json").read_text())["forward"]["cross_entropy"]) == 1
    assert json.loads(Path("reports/counts.json").read_text())["raw"]["pairs"] == len(
        Pairs.open(layout.TRAINING_SIDES["raw"]))
    model = CountModel.open(layout.counts("both"), tokenizer_of(workspace).digest)
    assert np.diff(model.lexicon.table.starts).max() == 3


# What does not belong together.

@pytest.fixture
def spoilt(stages: Path, tmp_path: Path) -> Path:
    """A copy to be spoilt."""
    shutil.copytree(stages, tmp_path / "stages")
    return tmp_path / "stages"


def swap(folder: Path) -> None:
    raw, distilled = folder / "raw.safetensors", folder / "distilled.safetensors"
    shutil.copy(distilled, raw)


def change(folder: Path, words: int | None = None, farther: int = 0, kind: type = np.int32, **changes: str) -> None:
    path = folder / "raw.safetensors"
    arrays, metadata = map_arrays(path, "")
    write_arrays(path, {"heads": (arrays["heads"][:words] + np.int32(farther)).astype(kind)}, {**metadata, **changes})


def without(folder: Path, name: str) -> None:
    path = folder / "raw.safetensors"
    arrays, metadata = map_arrays(path, "")
    write_arrays(path, {other: array for other, array in arrays.items() if other != name},
                 {other: text for other, text in metadata.items() if other != name})


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda folder: (folder / "raw.safetensors").unlink(), "not found"),
    (lambda folder: (folder / "raw.safetensors").write_bytes(b"bolka"), "truncated or not a safetensors file"),
    (lambda folder: change(folder, format="counts 1"), "not links of format 'links 1'"),
    (lambda folder: change(folder, digest="0" * 64), "aligned with vocabulary 000000000000, but .* is in use"),
    (lambda folder: change(folder, pairs="7"), "links of 7 pairs with .* target words, but the corpus has 300 with"),
    (lambda folder: change(folder, words=-1), r"links of 300 pairs with \d+ target words, but the corpus has 300 with"),
    (lambda folder: change(folder, pairs="many"), r"damaged \(invalid literal for int\(\) .*'many'\)"),
    (lambda folder: change(folder, tension=""), r"damaged \(could not convert string to float"),
    (lambda folder: without(folder, "heads"), r"damaged \('heads'\)"),
    (lambda folder: without(folder, "digest"), r"damaged \('digest'\)"),
    (lambda folder: change(folder, farther=-1), "damaged: links that are neither positions nor -1"),
    (lambda folder: change(folder, kind=np.float32), "damaged: links that are neither positions nor -1"),
    (lambda folder: change(folder, farther=40), "links to words after the end of their source"),
    (swap, r"links of \d+ pairs with \d+ target words, but the corpus has 300 with \d+"),
])
def test_links_that_are_not_those_of_the_corpus(toy_folder: Path, spoilt: Path, spoil: Callable[[Path], object],
                                                message: str) -> None:
    before = content(spoilt / "counts")
    spoil(spoilt / "alignment")
    (spoilt / "alignment" / SUMS).unlink()
    with pytest.raises(PipelineError,
                       match=rf"raw.safetensors: {message}.*; run `python -m pipeline align` again$") as caught:
        run_counts(toy_folder, spoilt)
    assert "\n" not in str(caught.value) and content(spoilt / "counts") == before


def test_pairs_of_another_vocabulary(toy_folder: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "other.pairs", [([7], [8])], 20, "ab" * 32)
    with pytest.raises(PipelineError, match=r"other.pairs: made with another vocabulary \(abababababab"):
        align({"raw": tmp_path / "other.pairs"}, tokenizer_of(toy_folder), SETTINGS, tmp_path / "alignment",
              tmp_path / "alignment.json")
    assert [path.name for path in tmp_path.iterdir()] == ["other.pairs"]


@pytest.mark.parametrize("pair", [([7], [8_000]), ([8_000], [7])])
def test_pairs_with_an_id_beyond_the_vocabulary(toy_folder: Path, tmp_path: Path,
                                                pair: tuple[list[int], list[int]]) -> None:
    tokenizer = tokenizer_of(toy_folder)
    write_pairs(tmp_path / "other.pairs", [pair], 9_000, tokenizer.digest)
    with pytest.raises(PipelineError, match=r"other.pairs: damaged: the \w+ id 8000 is outside the vocabulary of"):
        align({"raw": tmp_path / "other.pairs"}, tokenizer, SETTINGS, tmp_path / "alignment", tmp_path / "report")


@pytest.mark.parametrize("there_before", [False, True])
def test_an_interrupted_run_leaves_what_was_there(toy_folder: Path, spoilt: Path, monkeypatch: pytest.MonkeyPatch,
                                                  there_before: bool) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    for out, run, last in (("counts", run_counts, "pipeline.alignment.build._figures"),
                           ("alignment", run_align, "pipeline.alignment.table.write_table")):
        if not there_before:
            shutil.rmtree(spoilt / out)
            if out == "alignment":
                shutil.rmtree(spoilt / "counts", ignore_errors=True)
        before = content(spoilt)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(last, interrupt)
            run(toy_folder, spoilt)
        assert content(spoilt) == before and (spoilt / out).exists() == there_before


# Pieces that stand for themselves.

def test_copies_are_by_piece_and_never_special() -> None:
    pieces = cast(Tokenizer, SimpleNamespace(source_pieces=[*SPECIALS, "▁lumo", "7", "{name}"],
                                             target_pieces=[*SPECIALS, "{name}", "▁bolka", "▁lumo", "ba"]))
    assert piece_copies(pieces).tolist() == [-1] * 7 + [9, -1, 7]


def test_copies_of_a_joint_vocabulary(toy_folder: Path) -> None:
    tokenizer = tokenizer_of(toy_folder)
    assert piece_copies(tokenizer).tolist() == [-1] * 7 + list(range(7, tokenizer.source_size))
