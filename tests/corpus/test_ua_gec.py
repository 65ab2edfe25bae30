"""Documents with corrections by several annotators, from a tiny wheel of the same shape."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import layout
from pipeline.blocks import build
from pipeline.checksums import SUMS
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.build import build_corpus, read_splits
from pipeline.sources.readers.ua_gec import Document, read_documents
from pipeline.sources.settings import CorpusSettings

NAME = "ua_gec-1.2-py3-none-any.whl"
Texts = dict[str, str]
"""Of members under `ua_gec/data/gec-only`, without `.txt`."""

TEST: Texts = {
    "test/source-sentences/0100.src": "Риба пливе\nКіт спит\n",
    "test/target-sentences/0100.a1": "Риба пливе.\nКіт спить.\n",
    "test/target-sentences/0100.a2": "Риба пливе!\nКіт спить\n",
    "test/source-sentences/0200.src": "Сонце сходить\n",
    "test/target-sentences/0200.a3": "Сонце сходить.\n",
}


def training(count: int) -> Texts:
    """Documents of two sentences, every second one corrected twice."""
    texts = {}
    for number in range(count):
        texts[f"train/source-sentences/{number:04}.src"] = f"човен {number} пливе\nхвиля {number} росте\n"
        for annotator in (1, 2)[:1 + number % 2]:
            texts[f"train/target-sentences/{number:04}.a{annotator}"] = (
                f"Човен {number} пливе ({annotator}).\nХвиля {number} росте ({annotator}).\n")
    return texts


def write_wheel(folder: Path, texts: Texts, layer: str = "gec-only") -> Path:
    wheel = folder / NAME
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ua_gec-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: ua-gec\nVersion: 1.2\n")
        archive.writestr("ua_gec-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("ua_gec-1.2.dist-info/RECORD", "")
        archive.writestr(f"ua_gec/data/{layer}/train/source/0000.src.txt", "not divided into sentences")
        archive.writestr(f"ua_gec/data/{layer}/train/target-sentences-tokenized/0000.a1.txt", "not this one")
        for member, text in texts.items():
            archive.writestr(f"ua_gec/data/{layer}/{member}.txt", text)
    return wheel


def settings_for(wheel: Path, validation_share: float = 0.3) -> CorpusSettings:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return build(CorpusSettings, {
        "source": "ua-gec", "source_language": "uk", "target_language": "uk",
        "filters": {"min_words": 1, "evaluation": False},
        "ua_gec": {"version": "1.2", "sha256": digest, "validation_share": validation_share}}, "corpus")


def test_corrections_come_in_the_order_of_annotators(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {
        "train/source-sentences/b.src": "перше\u2028слово\n\nтретє\n",
        "train/target-sentences/b.a10": "x\n\nz\n", "train/target-sentences/b.a9": "1\n2\n3\n",
        "train/source-sentences/a.src": "одне", "train/target-sentences/a.a2": "одна"})
    assert read_documents(wheel, "gec-only", "train") == {
        "a": Document(["одне"], [["одна"]]),
        "b": Document(["перше\u2028слово", "", "третє"], [["1", "2", "3"], ["x", "", "z"]])}
    assert list(read_documents(wheel, "gec-only", "train")) == ["a", "b"]


def test_train_has_every_correction_validation_the_first_and_test_all_beside_each_other(no_pip: Path) -> None:
    splits = {split: list(pairs) for split, pairs in
              read_splits(settings_for(write_wheel(no_pip, training(100) | TEST))).items()}
    assert splits["test"] == [("Риба пливе", "Риба пливе.", "Риба пливе!"), ("Кіт спит", "Кіт спить.", "Кіт спить"),
                              ("Сонце сходить", "Сонце сходить.", "Сонце сходить.")]
    documents = {split: {pair[0].split()[1] for pair in splits[split]} for split in SPLITS[:2]}
    assert documents["train"] | documents["validation"] == set(map(str, range(100)))
    assert not documents["train"] & documents["validation"]
    assert 15 < len(documents["validation"]) < 45
    assert len(splits["validation"]) == 2 * len(documents["validation"])
    assert all(len(pair) == 2 and pair[1].endswith("(1).") for pair in splits["validation"])
    odd = sum(int(name) % 2 for name in documents["train"])
    assert len(splits["train"]) == 2 * (len(documents["train"]) + odd)
    assert all(source[1:] == target[1:len(source)] for source, target in splits["train"])


def test_references_are_files_of_as_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    build_corpus(settings_for(write_wheel(tmp_path, training(20) | TEST)), layout.CORPUS, Path("corpus.json"))
    assert layout.references() == [layout.CORPUS / "test.target", layout.CORPUS / "test.target2"]
    assert layout.references("validation") == [layout.CORPUS / "validation.target"]
    assert [layout.read_corpus(path) for path in layout.references()] == [
        ["Риба пливе.", "Кіт спить.", "Сонце сходить."], ["Риба пливе!", "Кіт спить", "Сонце сходить."]]
    assert {path.name for path in layout.CORPUS.iterdir()} == {
        SUMS, "test.target2", *(f"{split}.{side}" for split in SPLITS for side in ("source", "target"))}


def test_another_wheel_is_refused_with_both_hashes(no_pip: Path) -> None:
    settings = settings_for(write_wheel(no_pip, training(9) | TEST))
    actual = hashlib.sha256(write_wheel(no_pip, training(8) | TEST).read_bytes()).hexdigest()
    expected = f"sha256 is {actual} but .* {settings.block.sha256}; .*corpus.ua_gec.sha256"
    with pytest.raises(PipelineError, match=expected):
        read_splits(settings)


@pytest.mark.parametrize("changed, message", [
    ({"test/target-sentences/0200.a3": None}, r"no member .*gec-only/test/target-sentences/0200\.a1\.txt"),
    ({"test/source-sentences/0200.src": None}, r"no member .*gec-only/test/source-sentences/0200\.src\.txt"),
    ({"train/target-sentences/0003.a2": "тільки один\n"},
     r"train/source-sentences/0003\.src\.txt has 2 lines but .*/0003\.a2\.txt has 1"),
])
def test_a_wheel_that_is_not_whole_names_the_member(no_pip: Path, changed: dict[str, str | None], message: str) -> None:
    texts = {member: text for member, text in (training(9) | TEST | changed).items() if text is not None}
    with pytest.raises(PipelineError, match=message) as caught:
        read_splits(settings_for(write_wheel(no_pip, texts)))
    assert "\n" not in str(caught.value)


def test_layers_are_read_apart(no_pip: Path) -> None:
    settings = settings_for(write_wheel(no_pip, training(9) | TEST, "gec-fluency"))
    with pytest.raises(PipelineError, match="no sentences under ua_gec/data/gec-only/train/"):
        read_splits(settings)
    fluency = replace(settings, ua_gec=replace(settings.block, layer="gec-fluency"))
    assert len(list(read_splits(fluency)["test"])) == 3


def test_a_text_that_is_not_utf8_is_named(no_pip: Path) -> None:
    wheel = write_wheel(no_pip, training(9) | TEST)
    wheel.write_bytes(wheel.read_bytes().replace("Риба пливе".encode(), "Риба пливе".encode()[:-1] + b"\xff"))
    with pytest.raises(PipelineError, match=r"ua_gec-1\.2\S*\.whl: ua_gec/data/\S*/0100\.\S* cannot be read"):
        read_splits(settings_for(wheel))
