"""Installing: what stands in the way is reported in one line before anything is installed, and the next try goes on."""

import ast
import os
import shutil
import subprocess
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

import install
from install import Environment, Refusal, check_machine, check_space, explain

HERE = ((3, 11, 7), "CPython", "Linux", "x86_64", ("glibc", "2.28"))


class Prepared(Environment):
    """An environment without Python; what would be done to it is noted."""

    def __init__(self, folder: Path, fails: str = "") -> None:
        super().__init__(str(folder))
        self.done: list[str] = []
        self.asked: tuple[str, ...] = ()
        self.fails = fails
        self.version = "{}.{}".format(*install.sys.version_info)

    def make(self) -> None:
        self.done.append("make")
        assert set(os.listdir(self.folder)) <= {".installed"}
        Path(self.folder, "pyvenv.cfg").touch()
        Path(self.python).parent.mkdir(exist_ok=True)
        Path(self.python).touch(mode=0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess(arguments, 0, self.version, "")

    def pip_install(self, *arguments: str) -> subprocess.CompletedProcess:
        self.asked = arguments
        self.done.append(next(one for one in arguments if one.startswith(".[")))
        if self.fails == "killed":
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(arguments, bool(self.fails), "", self.fails)


@pytest.fixture(autouse=True)
def much_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=50e9))


@pytest.fixture
def environment(tmp_path: Path) -> Prepared:
    """One in which `pipeline` is installed."""
    prepared = Prepared(tmp_path / ".venv")
    install.install(prepared, {"pipeline"}, "")
    assert prepared.done == ["make", ".[pipeline]"]
    assert prepared.asked == ("--no-compile", "-c", "constraints.txt", "-e", ".[pipeline]")
    prepared.done.clear()
    return prepared


@pytest.mark.parametrize("changed, message", [
    ({0: (3, 10, 13)}, r"CPython 3\.10 is not supported, CPython 3\.11 to 3\.13 is; .* make PYTHON=python3\.13"),
    ({0: (3, 14, 0)}, r"CPython 3\.14 is not supported"),
    ({1: "PyPy"}, r"PyPy 3\.11 is not supported"),
    ({2: "Windows"}, r"Windows is not supported; install WSL"),
    ({2: "Darwin"}, r"Darwin on x86_64 is not supported"),
    ({3: "ppc64le"}, r"Linux on ppc64le is not supported"),
    ({4: ("glibc", "2.17")}, r"the C library is glibc 2\.17, PyTorch needs glibc 2\.28"),
    ({4: ("", "")}, r"the C library is unknown, PyTorch needs glibc"),
])
def test_what_cannot_work_is_refused_in_a_line(changed: dict[int, object], message: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        check_machine(*(changed.get(place, value) for place, value in enumerate(HERE)))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("changed", [{}, {0: (3, 13, 0)}, {3: "aarch64"}, {2: "Darwin", 3: "arm64", 4: ("", "")}])
def test_what_may_work_is_tried(changed: dict[int, object]) -> None:
    check_machine(*(changed.get(place, value) for place, value in enumerate(HERE)))  # type: ignore[arg-type]


def test_an_old_python_can_read_the_refusal() -> None:
    ast.parse(Path(install.__file__).read_text(encoding="utf-8"), feature_version=(3, 6))


def test_space_is_checked_before_anything_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1.5e9))
    with pytest.raises(Refusal, match=r"needs \d\.\d GB, 1\.5 GB are free; free some$"):
        check_space(str(tmp_path), "cpu")
    with pytest.raises(Refusal, match=r"or take PyTorch's CPU build.* \(make TORCH=cpu \.\.\.\)$"):
        check_space(str(tmp_path), "cuda")
    prepared = Prepared(tmp_path / ".venv")
    for _ in range(2):
        with pytest.raises(Refusal, match="are free"):
            install.install(prepared, {"pipeline"}, "")
    assert prepared.done == [] and capsys.readouterr().out == ""


@pytest.mark.parametrize("report, fits", [('{"requires_dist": ["nvidia-nccl-cu13"]}', False), ("{}", True)])
def test_where_space_is_scarce_pip_is_asked_for_its_build(report: str, fits: bool, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip that knows a CPU build takes it; there is no need to refuse what fits."""
    class Asked(Prepared):
        def pip_install(self, *arguments: str) -> subprocess.CompletedProcess:
            if "--dry-run" in arguments:
                return subprocess.CompletedProcess(arguments, 0, report, "")
            return super().pip_install(*arguments)

    monkeypatch.setattr(install.platform, "system", lambda: "Linux")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5e9))
    prepared = Asked(tmp_path / ".venv")
    if fits:
        install.install(prepared, {"pipeline"}, "")
    else:
        for _ in range(2):  # what the first try has made does not spare the second one the check
            with pytest.raises(Refusal, match="are free"):
                install.install(prepared, {"pipeline"}, "")
    assert prepared.done == (["make", ".[pipeline]"] if fits else ["make", "make"])


@pytest.mark.parametrize("variables, system, cache", [
    ({"PIP_CACHE_DIR": "/named", "XDG_CACHE_HOME": "/cache"}, "Linux", "/named"),
    ({"PIP_CACHE_DIR": "~/named"}, "Darwin", "/home/one/named"),
    ({"PIP_CACHE_DIR": "named"}, "Linux", f"{install.ROOT}/named"),
    ({"PIP_CACHE_DIR": "", "XDG_CACHE_HOME": "/cache"}, "Linux", "/cache/pip"),
    ({"XDG_CACHE_HOME": ""}, "Linux", "/home/one/.cache/pip"),
    ({}, "Darwin", "/home/one/Library/Caches/pip"),
])
def test_the_cache_is_where_pip_has_it(variables: dict[str, str], system: str, cache: str,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/one", **variables}.items():
        monkeypatch.setenv(name, value)
    assert install.pip_cache(system) == cache


@pytest.mark.parametrize("variable", ["HOME", "PIP_CACHE_DIR"])
def test_an_absent_cache_needs_space_where_it_would_be_made(variable: str, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    there, asked, stat = tmp_path / "there", list[str](), os.stat

    def note(path: str, **named: bool) -> os.stat_result:
        asked.append(path)
        return stat(path, **named)

    there.mkdir()
    for name in ("PIP_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(there / "absent" / "too"))
    monkeypatch.setattr(os, "stat", note)
    check_space(str(tmp_path), "cpu")
    assert str(there) in asked


@pytest.mark.parametrize("printed, torch, message", [
    ("WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(...)'\n"
     "ERROR: Could not find a version that satisfies the requirement numpy (from versions: none)", "",
     r"the package index cannot be reached; check .* run the same command again"),
    ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "", "the disk is full"),
    ("ERROR: Cannot install torch==2+cpu because these package versions have conflicting dependencies.\n"
     "ERROR: ResolutionImpossible: for help visit ...", "torch==2+cpu", r"make TORCH=cpu PIP_EXTRA_INDEX_URL="),
    ("ERROR: one\nERROR: another\n\n", "", r"\(another\)"),
    ("", "", "it gives no reason"),
])
def test_what_pip_says_becomes_a_line(printed: str, torch: str, message: str) -> None:
    line = explain(printed, torch)
    assert install.re.search(message, line) and "\n" not in line


def test_nothing_is_done_where_all_is_there(environment: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "run", lambda *_: pytest.fail("not even Python is started"))
    install.install(environment, {"pipeline"}, "")
    assert environment.done == []


def test_an_environment_whose_python_is_gone_is_made_anew(environment: Prepared) -> None:
    Path(environment.python).unlink()
    environment.version = ""
    install.install(environment, {"pipeline"}, "")
    assert environment.done == ["make", ".[pipeline]"]


def test_an_unknown_extra_is_refused() -> None:
    """pip only warns of it."""
    assert install.known_extras("pipeline, peers") == {"pipeline", "peers"}
    for names in ("serv", "pipeline,", ""):
        with pytest.raises(Refusal, match=r"is no extra of pyproject\.toml; it has pipeline, peers"):
            install.known_extras(names)


def test_extras_and_the_choice_of_torch_last(environment: Prepared) -> None:
    install.install(environment, {"development"}, "cpu")
    install.install(environment, {"pipeline"}, "")
    assert environment.done == [".[development,pipeline]"]
    assert environment.asked[-2] == ".[development,pipeline]" and environment.asked[-1].endswith("+cpu")
    assert environment.notes()["torch"] == "cpu"


def test_what_the_makefile_asks_for_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = list[tuple[str, set[str], str]]()
    shutil.copy(Path(install.ROOT, "pyproject.toml"), tmp_path)
    monkeypatch.setattr(install, "check_machine", lambda *_: None)
    monkeypatch.setattr(install, "ROOT", str(tmp_path))
    monkeypatch.setattr(install, "install", lambda environment, extras, torch: asked.append(
        (environment.folder, extras, torch)))
    for options in (["pipeline,peers", "--torch=cpu"], ["development", "--torch="]):
        monkeypatch.setattr(install.sys, "argv", ["install.py", *options])
        install.main()
    folder = str(tmp_path / ".venv")
    assert asked == [(folder, {"pipeline", "peers"}, "cpu"), (folder, {"development"}, "")]


@pytest.mark.parametrize("file", ["constraints.txt", "pyproject.toml"])
def test_other_versions_are_installed(file: str, environment: Prepared, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(Path(install.ROOT, name), tmp_path)
    with open(tmp_path / file, "a", encoding="utf-8") as changed:
        changed.write("# changed\n")
    monkeypatch.setattr(install, "ROOT", str(tmp_path))
    install.install(environment, {"pipeline"}, "")
    assert environment.done == [".[pipeline]"]


def test_a_killed_installation_is_begun_anew(environment: Prepared) -> None:
    environment.fails = "killed"
    with pytest.raises(KeyboardInterrupt):
        install.install(environment, {"development"}, "cpu")
    environment.fails, environment.done = "", []
    install.install(environment, {"pipeline"}, "")
    assert environment.done == ["make", ".[development,pipeline]"] and environment.notes()["torch"] == "cpu"


@pytest.mark.parametrize("fails, anew", [("ERROR: no such package", False),
                                         ("ERROR: [Errno 28] No space left on device", True)])
def test_a_failed_installation_is_tried_again(environment: Prepared, fails: str, anew: bool) -> None:
    """What works already goes on working, unless pip may have broken it."""
    before, environment.fails = environment.notes(), fails
    for _ in range(2):
        with pytest.raises(Refusal):
            install.install(environment, {"development"}, "")
    assert environment.done == [".[development,pipeline]", *["make"] * anew, ".[development,pipeline]"]
    assert anew or environment.notes() == before
    environment.fails, environment.done = "", []
    install.install(environment, {"pipeline"}, "")
    assert environment.done == (["make", ".[development,pipeline]"] if anew else [])


@pytest.mark.parametrize("change, reason", [
    ("moved", "it was moved from"), ("python", "its Python is 3.9, not"),
    ("broken", "its Python or its pip does not run"),
])
def test_what_cannot_be_gone_on_with_is_made_anew(change: str, reason: str, environment: Prepared,
                                                  tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if change == "moved":
        shutil.move(environment.folder, tmp_path / "moved")
        environment = Prepared(tmp_path / "moved")
    else:
        environment.version = {"python": "3.9", "broken": ""}[change]
    install.install(environment, {"development"}, "")
    assert environment.done == ["make", ".[development,pipeline]"]
    assert f".venv is made anew: {reason}" in capsys.readouterr().out


@pytest.mark.parametrize("version, reason", [("3.9", "its Python is 3.9, not"),
                                             ("", "its Python or its pip does not run")])
def test_an_environment_of_the_users_own_is_not_made_anew(version: str, reason: str, tmp_path: Path) -> None:
    """As `uv venv` makes them, without pip, or by another Python."""
    packages = tmp_path / ".venv" / "lib" / "packages"
    packages.mkdir(parents=True)
    prepared = Prepared(tmp_path / ".venv")
    prepared.version = version
    message = f"^{prepared.folder}: was not made by .*: {reason}.*; remove it or move it away"
    for _ in range(2):
        with pytest.raises(Refusal, match=message):
            install.install(prepared, {"pipeline"}, "")
    assert prepared.done == [] and packages.is_dir() and os.listdir(prepared.folder) == ["lib"]


@pytest.mark.parametrize("error", [Refusal, KeyboardInterrupt])
def test_an_environment_that_could_not_be_made_is_not_the_users_own(error: type, tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = Prepared(tmp_path / ".venv")

    def fail() -> None:
        Prepared.make(prepared)
        raise error

    prepared.version = ""  # the makings end before there is a pip
    with monkeypatch.context() as patch:
        patch.setattr(prepared, "make", fail)
        for _ in range(2):
            with pytest.raises(error):
                install.install(prepared, {"pipeline"}, "")
    install.install(prepared, {"development"}, "")
    assert prepared.done == ["make"] * 3 + [".[development,pipeline]"]


def test_what_cannot_be_removed_is_named(environment: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: str, **named: int) -> None:
        raise PermissionError(13, "Permission denied", path)

    for name in ("a", "z"):  # whatever the order of the names, the notes stay
        Path(environment.folder, name).mkdir()
        Path(environment.folder, name, "of_root").touch()
    environment.version = ""
    message = rf"^{environment.folder}: cannot be removed \(.*of_root: Permission denied\); remove it with"
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        for _ in range(2):
            with pytest.raises(Refusal, match=message):
                install.install(environment, {"development"}, "")
    install.install(environment, {"development"}, "")
    assert environment.done == ["make", ".[development,pipeline]"]


def test_a_file_in_place_of_the_environment_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".venv").write_text("kept")
    prepared = Prepared(tmp_path / ".venv")
    with pytest.raises(Refusal, match=f"^{prepared.folder}: is not a folder; remove it or move it away"):
        install.install(prepared, {"pipeline"}, "")
    assert prepared.done == [] and (tmp_path / ".venv").read_text() == "kept"


@pytest.mark.parametrize("error, line", [
    (PermissionError(13, "Permission denied", "/one/file"), "error: /one/file: Permission denied; fix that and run"),
    (OSError("a reason alone"), "error: a reason alone; fix that and run"),
])
def test_an_error_of_the_system_becomes_a_line(error: OSError, line: str, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    shutil.copy(Path(install.ROOT, "pyproject.toml"), tmp_path)
    monkeypatch.setattr(install, "ROOT", str(tmp_path))
    monkeypatch.setattr(install, "check_machine", lambda *_: None)
    monkeypatch.setattr(install, "install", fail)
    monkeypatch.setattr(install.sys, "argv", ["install.py", "pipeline"])
    with pytest.raises(SystemExit, match=f"^{line}") as ended:
        install.main()
    assert "\n" not in str(ended.value)


def test_an_environment_of_the_users_own_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()  # as it was before it held notes
    prepared = Prepared(tmp_path / ".venv")
    for prepared.fails, error in (("ERROR: Connection", Refusal), ("killed", KeyboardInterrupt)):
        with pytest.raises(error):
            install.install(prepared, {"pipeline"}, "")
    prepared.fails = ""
    install.install(prepared, {"pipeline"}, "")
    assert prepared.done == [".[pipeline]"] * 3
    assert prepared.notes()["extras"] == ["pipeline"]


@pytest.mark.parametrize("change, reason", [
    ("moved", "it was moved from .*"), ("python", "its Python is 3.9, not .*"),
    ("broken", "its Python or its pip does not run"), ("killed", ""), ("full", ""),
])
def test_an_environment_of_the_users_own_stays_so_after_an_installation(change: str, reason: str,
                                                                        tmp_path: Path) -> None:
    """Notes on what is installed there do not tell that it was made here."""
    prepared = Prepared(tmp_path / ".venv")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/own").write_text("kept")
    install.install(prepared, {"pipeline"}, "")
    if change == "moved":
        shutil.move(prepared.folder, tmp_path / "moved")
        prepared = Prepared(tmp_path / "moved")
    prepared.version = {"python": "3.9", "broken": ""}.get(change, prepared.version)
    prepared.done, prepared.fails = [], {"killed": "killed", "full": "No space left on device"}.get(change, "")
    if reason:
        with pytest.raises(Refusal, match=f"^{prepared.folder}: was not made by .* cannot be used: {reason}; remove"):
            install.install(prepared, {"development"}, "")
        assert prepared.done == []
    else:
        with pytest.raises((Refusal, KeyboardInterrupt)):
            install.install(prepared, {"development"}, "")
        prepared.fails = ""
        install.install(prepared, {"development"}, "")
        assert prepared.done == [".[development,pipeline]"] * 2
    assert Path(prepared.folder, "own").read_text() == "kept"


def test_a_second_installation_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, told, waiting = list[str](), list[str](), Event()

    def say(text: str, flush: bool) -> None:
        told.append(text)
        waiting.set()

    monkeypatch.setattr(install, "print", say, raising=False)

    def second() -> None:
        with install.alone(str(tmp_path)):
            done.append("second")

    thread = Thread(target=second)
    with install.alone(str(tmp_path)):
        thread.start()
        assert waiting.wait(60)
        done.append("first")
    thread.join()
    assert done == ["first", "second"] and told == ["waiting for another installation into .venv"]
    with pytest.raises(Refusal, match=r"\.install\.lock: cannot be locked: No such file"), \
            install.alone(str(tmp_path / "absent")):
        pass
