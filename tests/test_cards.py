"""What is published with a model or a corpus: its card, its files and no others."""

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
import yaml
from model_folders import export

from pipeline import PipelineError, layout, push_to_hub
from pipeline.cli import main
from pipeline.interop.cards import licence_of
from pipeline.interop.folder import MARKER
from pipeline.model.checkpoint import WEIGHTS
from pipeline.params import load_params
from pipeline.sources.readers import huggingface

ROOT = Path(__file__).parents[1]


def card(folder: Path) -> tuple[dict[str, Any], str]:
    _, head, body = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), body


def write_quality(**figures: float) -> None:
    names = {"chrf": 40.0, "ter": 70.0, "f05": None, "gleu": None}
    signatures = {f"{name}_signature": f"signature of {name}" for name in ("bleu", "chrf", "ter", "edits", "gleu")}
    Path("reports/quality").mkdir(parents=True)
    Path("reports/quality/teacher.json").write_text(json.dumps({"decoders": {
        name: {**names, "bleu": bleu, "calls": 3.0, **signatures} for name, bleu in figures.items()}}))


def test_the_card_says_data_licence_steps_quality_and_decoders(
        workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    write_quality(greedy=12.345, beam3=23.456, beam9=1.0)
    path = layout.checkpoint("teacher") / "config.json"
    config = json.loads(path.read_text())
    config["training"] = {"data": "both", "steps": 1234, "threads": 2, "averaged": [1, 2]}
    path.write_text(json.dumps(config))
    head, body = card(export("teacher", "--licence", "cc-by-4.0"))
    assert head["language"] == ["en", "xx"] and head["license"] == "cc-by-4.0"
    assert (head["pipeline_tag"], head["library_name"]) == ("translation", "fast-nmt-decoding")
    [greedy, beam] = head["model-index"][0]["results"]
    assert greedy["metrics"][0] == {"type": "bleu", "name": "BLEU, greedy", "value": 12.35, "args": "signature of bleu"}
    assert beam["metrics"][0]["value"] == 23.46
    for line in ("optimiser steps: 1,234", "the mean of 2 checkpoints", "| `beam3` | 23.5 | 40.0 | 70.0 | 3.0 |",
                 "BLEU: `signature of bleu`", "beam3: {algorithm: beam, beams: 3}", "| train | 300 |", "`cc-by-4.0`",
                 "the corpus's targets, and the teacher's translations of its sources", "min_words: 3"):
        assert line in body, line
    assert "beam9" not in body and "F0.5" not in body


def test_the_card_of_a_model_that_nobody_has_evaluated(folder: Path) -> None:
    head, body = card(folder)
    assert "model-index" not in head and head["license"] == "unknown"
    assert "run `python -m pipeline test --family teacher`" in body and "optimiser steps: 4\n- " in body
    assert "CPU threads: not recorded" in body


@pytest.mark.parametrize("form", ["folder", "corpus"])
def test_no_card_names_a_path_of_the_machine(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                                             form: str) -> None:
    change_params({"corpus": {"files": {split: [f"{workspace}/{split}.en", f"{workspace}/{split}.xx"]
                                        for split in layout.SPLITS}}})
    family = ["--family", "teacher"] if form == "folder" else []
    assert main(["export", form, *family, "--output", "out/it"]) == 0
    for name in ("README.md", MARKER):
        assert str(workspace) not in Path("out/it", name).read_text()


def test_the_licence_of_a_known_corpus() -> None:
    corpus = load_params(ROOT / "params.yaml").corpus
    assert licence_of(corpus, None) == "apache-2.0" and licence_of(corpus, "mit") == "mit"


def test_the_hub_reads_the_card(workspace: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    write_quality(greedy=12.345)
    data = hub.ModelCard.load(export() / "README.md").data
    assert (data.license, data.pipeline_tag, data.model_name) == ("unknown", "translation", "teacher")
    assert [one.metric_value for one in data.eval_results] == [12.35, 40.0, 70.0]


def test_the_corpus_has_a_data_card(workspace: Path) -> None:
    Path(layout.CORPUS, "test.target2").write_text("\n".join("abc" for _ in layout.read_corpus(
        layout.CORPUS / "test.target")) + "\n")
    assert main(["export", "corpus", "--output", "out/corpus", "--licence", "mit"]) == 0
    head, body = card(Path("out/corpus"))
    assert head["license"] == "mit" and head["task_categories"] == ["translation"]
    assert [one["split"] for one in head["configs"][0]["data_files"]] == list(layout.SPLITS)
    assert "| train | 300 |" in body and "pairs, one per line" in body
    for split in layout.SPLITS:
        rows = [json.loads(line) for line in Path(f"out/corpus/{split}.jsonl").read_text().splitlines()]
        assert [row["translation"]["en"] for row in rows] == layout.read_corpus(layout.CORPUS / f"{split}.source")
        assert [row["translation"]["xx"] for row in rows] == layout.read_corpus(layout.CORPUS / f"{split}.target")
        assert {row["reference2"] for row in rows} == {"abc" if split == "test" else ""}


def test_corrections_keep_both_sides(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> None:
    change_params({"corpus": {"target_language": "en"}})
    assert main(["export", "corpus", "--output", "out/corpus"]) == 0
    assert '`{"source": "…", "target": "…"}`' in card(Path("out/corpus"))[1]
    rows = [json.loads(line) for line in Path("out/corpus/test.jsonl").read_text().splitlines()]
    for side in ("source", "target"):
        assert [row[side] for row in rows] == layout.read_corpus(layout.CORPUS / f"test.{side}")


@pytest.mark.parametrize("target_language", ["xx", "en"])
def test_datasets_loads_the_corpus(workspace: Path, monkeypatch: pytest.MonkeyPatch, target_language: str,
                                   change_params: Callable[[dict[str, Any]], None]) -> None:
    """Every line of every split, whatever it contains, by its card; and the source `huggingface` reads it back."""
    datasets = pytest.importorskip("datasets", reason="the extra `huggingface` is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", workspace / "cache")
    change_params({"corpus": {"target_language": target_language}})
    corrections = target_language == "en"
    columns = ("source", "target") if corrections else ("en", "xx")
    lines = layout.read_corpus(layout.CORPUS / "test.target")
    lines[0] = 'a "quoted" {name}\\ \u2028 \t \U0001f9a6'
    (layout.CORPUS / "test.target").write_text("".join(line + "\n" for line in lines))
    (layout.CORPUS / "test.target2").write_text("abc\n" * len(lines))
    assert main(["export", "corpus", "--output", "out/corpus"]) == 0
    loaded = datasets.load_dataset("out/corpus")
    settings = huggingface.Settings("out/corpus", field="" if corrections else "translation")
    read = huggingface.read(settings, ("en", target_language))
    assert list(loaded) == list(layout.SPLITS) and loaded["test"]["reference2"] == ["abc"] * len(lines)
    for split in layout.SPLITS:
        pairs = list(zip(*(layout.read_corpus(layout.CORPUS / f"{split}.{side}") for side in ("source", "target")),
                         strict=True))
        texts = loaded[split] if corrections else loaded[split]["translation"]
        assert [(row[columns[0]], row[columns[1]]) for row in texts] == pairs
        assert list(read[split]) == ([(*pair, "abc") for pair in pairs] if split == "test" else pairs)


# The hub, which no test contacts.

class Hub:
    """What is asked of the hub."""

    def __init__(self, *files: str) -> None:
        self.files = [".gitattributes", *files]
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def create_repo(self, name: str, **options: Any) -> None:
        self.asked.append((name, options))

    def list_repo_files(self, name: str) -> list[str]:
        assert self.asked[-1][0] == name  # which exists by now
        return self.files

    def upload_folder(self, **options: Any) -> types.SimpleNamespace:
        self.asked.append((options.pop("repo_id"), options))
        return types.SimpleNamespace(commit_url="address of the commit")


def test_what_is_uploaded_is_the_model_and_nothing_else(folder: Path) -> None:
    hub = Hub()
    (folder / ".secret").write_text("mine")
    assert push_to_hub(folder, "me/model", api=hub) == "address of the commit"
    [created, uploaded] = hub.asked
    assert created == ("me/model", {"private": True, "exist_ok": True})
    assert uploaded[0] == "me/model" and uploaded[1]["folder_path"] == folder
    assert uploaded[1]["delete_patterns"] == "*"  # what an earlier model had and this one has not
    assert set(uploaded[1]["allow_patterns"]) == {path.name for path in folder.iterdir()} - {".secret"}
    push_to_hub(folder, "me/model", private=False, api=hub)
    assert hub.asked[2][1]["private"] is False


@pytest.mark.parametrize("files", [[], ["README.md"], ["README.md", "old.txt", MARKER]])
def test_an_earlier_export_is_replaced(folder: Path, files: list[str]) -> None:
    assert push_to_hub(folder, "me/model", api=Hub(*files)) == "address of the commit"


@pytest.mark.parametrize("files", [["thesis.pdf"], ["README.md", "data/train.txt"], [f"old/{MARKER}"]])
def test_nothing_else_on_the_hub_is_deleted(folder: Path, files: list[str]) -> None:
    hub = Hub(*files)
    with pytest.raises(PipelineError, match=rf"^me/model: exists and is not an earlier export \(it has {files[-1]} and "
                                            f"no {MARKER}.*; name another repository, or delete this one first$"):
        push_to_hub(folder, "me/model", api=hub)
    assert len(hub.asked) == 1  # nothing is uploaded


def test_the_library_has_what_is_asked_of_the_hub(folder: Path) -> None:
    library = pytest.importorskip("huggingface_hub")
    hub = create_autospec(library.HfApi, instance=True)  # refuses arguments that the library does not have
    hub.list_repo_files.return_value = []
    push_to_hub(folder, "me/model", api=hub)
    assert hub.create_repo.call_count == hub.upload_folder.call_count == 1


def test_a_damaged_folder_is_not_uploaded(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    hub = Hub()
    with pytest.raises(PipelineError, match="is missing"):
        push_to_hub(folder, "me/model", api=hub)
    assert not hub.asked


def test_a_hub_that_refuses_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("401\nno such user")

    hub = Hub()
    monkeypatch.setattr(hub, "create_repo", refuse)
    with pytest.raises(PipelineError, match=r"^me/model: cannot be uploaded \(RuntimeError: 401 no such user\); check"):
        push_to_hub(folder, "me/model", api=hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(PipelineError, match=r"run pip install 'fast-nmt-decoding\[hub\]'"):
        push_to_hub(folder, "me/model")


@pytest.mark.parametrize(("options", "private"), [([], True), (["--public"], False)])
def test_export_uploads_what_it_has_written(workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str], options: list[str],
                                            private: bool) -> None:
    hub = Hub()
    fake = types.ModuleType("huggingface_hub")
    vars(fake)["HfApi"] = lambda **_: hub
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    export("teacher", "--push-to-hub", "me/model", *options)
    assert hub.asked[0] == ("me/model", {"private": private, "exist_ok": True})
    assert capsys.readouterr().out.endswith("address of the commit\n")


# The command.

@pytest.mark.parametrize(("options", "message"), [
    (["folder", "--family", "teacher", "--quantization", "int8"], "--quantization: has no effect on folder; leave it"),
    (["hf", "--family", "teacher", "--licence", "mit"], "--licence: has no effect on hf; leave it out"),
    (["ctranslate2", "--family", "teacher", "--push-to-hub", "a/b"], "--push-to-hub: has no effect on ctranslate2"),
    (["folder", "--family", "teacher", "--public"], "--public: has no effect without --push-to-hub"),
    (["folder"], "--family: name the family to export"),
    (["corpus", "--family", "teacher"], "--family: has no effect on corpus"),
    (["folder", "--family", "nobody"], "--family: family 'nobody' is unknown"),
])
def test_options_that_an_export_does_not_have(workspace: Path, options: list[str], message: str,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *options, "--output", "out/it"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1 and not Path("out/it").exists()
