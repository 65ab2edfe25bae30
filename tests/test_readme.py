"""README and docs say what is so: figures, commands, links, paths, and the examples that they show."""

import argparse
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from orders import EVERY_ORDER
from scripted import Scripted, logits, random_script

import pipeline.decoding
from docs import generate, reports
from install import DOWNLOADED, INSTALLED, NEWEST, OLDEST
from pipeline.commands import COMMANDS
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.params import load_params, parse_params, read_yaml
from pipeline.systems import lay_over
from pipeline.vocabulary import EOS, PAD

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)

_CODE = re.compile(r"^```.*?^```|(?:^    [^\n]*\n)+", re.DOTALL | re.MULTILINE)
_LIGHTNING = re.compile(r"--((trainer|data|model|optimisation)\.|(config|print_config|ckpt_path)$)")


def blocks(language: str) -> list[str]:
    """The README's fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


def words_of(page: Path) -> list[list[str]]:
    """The commands of a page, in blocks and in the text: each a list of words, without redirections."""
    text = page.read_text()
    found = [line for block in _CODE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    found += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", _CODE.sub("", text))
              if span.startswith(("make ", "python -m "))]
    commands = []
    for line in found:
        if re.search(r"(^|\s)(make|-m pipeline|-m benchmarks\.\w+|-m docs\.\w+)\b", line) and "…" not in line:
            for command in re.split(r" \| | && ", line):
                commands.append(shlex.split(command.split(" < ")[0], comments=True))
    return commands


def parser_of(verb: str) -> tuple[argparse.ArgumentParser, bool]:
    """The parser of a verb, and whether it passes on unknown options."""
    module = importlib.import_module(f"pipeline.commands.{verb}")
    parser = argparse.ArgumentParser()
    getattr(module, "add_arguments", lambda _: None)(parser)
    return parser, getattr(module, "PASSES_ON", False)


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_generated_tables_are_those_of_the_reports_and_shown_once() -> None:
    for page, text in generate.pages().items():
        assert page.read_text() == text, "python -m docs.generate"
    marks = re.findall(r"<!-- generated: (\w+) -->", "".join(page.read_text() for page in PAGES))
    assert sorted(marks) == sorted(generate.BLOCKS)


def test_a_report_names_machine_date_and_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = {"identity": "0123456789abcdef", "processor": "EPYC", "cores": 2, "memory_gib": 8, "accelerators": [],
               "system": "Linux", "python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"}
    report: dict[str, Any] = {"machine": machine, "made": {"date": "2026-11-23", "commit": "abc1234"}}
    monkeypatch.setattr(reports, "read", lambda _: report)
    assert reports.measured("any") == (
        "Measured on 2026-11-23 by commit `abc1234`: EPYC, 2 cores, 8 GiB, no accelerator, Linux, Python 3.11.7, "
        "PyTorch 2.13.0, machine `0123456789abcdef`.")
    report["machine"] = {**machine, "accelerators": ["H100"]}
    assert "8 GiB, H100, Linux" in reports.measured("any")
    del report["made"]
    with pytest.raises(KeyError):
        reports.measured("of a run that nobody knows")


@every_page
def test_every_command_has_the_verbs_options_and_names_that_are_shown(page: Path,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    params = load_params(ROOT / "params.yaml")
    presets = {path.stem for path in (ROOT / "presets").glob("*.yaml")} | {"mine", "NAME"}
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    stages = read_yaml(ROOT / "dvc.yaml")["stages"].keys()
    for command in words_of(page):
        if "make" in command[:1]:
            settings = dict(word.split("=") for word in command[1:] if "=" in word)
            assert {word for word in command[1:] if "=" not in word} <= set(targets), command
            assert settings.keys() <= {"PROFILE", "TORCH", "PYTHON"} and settings.get("PROFILE", "mine") in presets
        elif "-m" in command and (module := command[command.index("-m") + 1]) != "pipeline":
            if module.split(".")[0] in ("benchmarks", "docs"):
                path = ROOT / module.replace(".", "/")
                assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), command
        elif "-m" in command:
            verb, *options = command[command.index("-m") + 2:]
            assert verb in COMMANDS, command
            parser, passes_on = parser_of(verb)
            try:
                arguments, rest = parser.parse_known_args(options)
            except SystemExit:
                pytest.fail(f"{shlex.join(command)}: {capsys.readouterr().err}")
            known = {*rest} <= stages if verb == "repro" else passes_on and all(map(_LIGHTNING.match, rest[::2]))
            assert not rest or known, command
            family = getattr(arguments, "family", None)
            assert {*(family if isinstance(family, list) else [family])} <= {None, *params.systems}, command
            named = getattr(arguments, "decoder", None) or []
            assert {*([named] if isinstance(named, str) else named)} <= params.decoders.keys(), command


@every_page
def test_every_parameter_that_an_experiment_sets_is_there(page: Path) -> None:
    for keys in re.findall(r"dvc exp run -S ([\w.]+)=", page.read_text()):
        value: Any = read_yaml(ROOT / "params.yaml")
        for key in keys.split("."):
            value = value[key]


@every_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert "://" in link or target.exists(), link
        assert not anchor or anchor in headings(target), link


@every_page
def test_every_path_that_is_named_exists(page: Path) -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    for path in re.findall(r"`((?:pipeline|reports|benchmarks|presets|docs|tests)/[\w./-]*)`", page.read_text()):
        assert path.endswith("NAME") or (ROOT / path).exists() or f"/{path}/" in ignored, path


@every_page
def test_every_commit_that_is_named_exists(page: Path) -> None:
    def git(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the history")
    for commit in re.findall(r"`([0-9a-f]{7,12})`", page.read_text()):
        assert git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0, commit


def test_the_readme_is_read_in_ten_minutes_and_leads_to_every_page() -> None:
    text = README.read_text()
    assert 8_000 <= len(text.encode()) <= 10_240
    assert {path.name for path in PAGES[1:]} <= set(re.findall(r"\]\(docs/([^)#]+)", text))


def test_disk_and_platforms_are_said_before_the_first_command() -> None:
    before = README.read_text().partition("    make repro")[0]
    sizes = [f"{size:g} GB" for size in (*INSTALLED.values(), *DOWNLOADED.values())]
    versions = [f"{major}.{minor}" for major, minor in (OLDEST, NEWEST)]
    for fact in ("minutes", "Linux on x86-64", "Windows", *sizes, *versions):
        assert fact in before


@pytest.fixture()
def decoder_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The README's decoder as a file of the package."""
    [code] = blocks("python")
    folder, name = re.match(r"# (.*)/(\w+)\.py\n", code).groups()  # type: ignore[union-attr]
    assert folder == "pipeline/decoding"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setattr(pipeline.decoding, "__path__", [*pipeline.decoding.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield importlib.import_module(f"pipeline.decoding.{name}")
    del sys.modules[f"pipeline.decoding.{name}"]
    delattr(pipeline.decoding, name)


A, B = 7, 8
SOURCE = torch.tensor([[A, B, EOS], [A, EOS, PAD]])
LIMIT = LengthLimit(1.0, 3)


def test_the_readmes_decoder_is_found_by_its_entry_and_searches(decoder_of_the_readme: ModuleType) -> None:
    """Its model would say A forever and the end of the sentence only after B; with the penalty, B is the better one."""
    [entries] = [yaml.safe_load(block)["decoders"] for block in blocks("yaml") if "decoders:" in block]
    [(name, entry)] = entries.items()

    def script(source: tuple[int, ...], prefix: tuple[int, ...]) -> torch.Tensor:
        return logits({EOS: 3.0} if prefix[-1:] == (B,) else {A: 1.0, B: 0.0})

    order = EVERY_ORDER["left_to_right"]
    found = make_decoder(name, entry, LIMIT)(Scripted(order, script), SOURCE)
    assert found.tokens[:, 0].tolist() == [[A, B], [A, B]] and found.lengths.tolist() == [[2], [2]]
    assert found.ended.all() and found.calls.tolist() == [3, 3]
    cut = make_decoder(name, {**entry, "penalty": 0.0}, LIMIT)(Scripted(order, script), SOURCE)
    assert set(cut.tokens[0, 0].tolist()) == {A} and not cut.ended.any()
    assert cut.calls.tolist() == LIMIT.steps(SOURCE, order).tolist()


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_the_readmes_decoder_does_not_depend_on_the_batch(order: str, decoder_of_the_readme: ModuleType) -> None:
    decode = make_decoder("no_repeat", {"algorithm": "no_repeat"}, LIMIT)
    model = Scripted(EVERY_ORDER[order], random_script(EVERY_ORDER[order], 3, 1, 12))
    together = decode(model, SOURCE)
    for row, source in enumerate(SOURCE):
        alone = decode(model, source[source != PAD].unsqueeze(0))
        length = int(alone.lengths)
        assert together.lengths[row].item() == length and together.calls[row] == alone.calls
        assert together.tokens[row, 0, :length].tolist() == alone.tokens[0, 0, :length].tolist()
        assert together.scores[row].item() == pytest.approx(alone.scores.item())


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.splitlines()[0])
def test_the_readmes_presets_are_valid(block: str, tmp_path: Path, decoder_of_the_readme: ModuleType) -> None:
    (tmp_path / "mine.yaml").write_text(block)
    params = parse_params(lay_over(read_yaml(ROOT / "params.yaml"), tmp_path / "mine.yaml"))
    assert list(params.systems) == yaml.safe_load(block)["systems"]
