"""Checkpoints in folders: text to text as their own library does it, what is refused, and the command line."""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from random_checkpoints import LANGUAGES, LONGEST, SENTENCES, save
from safetensors.torch import load_file, save_file

from pipeline import layout
from pipeline.cli import main
from pipeline.errors import PipelineError
from pipeline.interop import huggingface
from pipeline.interop.huggingface import HuggingFaceCheckpoint, open_checkpoint
from pipeline.params import load_params
from pipeline.text_model import TextModel
from pipeline.translation import Translator
from pipeline.vocabulary import BOS, EOS, PAD

TOKENIZED = ("marian", "bart", "mbart", "m2m_100", "nllb", "t5")
every_tokenizer = pytest.mark.parametrize("kind", TOKENIZED)
LINES = ["The red otter hides .", "The tiny snail .", "", "tiny </s> <pad> snail"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from an architecture to a checkpoint folder; not to be written to."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = save(tmp_path_factory.mktemp("checkpoints") / kind, kind)
        return made[kind]
    return folder


def opened(folder: Path, kind: str) -> HuggingFaceCheckpoint:
    return open_checkpoint(str(folder), *LANGUAGES.get(kind, ()))


@every_tokenizer
def test_text_becomes_the_ids_of_their_tokenizer(kind: str, folders: Callable[[str], Path]) -> None:
    checkpoint = opened(folders(kind), kind)
    text, model = checkpoint.text, checkpoint.network
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders(kind))
    if kind in LANGUAGES:
        tokenizer.src_lang = LANGUAGES[kind][0]
    encoded = text.encode_source(LINES)
    assert encoded[2] == []
    for line, ids in zip(LINES[:2], encoded, strict=False):
        assert model.source_ids[[*ids, EOS]].tolist() == tokenizer(line)["input_ids"]
        assert text.decode_target(ids) == line
        assert [text.target_pieces[token] for token in ids] == tokenizer.convert_ids_to_tokens(
            model.source_ids[ids].tolist())
    assert EOS not in encoded[3] and PAD not in encoded[3]  # symbols in the text are not those of its ends
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert not any(module.training for module in model.modules())


@every_tokenizer
def test_translations_are_theirs(kind: str, folders: Callable[[str], Path], workspace: Path) -> None:
    checkpoint = opened(folders(kind), kind)
    params = load_params()
    translator = Translator(params, TextModel(checkpoint.network, checkpoint.text, checkpoint.longest, "none"),
                            "greedy", device="cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders(kind))
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders(kind))
    forced, languages = {}, huggingface._languages(tokenizer)
    if kind in LANGUAGES:
        tokenizer.src_lang, target = LANGUAGES[kind]
        forced = {"forced_bos_token_id": languages[target]}
    for found, line in zip(translator(LINES), LINES, strict=True):
        if not line or "</s>" in line:
            continue  # theirs translate nothing to something, and end where the text says so
        ids = tokenizer(line, return_tensors="pt")
        most = min(int(ids["input_ids"].shape[1] * params.limit.ratio) + params.limit.extra, LONGEST - 1) + 1
        output = network.generate(**ids, num_beams=1, do_sample=False, max_new_tokens=most, **forced)[0]
        text = tokenizer.decode([token for token in output.tolist() if token not in languages.values()],
                                skip_special_tokens=True)
        assert found.hypotheses == [" ".join(text.split())]


@every_tokenizer
def test_a_translation_begins_with_its_prefix(kind: str, folders: Callable[[str], Path], workspace: Path) -> None:
    """After the language, which the network still forces."""
    checkpoint = opened(folders(kind), kind)
    model = TextModel(checkpoint.network, checkpoint.text, checkpoint.longest, "none")
    assert checkpoint.text.decode_targets(checkpoint.text.encode_target(LINES[:2])) == LINES[:2]
    for decoder in ("greedy", "beam3"):
        translator = Translator(load_params(), model, decoder, device="cpu")
        found, plain = list(translator(LINES[:2], prefixes=["The pale raven", ""])), list(translator(LINES[:2]))
        assert found[0].hypotheses[0].startswith("The pale raven") and found[1].hypotheses == plain[1].hypotheses
        assert "begin" not in str(found[0].warning)


@every_tokenizer
def test_a_matrix_that_is_stored_once(kind: str, tmp_path: Path) -> None:
    """As most published checkpoints are: the output's matrix is the embedding, and not in the file."""
    folder = save(tmp_path / kind, kind, tied=True)
    assert not [name for name in load_file(folder / "model.safetensors") if "lm_head" in name]
    checkpoint = opened(folder, kind)
    model, source = checkpoint.network, torch.tensor([[8, 9, 10, EOS]])
    found = model.step(torch.tensor([[BOS, 9, 8]]), model.start(model.encode(source)))
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    with torch.no_grad():
        expected = theirs(input_ids=model.source_ids[source],
                          decoder_input_ids=model.target_ids[torch.tensor([[BOS, 9, 8]])]).logits
    possible = found[:, 1:].isfinite()  # at first, a language may be forced
    torch.testing.assert_close(found[:, 1:][possible], expected.index_select(2, model.target_ids)[:, 1:][possible],
                               rtol=1e-4, atol=1e-4)


def test_tasks_of_t5(folders: Callable[[str], Path]) -> None:
    plain = open_checkpoint(str(folders("t5"))).text
    german = open_checkpoint(str(folders("t5")), "en", "de").text
    prefix = "translate English to German: "
    assert german.encode_source(["The otter"]) == plain.encode_source([f"{prefix}The otter"])
    with pytest.raises(PipelineError, match="has no task translation_en_to_fr; it has translation_en_to_de"):
        open_checkpoint(str(folders("t5")), "en", "fr")


@pytest.mark.parametrize(("kind", "languages", "message"), [
    ("mbart", (), "--source-language: is missing; .* has af_ZA, ar_AR, .*en_XX"),
    ("mbart", ("en_XX",), "--target-language: is missing"),
    ("mbart", ("en", "de_DE"), "--source-language: 'en' is unknown; .* has .*en_XX"),
    ("m2m_100", ("en", "de_DE"), "--target-language: 'de_DE' is unknown; .* has .*, de, "),
    ("marian", ("en", "de"), "--source-language: .* has no languages to choose from"),
    ("bart", (None, "de"), "--target-language: .* has no languages to choose from"),
])
def test_languages_that_do_not_suit(folders: Callable[[str], Path], kind: str, languages: tuple[str, ...],
                                    message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        open_checkpoint(str(folders(kind)), *languages)


@pytest.fixture
def marian(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a checkpoint, to be spoilt."""
    return shutil.copytree(folders("marian"), tmp_path / "marian")


def _change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _truncate(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def _lose(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.decoder.layers.1.fc1.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _swap_tokenizer(folder: Path) -> None:
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(vocabulary | {f"word{n}": n for n in range(100, 200)}))


@pytest.mark.parametrize(("spoil", "message"), [
    (_pickled, "has no weights in safetensors, and no others are read"),
    (_truncate, "its weights cannot be read"),
    (_lose, "its weights lack model.decoder.layers.1.fc1.weight"),
    (_swap_tokenizer, "its tokenizer has the id 199, but its embedding only"),
    (lambda folder: (folder / "config.json").unlink(), "its configuration cannot be read"),
    (lambda folder: (folder / "config.json").write_text("{"), "its configuration cannot be read"),
    (lambda folder: (folder / "source.spm").unlink(), "its tokenizer cannot be read"),
    (lambda folder: _change(folder / "config.json", model_type="gpt2"),
     "a model of type 'gpt2'; supported are the encoder-decoders Marian, Pegasus, BART, mBART-50, M2M100 and NLLB, T5"),
    (lambda folder: _change(folder / "config.json", model_type="new", auto_map={"AutoConfig": "code.Config"}),
     "its configuration cannot be read"),
    (lambda folder: _change(folder / "config.json", d_model=32), "its weights cannot be read"),
    (lambda folder: _change(folder / "generation_config.json", eos_token_id=[2, 3]), r"eos_token_id \[2, 3\]"),
    (lambda folder: _change(folder / "generation_config.json", pad_token_id=2), "the last two differ"),
    (lambda folder: _change(folder / "generation_config.json", eos_token_id=5), "does not end a sentence with"),
], ids=["pickled", "truncated", "incomplete", "another tokenizer", "no config", "bad config", "no tokenizer",
        "decoder only", "remote code", "another shape", "two ends", "padding ends", "another end"])
def test_what_is_refused(marian: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(marian)
    with pytest.raises(PipelineError, match=message) as error:
        open_checkpoint(str(marian))
    assert "\n" not in str(error.value)


def test_code_of_a_checkpoint_is_not_run(marian: Path) -> None:
    _change(marian / "config.json", model_type="new", auto_map={"AutoConfig": "code.Config"})
    (marian / "code.py").write_text(f"open({str(marian / 'run')!r}, 'w')\nclass Config: pass\n")
    with pytest.raises(PipelineError):
        open_checkpoint(str(marian))
    assert not (marian / "run").exists()


@pytest.mark.parametrize("name", ["someone/no-such-model", "no/such/folder", "/no/such/folder", ""])
def test_names_that_cannot_be_found(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match="no such folder, and no such repository can be fetched") as error:
        open_checkpoint(name)
    assert "\n" not in str(error.value)


def test_a_repository_is_fetched_or_found_in_the_cache(folders: Callable[[str], Path],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways end in a folder, of which only data has been asked for."""
    asked = []

    def snapshot(name: str, allow_patterns: list[str], local_files_only: bool = False) -> str:
        asked.append((name, local_files_only, any(pattern.endswith((".py", ".bin")) for pattern in allow_patterns)))
        return str(folders("marian"))

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: None)
    open_checkpoint("someone/model")
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: 1 / 0)
    open_checkpoint("someone/model")
    assert asked == [("someone/model", False, False), ("someone/model", True, False)]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(PipelineError, match=r"^hf:folder: needs transformers, which .*\[huggingface\]'$"):
        open_checkpoint("folder")


def test_settings_of_generation(marian: Path) -> None:
    _change(marian / "generation_config.json", no_repeat_ngram_size=3, min_length=0, repetition_penalty=1.0,
            bad_words_ids=[[1], [4, 5]], suppress_tokens=[7])
    checkpoint = open_checkpoint(str(marian))
    assert checkpoint.notes == ["generation_config.json: no_repeat_ngram_size 3 is ignored",
                                "generation_config.json: bad_words_ids of several tokens are ignored"]
    never = checkpoint.network.target_ids[checkpoint.network._suppressed].tolist()
    assert sorted(set(never)) == [1, 7]


# The command line.

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch,
        capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """A function from a verb, standard input and options to status, standard output and standard error."""
    change_params({"decoders": {"iad": {"algorithm": "iad"}, "pj": {"algorithm": "jacobi"},
                                "masks": {"algorithm": "mask_predict", "iterations": 2}}})

    def run(verb: str, text: str, *options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status = main([verb, *([] if verb in ("test", "speed") else ["--device", "cpu"]), *options])
        printed = capsysbinary.readouterr()
        return status, printed.out.decode(), printed.err.decode()
    return run


TEXT = f"{SENTENCES[3]}\n\n{SENTENCES[30]}\n"


@pytest.mark.parametrize("kind", ["marian", "m2m_100"])
def test_every_decoder_translates(run: Run, folders: Callable[[str], Path], kind: str) -> None:
    options = ["--model", f"hf:{folders(kind)}"]
    for option, language in zip(("--source-language", "--target-language"), LANGUAGES.get(kind, ()), strict=False):
        options += [option, language]
    runs = {decoder: run("translate", TEXT, *options, "--decoder", decoder)
            for decoder in ("greedy", "beam3", "iad", "pj")}
    for status, out, error in runs.values():
        assert status == 0 and out.count("\n") == 3 and out.split("\n")[1] == ""
        assert all(line.startswith("line ") for line in error.splitlines())
    assert runs["iad"][1] == runs["pj"][1] == runs["greedy"][1]
    assert run("translate", TEXT, *options) == runs["greedy"]
    assert run("translate", TEXT, *options, "--decoder", "beam3", "--nbest", "3")[1].count("\t") == 4


def test_drafts_are_explained(run: Run, folders: Callable[[str], Path]) -> None:
    status, out, _ = run("explain", TEXT, "--model", f"hf:{folders('marian')}", "--decoder", "iad")
    assert status == 0 and out.startswith(f"  {SENTENCES[3]}\n  1 D  ") and "▁" in out and "of the verifier" in out


def test_a_note_is_printed_once(run: Run, marian: Path) -> None:
    _change(marian / "generation_config.json", no_repeat_ngram_size=3)
    assert run("translate", TEXT, "--model", f"hf:{marian}")[2].count("no_repeat_ngram_size 3 is ignored") == 1


def test_a_note_shows_what_a_terminal_would_obey(run: Run, marian: Path) -> None:
    """What it quotes is not ours."""
    _change(marian / "generation_config.json", repetition_penalty="\x1b[2J\n")
    note = r"note: generation_config.json: repetition_penalty \x1b[2J\n is ignored"
    assert note in run("translate", TEXT, "--model", f"hf:{marian}")[2].splitlines()


@pytest.mark.parametrize(("options", "message"), [
    (["--model", "checkpoints/teacher"], "checkpoints/teacher: is not a model folder (it has no"),
    (["--family", "teacher", "--target-language", "de"], "a family has been trained for one pair of languages"),
    (["--model", "hf:{marian}", "--decoder", "masks"], "mask_predict searches masked models, and this one is ordered"),
    (["--model", "hf:{marian}", "--decoder", "none"], "decoder 'none' is unknown"),
])
def test_options_that_do_not_suit(run: Run, folders: Callable[[str], Path], options: list[str],
                                  message: str) -> None:
    status, _, error = run("translate", TEXT, *(option.format(marian=folders("marian")) for option in options))
    assert status == 2 and error.startswith("error: ") and message in error and error.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--family", "teacher", "--model", "hf:folder"]])
def test_one_of_a_family_and_a_model(run: Run, options: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run("translate", TEXT, *options)
    assert exit_.value.code == 2 and b"--family" in capsysbinary.readouterr().err


def test_drafts_copied_from_the_source_need_one_vocabulary(run: Run, folders: Callable[[str], Path]) -> None:
    checkpoint = opened(folders("marian"), "marian")
    checkpoint.text.joint = False
    model = TextModel(checkpoint.network, checkpoint.text, checkpoint.longest, "none")
    with pytest.raises(PipelineError, match="decoder 'iad' copies from the source, which needs one vocabulary"):
        Translator(load_params(), model, "iad", device="cpu")


def test_a_checkpoint_is_scored_on_files_or_the_test_split(run: Run, folders: Callable[[str], Path],
                                                           tmp_path: Path) -> None:
    (tmp_path / "source").write_text(TEXT + "otter " * 500 + "\n")
    (tmp_path / "one").write_text("something\n\nelse\nlong\n")
    model, out = f"hf:{folders('marian')}", tmp_path / "figures.json"
    status, printed, error = run("test", "", "--model", model, "--decoder", "greedy", "--decoder", "pj", "--input",
                                str(tmp_path / "source"), "--reference", str(tmp_path / "one"), "--output", str(out))
    figures = json.loads(out.read_text())
    assert figures["sources_cut"] == 1 and "1 of 4 sources are cut to the model's " in error
    assert status == 0 and list(figures["decoders"]) == ["greedy", "pj"]
    assert f"{model} greedy: BLEU {figures['decoders']['greedy']['bleu']:.2f}" in printed
    assert figures["decoders"]["pj"]["identical_to_greedy"] == 1.0
    assert 0 < figures["decoders"]["pj"]["calls"] <= figures["decoders"]["greedy"]["calls"]
    status, printed, _ = run("test", "", "--model", model)
    assert status == 0 and printed.startswith(f"{model} greedy: BLEU ")
    assert not (layout.REPORTS / "quality").exists()  # which is of families


def test_a_checkpoint_is_timed_beside_its_own_library(run: Run, folders: Callable[[str], Path], tmp_path: Path,
                                                      change_params: Callable[[dict[str, Any]], None]) -> None:
    out = tmp_path / "speed.json"
    change_params({"speed": {"sentences": 2, "repetitions": 1, "warmup": 0}, "peers": {"theirs": {"library": "hf"}},
                   "decoders": {"pj": {"algorithm": "jacobi"}}})
    status, printed, error = run(
        "speed", "", "--model", f"hf:{folders('m2m_100')}", "--source-language", "en", "--target-language", "de",
        "--decoder", "greedy", "--decoder", "pj", "--peer", "theirs", "--output", str(out))
    assert status == 0, error
    rows = {row["name"]: row for row in json.loads(out.read_text())["decoders"]}
    assert list(rows) == ["greedy", "pj", "theirs"] and printed.count("\n") == 4
    assert rows["greedy"]["speedup"] == [1, 1, 1] and rows["theirs"]["calls"] is None
    assert rows["theirs"]["tokens_per_second"] > 0 and rows["pj"]["calls"] <= rows["greedy"]["calls"]


@pytest.mark.parametrize(("command", "message"), [
    (["test", "--model", "hf:{marian}", "--trainer.devices", "2"], "--trainer.devices: is not an option of test --"),
    (["test", "--model", "hf:{marian}", "--input", "x"], "--input, --reference: belong together"),
    (["test", "--family", "teacher", "--input", "x"], "--input: is of --model"),
    (["test", "--family", "teacher", "--device", "cpu"], "--device: is of --model; a family is tested on the"),
    (["test", "--model", "hf:{marian}", "--input", "data/corpus/test.source",
      "--reference", "data/corpus/train.target"],
     "--reference: data/corpus/train.target has 300 lines and data/corpus/test.source 24"),
    (["test", "--model", "hf:{marian}", "--output", "data"], "data: is a folder; name a file"),
    (["test", "--model", "hf:{marian}", "--output", "data/corpus/test.target"], "test.target: is also the input"),
    (["speed", "--model", "hf:{marian}", "--output", "data/corpus/test.source"], "test.source: is also the input"),
    (["test", "--model", "hf:{marian}", "--decoder", "none"], "decoder 'none' is unknown"),
    (["speed", "--decoder", "greedy"], "--decoder: is of --model"),
    (["speed", "--device", "cpu"], "--device: is of --model; without it, the families, decoders, peers and the "),
    (["speed", "--model", "hf:{marian}", "--peer", "none"], "--peer: 'none' is unknown"),
    (["speed", "--model", "hf:{marian}", "--peer", "ct2"], "--peer: 'ct2' is of ctranslate2"),
    (["speed", "--model", "hf:{marian}", "--input", "absent.txt"], "absent.txt: cannot be read"),
])
def test_options_that_do_not_suit_test_and_speed(run: Run, folders: Callable[[str], Path],
                                                 change_params: Callable[[dict[str, Any]], None], command: list[str],
                                                 message: str) -> None:
    change_params({"peers": {"ct2": {"library": "ctranslate2"}}})
    verb, *options = (part.format(marian=folders("marian")) for part in command)
    status, _, error = run(verb, "", *options)
    assert status == 2 and error.startswith("error: ") and message in error


def test_help_does_not_import_the_library() -> None:
    code = ("import sys\nfrom pipeline.cli import main\n"
            "try: main(['translate', '--help'])\nexcept SystemExit: print('transformers' in sys.modules)")
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--model FOLDER|hf:NAME" in printed and printed.endswith("False\n")
