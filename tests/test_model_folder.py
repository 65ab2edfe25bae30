"""A model folder is opened anywhere, as it was written or not at all."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from drafters import drafter
from model_folders import LINES, export
from sacrebleu import corpus_bleu

from pipeline import Translator, layout
from pipeline.cli import main
from pipeline.fingerprint import digest
from pipeline.interop.folder import MARKER
from pipeline.model.checkpoint import CONFIG, WEIGHTS, load_checkpoint, save_checkpoint, unique_weights
from pipeline.model.settings import VocabularySettings
from pipeline.params import load_params
from pipeline.text_model import open_family

ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A function from a text and a command to status, standard output and standard error."""
    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capsys.readouterr()
        return main(list(arguments)), *capsys.readouterr()
    return run


def change(folder: Path, **changes: Any) -> None:
    """As an export of other software would have it: with its digest of itself."""
    content = json.loads((folder / MARKER).read_text()) | changes
    entries = {name: value for name, value in content.items() if name not in ("format", "digest")}
    content["digest"] = digest(json.dumps(entries, sort_keys=True).encode())
    (folder / MARKER).write_text(json.dumps(content))


def test_three_lines_in_a_fresh_python_wherever_the_folder_stands(folder: Path, tmp_path: Path) -> None:
    params = load_params()
    expected = next(Translator(params, open_family(params, "teacher"), "greedy", device="cpu")([LINES[0]]))
    shutil.move(folder, tmp_path / "elsewhere")
    shutil.rmtree("checkpoints")
    code = ("from pipeline import Translator\n"
            "translator = Translator.from_pretrained('elsewhere', device='cpu')\n"
            "print(translator.translate(sys.argv[1]))")
    check = "\nassert not {'pytorch_lightning', 'sacrebleu', 'transformers', 'dvc'} & sys.modules.keys()"
    printed = subprocess.run([sys.executable, "-c", f"import sys\n{code}{check}", LINES[0]], cwd=tmp_path, check=True,
                             env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True).stdout
    assert printed == expected.hypotheses[0] + "\n"


@pytest.mark.parametrize("family", ["teacher", "interleaved", "lattice", "drafts"])
def test_a_folder_says_what_its_family_says(lattice_family: Path, change_params: Callable[[dict[str, Any]], None],
                                            family: str) -> None:
    """A drafter has its verifier in the folder, and a lattice its counts."""
    if family == "drafts":
        change_params({"families": {"drafts": {"kind": "drafter", "drafting": {"verifier": "teacher"},
                                               "network": {"encoder_layers": 0}, "decoders": ["gad"]}},
                       "decoders": {"gad": {"algorithm": "gad"}}})
        verifier, config = load_checkpoint(layout.checkpoint("teacher"))
        network = drafter(verifier, max_length=64, tied_embeddings="all")
        save_checkpoint(layout.checkpoint("drafts"), network, VocabularySettings(**config["vocabulary"]),
                        unique_weights(network), {"data": "raw"})
    params, folder = load_params(), export(family)
    decoders = params.decoders_of(family)
    for decoder in decoders:
        ours = Translator(params, open_family(params, family), decoder, device="cpu", scores=True)(LINES)
        assert list(Translator.from_pretrained(folder, decoder, device="cpu", scores=True)(LINES)) == list(ours)
    assert Translator.from_pretrained(folder).decoder == decoders[0]


def test_the_commands_need_nothing_but_the_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  run: Callable[..., tuple[int, str, str]]) -> None:
    text, pair = "".join(line + "\n" for line in LINES), f"{LINES[0]}\tmip lumo\n"
    here = [run(text, "translate", "--family", "teacher", "--decoder", "beam3"),
            run(pair, "score", "--family", "teacher")]
    shutil.move(folder, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert here == [run(text, "translate", "--model", "elsewhere", "--decoder", "beam3"),
                    run(pair, "score", "--model", "elsewhere")]
    assert here[0][0] == here[1][0] == 0
    status, _, error = run(text, "translate", "--model", "elsewhere", "--decoder", "gad")
    assert status == 2 and error == "error: --decoder: decoder 'gad' is unknown; the model folder has greedy, beam3\n"
    status, _, error = run(text, "translate", "--model", "o" * 300)
    assert status == 2 and error.endswith(": there is no such folder; `python -m pipeline export folder` writes one\n")
    status, _, error = run(text, "explain", "--model", "elsewhere")
    assert status == 2 and "'greedy' drafts nothing" in error
    status, _, error = run(text, "translate", "--model", "elsewhere", "--target-language", "de")
    assert status == 2 and "has been trained for one pair of languages" in error


def test_a_folder_is_tested_timed_and_inspected_under_its_own_decoders(
        folder: Path, tmp_path: Path, change_params: Callable[[dict[str, Any]], None],
        run: Callable[..., tuple[int, str, str]]) -> None:
    """Whatever decoders params.yaml has by now; which also sets how to score and to time."""
    short = {"limit": {"ratio": 0.0, "extra": 6}, "decoders": {"beam3": {"algorithm": "beam", "beams": 2}},
             "speed": {"sentences": 2, "repetitions": 1, "warmup": 0}}
    change_params({"limit": short["limit"]})
    export()
    pictures = ["ddg", LINES[3], "--device", "cpu", "--output"]
    by_family = run("", *pictures, "of_family", "--family", "teacher")
    change_params(short)
    for name in ("quality.json", "speed.json"):  # they stay links to a file that only its owner can read
        Path(f"real_{name}").touch(0o600)
        Path(name).symlink_to(f"real_{name}")
    status, printed, _ = run("", "test", "--model", f"{folder}/", "--output", "quality.json")
    figures = json.loads(Path("quality.json").read_text())["decoders"]
    texts = [one.hypotheses[0] for one in Translator.from_pretrained(folder, "beam3", device="cpu")(
        layout.read_corpus(layout.CORPUS / "test.source"))]
    assert status == 0 and printed.startswith(f"{folder}/ greedy: BLEU ") and list(figures) == ["greedy", "beam3"]
    assert figures["beam3"]["bleu"] == corpus_bleu(texts, [layout.read_corpus(layout.CORPUS / "test.target")]).score
    status, printed, _ = run("", "speed", "--model", str(folder), "--output", "speed.json")
    rows = json.loads(Path("speed.json").read_text())["decoders"]
    assert status == 0 and [row["name"] for row in rows] == ["greedy", "beam3"] and printed.count("\n") == 3
    assert [(path.is_symlink(), path.stat().st_mode & 0o777) for path in map(Path, ("quality.json", "speed.json"))] == [
        (True, 0o600)] * 2
    assert run("", "speed", "--model", str(folder), "--peer", "x")[2].startswith("error: --peer: other libraries")
    for verb in ("test", "speed"):  # each asks for its device
        assert run("", verb, "--model", str(folder), "--device", "tpu") == (
            2, "", "error: device: 'tpu' is unknown; choose cpu, cuda or auto\n")
    Path("params.yaml").unlink()
    assert run("", *pictures, "of_folder", "--model", str(folder)) == (
        0, by_family[1], by_family[2].replace("of_family", "of_folder"))
    assert {path.name: path.read_bytes() for path in Path("of_folder").iterdir()} == {
        path.name: path.read_bytes() for path in Path("of_family").iterdir()}


def test_the_pipeline_writes_a_folder_of_every_system(lattice_family: Path, capsys: pytest.CaptureFixture[str],
                                                      change_params: Callable[[dict[str, Any]], None]) -> None:
    """As the export does, and none of a family that is no system any more."""
    assert main(["models"]) == 0
    systems = load_params().systems
    assert sorted(path.name for path in layout.MODELS.iterdir()) == sorted(systems) and len(systems) > 1
    for family in systems:
        assert {path.name: path.read_bytes() for path in (layout.MODELS / family).iterdir()} == {
            path.name: path.read_bytes() for path in export(family).iterdir()}
    shutil.rmtree(layout.checkpoint(systems[-1]))
    capsys.readouterr()
    assert main(["models"]) == 2 and capsys.readouterr().err.count("\n") == 1
    assert len(list(layout.MODELS.iterdir())) == len(systems)  # those of before


def other_weights(folder: Path) -> None:
    torch.save({"weight": torch.ones(3)}, folder / WEIGHTS)


def by_hand(folder: Path, name: str) -> None:
    """As if somebody wanted a changed file to be opened."""
    files = json.loads((folder / MARKER).read_text())["files"]
    change(folder, files={**files, name: sha256((folder / name).read_bytes()).hexdigest()})


def other_weights_by_hand(folder: Path) -> None:
    other_weights(folder)
    by_hand(folder, WEIGHTS)


def other_network(folder: Path, part: str = "network", **changes: Any) -> None:
    config = json.loads((folder / CONFIG).read_text())
    config[part] |= changes
    (folder / CONFIG).write_text(json.dumps(config))
    by_hand(folder, CONFIG)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "{folder}: there is no such folder; `python -m pipeline export folder` writes one"),
    "no marker": (lambda folder: (folder / MARKER).unlink(), f"{{folder}}: is not a model folder (it has no {MARKER})"),
    "another version": (lambda folder: change(folder, format="folder 1", version="0.9"),
                        f"{{folder}}/{MARKER}: its format is 'folder 1', not 'folder 2'; install the version of this "
                        "package that wrote it (0.9), or export"),
    "another format": (lambda folder: change(folder, format="ctranslate2"), "its format is 'ctranslate2', not"),
    "not JSON": (lambda folder: (folder / MARKER).write_text("{"), f"{{folder}}/{MARKER}: not valid JSON"),
    "a thousand brackets": (lambda folder: (folder / MARKER).write_text("[" * 100_000), "not valid JSON"),
    "a flipped byte": (lambda folder: (folder / MARKER).write_text((folder / MARKER).read_text().replace(
        '"beams": 3', '"beams": 1')), f"{{folder}}/{MARKER}: is not the file that was exported"),
    "a list": (lambda folder: (folder / MARKER).write_text("[]"), f"{{folder}}/{MARKER}: its format is None"),
    "an unknown key": (lambda folder: change(folder, code="x"), f"{{folder}}/{MARKER}: model.code is unknown"),
    "an unknown form": (lambda folder: change(folder, unicode="NFX"), "unicode is 'NFX'; choose one of NFC"),
    "no decoder": (lambda folder: change(folder, decoders={}), "names no decoder; export the model again"),
    "a decoder of another package": (lambda folder: change(folder, decoders={"own": {"algorithm": "../../own"}}),
                                     "decoders.own.algorithm: '../../own' is not a file of pipeline/decoding"),
    "a file above": (lambda folder: change(folder, files={"../weights.safetensors": "0"}),
                     "the file '../weights.safetensors' is not a plain name"),
    "an absolute path": (lambda folder: change(folder, files={"/etc/hostname": "0"}),
                         "the file '/etc/hostname' is not a plain name"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), f"{{folder}}/{WEIGHTS}: is missing; copy the whole"),
    "no vocabulary": (lambda folder: (folder / "joint.model").unlink(), "{folder}/joint.model: is missing"),
    "no card": (lambda folder: (folder / "README.md").unlink(), "{folder}/README.md: is missing"),
    "an extra file": (lambda folder: (folder / "notes.txt").write_text(""),
                      "{folder}/notes.txt: does not belong to the model: the export has not written it; remove it"),
    "an extra folder": (lambda folder: (folder / "old").mkdir(), "{folder}/old: does not belong to the model"),
    "pickled weights beside": (lambda folder: torch.save({}, folder / "model.bin"),
                               "{folder}/model.bin: does not belong to the model: pickled weights may run code"),
    "pickled weights": (other_weights, f"{{folder}}/{WEIGHTS}: is not the file that was exported; copy the whole"),
    "pickled weights by hand": (other_weights_by_hand, f"{{folder}}/{WEIGHTS}: truncated or damaged"),
    "a network for no memory": (lambda folder: other_network(folder, width=1 << 20),
                                f"{{folder}}/{WEIGHTS}: decoder.0.around_cross_attention.norm.bias is (16,) in the "
                                "file and (1048576,) in the model"),
    "masks for no memory": (lambda folder: other_network(folder, max_length=1 << 20),
                            f"{{folder}}/{CONFIG}: describes no network (its tables of positions have "),
    "endless layers": (lambda folder: other_network(folder, encoder_layers=1001),
                       f"{{folder}}/{CONFIG}: describes no network (encoder_layers: 1001: above"),
    "endless steps": (lambda folder: other_network(folder, "order", words=1 << 40),
                      f"{{folder}}/{CONFIG}: describes no network (words: 1099511627776: above 1,048,576"),
    "a number for a digest": (lambda folder: other_network(folder, "vocabulary", digest=7),
                              f"{{folder}}/{CONFIG}: describes no network (fromhex() argument must be str"),
    "half a file": (lambda folder: os.truncate(folder / WEIGHTS, 999), f"{{folder}}/{WEIGHTS}: is not the file"),
    "another vocabulary": (lambda folder: (folder / "meta.json").write_text('{"joint": true, "digest": "x"}'),
                           "{folder}/meta.json: is not the file that was exported"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_model_folder_is_one_line(folder: Path, damage: str,
                                             run: Callable[..., tuple[int, str, str]]) -> None:
    spoil, message = DAMAGE[damage]
    spoil(folder)
    status, printed, error = run("a moth\n", "translate", "--model", str(folder))
    assert (status, printed) == (2, "") and error.startswith("error: ") and error.count("\n") == 1
    assert message.format(folder=folder) in error


def test_the_card_may_be_edited_and_git_may_have_its_files(folder: Path) -> None:
    (folder / "README.md").write_text("mine")
    (folder / ".gitattributes").write_text("")
    (folder / ".git").mkdir()
    assert Translator.from_pretrained(folder, device="cpu").translate("") == ""


def test_the_files_may_be_links(folder: Path, tmp_path: Path) -> None:
    """As in the cache of the hub."""
    shutil.move(folder / WEIGHTS, tmp_path / "blob")
    (folder / WEIGHTS).symlink_to(tmp_path / "blob")
    assert Translator.from_pretrained(folder, device="cpu").translate("") == ""


def test_a_folder_again_replaces_the_earlier_one(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in export().iterdir()} == before
