"""A file without read permission ends in one line that names it and the remedy, whichever library reads it."""

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cli import main

_CAPABILITIES_VERSION_3 = 0x20080522
_READ_ANYTHING = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@pytest.fixture
def permissions_bind() -> Iterator[None]:
    """Let permission bits bind this thread also if it is root's, by Linux's capabilities."""
    if os.geteuid():
        yield
        return
    system, header, capabilities = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3), (
        ctypes.c_uint32 * 6)()  # the first word: effective capabilities 0 to 31
    assert system.capget(header, capabilities) == 0
    before = capabilities[0]
    capabilities[0] = before & ~_READ_ANYTHING
    assert system.capset(header, capabilities) == 0
    try:
        yield
    finally:
        capabilities[0] = before
        assert system.capset(header, capabilities) == 0


TRANSLATE = "translate --family teacher --device cpu --input in.txt"


@pytest.mark.parametrize(("file", "command"), [
    ("params.yaml", "facts"), ("presets/mine.yaml", "repro --profile mine"), ("data/corpus/train.source", "bpe"),
    ("data/bpe/meta.json", TRANSLATE), ("data/bpe/joint.model", TRANSLATE), ("in.txt", TRANSLATE),
    ("checkpoints/teacher/config.json", TRANSLATE), ("checkpoints/teacher/weights.safetensors", TRANSLATE),
    ("checkpoints/teacher", TRANSLATE), ("data/bpe/train.pairs", "fit --family teacher"),
    ("data/corpus/validation.target", "fit --family teacher"),
    ("data/corpus/test.target", "report"), ("pairs.tsv", "score --family teacher --device cpu --input pairs.tsv")])
def test_a_file_without_read_permission_is_one_line(workspace: Path, permissions_bind: None, file: str, command: str,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    Path("presets").mkdir()
    for name in ("presets/mine.yaml", "in.txt", "pairs.tsv"):
        Path(name).write_text("seed: 2\n")
    Path(file).chmod(0)
    try:
        assert main(command.split()) == 2
    finally:
        Path(file).chmod(0o700)
    told = capsys.readouterr().err
    assert re.search(rf"^error: {file}\b.*: Permission denied; .*permission.*\n\Z", told, re.MULTILINE), told
