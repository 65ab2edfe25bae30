"""pyproject.toml and constraints.txt: every library that is imported is named, pinned and wanted."""

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import install
from pipeline.cli import main
from pipeline.extras import EXTRAS

ROOT = Path(install.ROOT)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PINS = {canonicalize_name(name): version for name, version in re.findall(
    "^([^#=]+)==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)}
OTHER_NAMES = {"yaml": "pyyaml", "ruamel": "ruamel.yaml"}
"""Packages that are not called as what is imported from them."""


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(one.name) for one in requirements}


REQUIREMENTS = {extra: [one for one in map(Requirement, texts) if one.name != PROJECT["name"]] for extra, texts in
                [("", PROJECT["dependencies"]), *PROJECT["optional-dependencies"].items()]}
"""By extra; the empty one is what is always installed."""
NAMES = {extra: names(wanted) for extra, wanted in REQUIREMENTS.items()}


def imported() -> set[str]:
    """Top-level modules that `pipeline` imports anywhere, of other projects."""
    found = set()
    for path in (ROOT / "pipeline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).split(".")[0])
    return found - sys.stdlib_module_names - {"pipeline"}


def packages(modules: Iterable[str]) -> set[str]:
    """What to install for modules."""
    return {canonicalize_name(OTHER_NAMES.get(name, name)) for name in modules}


def test_what_is_imported_is_a_dependency() -> None:
    assert packages(imported()) <= set().union(*NAMES.values())


def test_the_extra_that_brings_a_library() -> None:
    """Is named to who lacks it, whichever that is."""
    assert all(packages([library]) <= NAMES[extra] for library, extra in EXTRAS.items())
    assert packages(EXTRAS) == packages(imported()) - NAMES[""]


def test_a_verb_without_its_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: object) -> None:
        importlib.import_module(missing)

    monkeypatch.setattr("pipeline.commands.report.run", run)
    for missing in ("matplotlib", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, missing, None)  # as if it were not there
        library = missing.split(".")[0]
        assert main(["report"]) == 2
        assert capsys.readouterr().err == (f"error: report: needs {library}, which is not installed; run "
                                           "pip install 'fast-nmt-decoding[pipeline]'\n")
    missing = "no_library_of_ours"
    with pytest.raises(ModuleNotFoundError):
        main(["report"])


def test_every_dependency_is_pinned() -> None:
    assert set().union(*NAMES.values()) <= set(PINS)


def test_every_pin_fits() -> None:
    assert all(one.specifier.contains(PINS[canonicalize_name(one.name)]) for one in chain(*REQUIREMENTS.values()))


def test_no_pin_is_unneeded() -> None:
    """As far as the packages that are installed here tell; of others only pip knows what they need."""
    seen: set[tuple[str, str]] = set()
    ahead = list(chain(*REQUIREMENTS.values()))
    while ahead:
        requirement = ahead.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {known for one, known in seen if one == name}:
            seen.add((name, extra))
            with suppress(metadata.PackageNotFoundError):
                needed = map(Requirement, metadata.requires(name) or [])
                ahead += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]
    here = {canonicalize_name(one.metadata["Name"]) for one in metadata.distributions()}
    assert here.intersection(PINS) <= {name for name, _ in seen}


def test_the_python_versions_are_said_alike() -> None:
    (oldest, newest), limits = (install.OLDEST, install.NEWEST), SpecifierSet(PROJECT["requires-python"])
    assert [minor for minor in range(30) if limits.contains(f"3.{minor}")] == list(range(oldest[1], newest[1] + 1))
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest[0]}{oldest[1]}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == f"{oldest[0]}.{oldest[1]}"


def test_no_address_of_an_index_is_written() -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "install.py", ".ci/run", ".ci/stock"):
        assert not re.search(r"https?://|file://", (ROOT / name).read_text(encoding="utf-8")), name
