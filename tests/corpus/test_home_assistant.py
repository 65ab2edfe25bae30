"""The default corpus, from a tiny wheel of the same shape, through the real pip without network."""

import hashlib
import json
import socket
import subprocess
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.layout import SPLITS
from pipeline.sources.build import build_corpus, read_splits
from pipeline.sources.monolingual import read_monolingual
from pipeline.sources.readers import home_assistant
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.wheel import download_wheel

NAME = "homeassistant-1.2-py3-none-any.whl"
# Neither the Python nor the dependency exist: reading text must not ask for them.
METADATA = ("Metadata-Version: 2.1\nName: homeassistant\nVersion: 1.2\n"
            "Requires-Python: >=99\nRequires-Dist: nonsuch-q\n")


def write_wheel(folder: Path, translations: dict[str, Any]) -> Path:
    wheel = folder / NAME
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("homeassistant-1.2.dist-info/METADATA", METADATA)
        archive.writestr("homeassistant-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("homeassistant-1.2.dist-info/RECORD", "")
        for member, strings in translations.items():
            archive.writestr(f"homeassistant/components/{member}.json", json.dumps(strings))
    return wheel


def integrations(count: int) -> dict[str, Any]:
    translations = {}
    for index in range(count):
        for language, word in (("en", "kettle"), ("de", "Kessel")):
            translations[f"maker{index}/translations/{language}"] = {"title": f"{word} {index}"}
    return translations


def settings_for(wheel: Path, **changed: str) -> CorpusSettings:
    block = {"version": "1.2", "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    return build(CorpusSettings, {"source": "home-assistant", "home_assistant": block, **changed}, "corpus")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip see one folder and nothing else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def test_strings_are_aligned_by_key(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {
        "kettle/translations/en": {"title": "Kettle", "step": {"user": {"text": "Fill it\nup"}}, "more": ""},
        "kettle/translations/de": {"step": {"user": {"text": "Jetzt füllen"}}, "title": "Kessel", "size": 3},
        "lamp/translations/en": {"title": "A lamp without German"},
        "lamp/strings": {"title": "not a translation"},
        "lamp/translations/extra/de": {"title": "too deep"},
        "dots/translations/en": {"a.b": "dotted key", "a": {"b": "nested key"}},
        "dots/translations/de": {"a": {"b": "verschachtelt"}, "a.b": "mit Punkt"},
    })
    assert home_assistant.read_wheel(wheel, "en", "de") == {
        "kettle": [("Kettle", "Kessel"), ("Fill it\nup", "Jetzt füllen")],
        "dots": [("dotted key", "mit Punkt"), ("nested key", "verschachtelt")],
    }


def test_sources_without_translations_belong_to_no_evaluation(no_pip: Path, tmp_path: Path) -> None:
    """Neither what is a source of any split, nor what belongs to an integration whose strings are evaluated."""
    translations = integrations(40)
    for index in range(40):
        translations[f"maker{index}/translations/en"] |= {"more": f"Boil it {index} times", "less": "Boil it once more"}
    translations["lamp/translations/en"] = {"title": "A lamp without German", "short": "Two words", "known": "kettle"}
    wheel = write_wheel(no_pip, translations)
    settings = build(CorpusSettings, {
        "source": "home-assistant", "filters": {"min_words": 2},
        "home_assistant": {"version": "1.2", "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
                           "validation_share": 0.2, "test_share": 0.2}}, "corpus")
    build_corpus(settings, tmp_path / "text", tmp_path / "text.json")
    trained = [line.split()[1] for line in (tmp_path / "text/train.source").read_text().splitlines()]
    found = list(read_monolingual(settings, tmp_path / "text"))
    assert sorted(found) == sorted(["A lamp without German", "Two words", "Boil it once more",
                                    *(f"Boil it {number} times" for number in trained)]) and len(trained) == 24


def test_splits_are_by_integration_and_by_share(no_pip: Path) -> None:
    wheel = write_wheel(no_pip, integrations(100))
    splits = {split: list(pairs) for split, pairs in read_splits(settings_for(wheel)).items()}
    assert [len(splits[split]) for split in SPLITS] == [92, 4, 4]
    assert len({pair for pairs in splits.values() for pair in pairs}) == 100


def test_pip_fetches_the_wheel_whatever_it_requires(offline: Path) -> None:
    wheel = write_wheel(offline, integrations(5))
    splits = read_splits(settings_for(wheel))
    assert sorted(len(list(splits[split])) for split in SPLITS) == [1, 1, 3]


def test_a_failed_download_is_one_line(offline: Path) -> None:
    expected = r"could not download homeassistant==7\.7 .*PIP_FIND_LINKS"
    with pytest.raises(PipelineError, match=expected) as caught:
        download_wheel("homeassistant", "7.7", offline / "out")
    assert "\n" not in str(caught.value)


def test_an_index_that_cannot_be_reached_is_named_as_the_reason(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "PIP_NO_INDEX", "PIP_FIND_LINKS":
        monkeypatch.delenv(name)
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")
        with pytest.raises(PipelineError, match=r"\(Failed to establish a new connection: .*refused\); check the "
                                                r"network, PIP_INDEX_URL .*put the wheel .*PIP_FIND_LINKS"):
            download_wheel("homeassistant", "7.7", offline / "out")


def test_the_user_waits_for_few_retries_unless_he_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def pip(command: list[str], env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.append(env["PIP_RETRIES"])
        return subprocess.CompletedProcess(command, 1, "", "ERROR: [Errno 28] No space left on device\n")

    monkeypatch.setattr(subprocess, "run", pip)
    for asked in None, "7":
        if asked:
            monkeypatch.setenv("PIP_RETRIES", asked)
        with pytest.raises(PipelineError, match=r"\(ERROR: \[Errno 28\] No space left on device\); .*free space"):
            download_wheel("homeassistant", "7.7", tmp_path)
    assert seen == ["2", "7"]


def test_no_room_for_a_temporary_folder_is_one_line(no_pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    settings = settings_for(write_wheel(no_pip, integrations(5)))
    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(PipelineError, match=r"no folder to download homeassistant to .*free some space or set TMPDIR"):
        read_splits(settings)


MEMBER = "homeassistant/components/maker0/translations/en.json"


def spoil_member(wheel: Path) -> None:
    """Another byte in a member, which its checksum no longer fits."""
    content = wheel.read_bytes()
    wheel.write_bytes(content.replace(b"kettle 0", b"kettle 9"))


def add_member(content: bytes) -> Callable[[Path], None]:
    def add(wheel: Path) -> None:
        with zipfile.ZipFile(wheel, "a") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the member is there twice; the last one counts
            archive.writestr(MEMBER, content)
    return add


def name_in_no_encoding(wheel: Path) -> None:
    """A member's name that is marked as UTF-8 and is none."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("n\u00fc", "")
    wheel.write_bytes(wheel.read_bytes().replace("n\u00fc".encode(), b"n\xff\xfe"))


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda wheel: wheel.write_bytes(b"no archive"), "not a wheel"),
    (lambda wheel: wheel.write_bytes(wheel.read_bytes()[:-30]), "not a wheel"),
    (name_in_no_encoding, "not a wheel"),
    (spoil_member, f"{MEMBER} cannot be read .*CRC"),
    (add_member(b'{"title": "caf\xe9"}'), f"{MEMBER} cannot be read .*utf-8"),
    (add_member(b'{"title": "kettle'), f"{MEMBER} cannot be read .*Unterminated"),
    (add_member(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), f"{MEMBER} cannot be read .*recursion"),
])
def test_a_wheel_of_the_right_hash_that_is_damaged_is_named(no_pip: Path, spoil: Callable[[Path], None],
                                                            message: str) -> None:
    wheel = write_wheel(no_pip, integrations(5))
    spoil(wheel)
    with pytest.raises(PipelineError, match=rf"^homeassistant-1\.2\S*\.whl: {message}.*version and sha256") as caught:
        read_splits(settings_for(wheel))
    assert "\n" not in str(caught.value)


def test_another_wheel_is_refused_with_both_hashes(no_pip: Path) -> None:
    wheel = write_wheel(no_pip, integrations(5))
    settings = settings_for(wheel)
    assert settings.home_assistant is not None
    write_wheel(no_pip, integrations(6))
    actual = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with pytest.raises(PipelineError, match=f"sha256 is {actual} but .*{settings.block.sha256}"):
        read_splits(settings)


def test_an_absent_language_lists_those_present(no_pip: Path) -> None:
    wheel = write_wheel(no_pip, integrations(5))
    with pytest.raises(PipelineError, match="no language 'tlh'; choose one of de, en"):
        read_splits(settings_for(wheel, target_language="tlh"))


def test_too_few_integrations_cannot_be_split(no_pip: Path) -> None:
    with pytest.raises(PipelineError, match="2 file"):
        read_splits(settings_for(write_wheel(no_pip, integrations(2))))
