"""Students train and are evaluated at the same time: in a good order, and DVC loses nothing by it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from baselines import STARTS, STUDENTS
from hypothesis import given
from hypothesis import strategies as st

from pipeline import guard, stages
from pipeline.blocks import merge
from pipeline.cli import main
from pipeline.dvc_index import PIPELINE, read_stages
from pipeline.errors import PipelineError
from pipeline.files import locked
from pipeline.params import load_params, parse_params
from pipeline.schedule import choose, length, simulate
from pipeline.stage_graph import find_stages
from pipeline.stages import ask_dvc, default_jobs, shares, with_followers
from pipeline.strict_yaml import read_yaml

ROOT = Path(__file__).parents[1]
TRAIN = """\
import os, pathlib, sys, time
family, start = sys.argv[1:]
out = pathlib.Path("checkpoints", family)
out.mkdir()
pathlib.Path(f"{family}.pid").write_text(str(os.getpid()))
print("training after", (out.parent / start / "weights").read_text(), flush=True)
for other in ["ar", "nat"] * (start == "teacher"):  # neither ends before both have begun
    while not pathlib.Path(f"{other}.pid").exists():
        time.sleep(0.01)
if pathlib.Path("broken").exists() and family == "ar":
    sys.exit("ar cannot be trained")
time.sleep(float(pathlib.Path("seconds").read_text()))
(out / "weights").write_text(family)
with open("log", "a") as log:
    log.write(f"{family}\\n")
"""


@st.composite
def plans(draw: st.DrawFn) -> tuple[dict[str, set[str]], dict[str, int], int]:
    """Trainings, each after some of those drawn before it, their steps, and how many run at once."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 9)))]
    after = {name: draw(st.sets(st.sampled_from(names[:place]), max_size=2)) if place else set()
             for place, name in enumerate(names)}
    shuffled = draw(st.permutations(names))
    return {name: after[name] for name in shuffled}, {name: draw(st.integers(1, 20)) for name in names}, draw(
        st.integers(1, 4))


@given(plans())
def test_each_trains_once_and_after_what_it_needs(plan: tuple[dict[str, set[str]], dict[str, int], int]) -> None:
    after, steps, jobs = plan
    turns = {turn.name: turn for turn in simulate(after, steps, jobs)}
    assert turns.keys() == after.keys()
    for name, turn in turns.items():
        assert turn.end == turn.begin + steps[name]
        assert all(turns[other].end <= turn.begin for other in after[name])


@given(plans())
def test_no_more_at_once_than_allowed_and_none_idle(plan: tuple[dict[str, set[str]], dict[str, int], int]) -> None:
    after, steps, jobs = plan
    turns = simulate(after, steps, jobs)
    ends = {turn.name: turn.end for turn in turns}
    for now in {turn.begin for turn in turns} | set(ends.values()):
        busy = sum(turn.begin <= now < turn.end for turn in turns)
        ready = [turn for turn in turns if turn.begin > now and all(ends[other] <= now for other in after[turn.name])]
        assert busy <= jobs and (busy == jobs or not ready)
    assert length(after, steps, 1) == sum(steps.values())


@given(plans())
def test_the_longest_chain_of_those_that_can_begin_is_first(
        plan: tuple[dict[str, set[str]], dict[str, int], int]) -> None:
    after, steps, _ = plan
    def chain(name: str) -> int:
        return steps[name] + max((chain(other) for other in after if name in after[other]), default=0)
    first = choose(list(after), [], after, steps)
    assert first is not None and not after[first]
    assert chain(first) == max(chain(name) for name in after if not after[name])


def test_as_many_at_once_as_have_cores_for_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    settings = read_yaml(ROOT / "params.yaml")
    for threads, expected in ((1, {1: 1, 2: 2, 5: 5, 64: 8}), (2, {1: 1, 5: 2, 64: 8}), (20, {64: 3})):
        params = parse_params(merge(settings, {"training": {"threads": threads}}))
        for cores, jobs in expected.items():
            monkeypatch.setattr(stages, "usable_cores", lambda cores=cores: cores)
            assert default_jobs(params) == jobs
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert default_jobs(params) == 3


def dvc_project(folder: Path, dvc_yaml: str) -> Path:
    """A DVC project without git that has no more than params.yaml and a pipeline."""
    shutil.copy(ROOT / "params.yaml", folder)
    (folder / ".dvc").mkdir()
    (folder / ".dvc/config").write_text("[core]\n    analytics = false\n    no_scm = true\n")
    (folder / "dvc.yaml").write_text(dvc_yaml)
    return folder


def test_a_hostile_name_executes_nothing(tmp_path: Path) -> None:
    """`dvc repro` of the real pipeline: DVC writes the name into commands, and the first stage refuses it."""
    name = "a'; touch executed; '\"; touch executed; $(touch executed) `touch executed`\n touch executed #"
    project = dvc_project(tmp_path, (ROOT / "dvc.yaml").read_text())
    params = yaml.safe_load((project / "params.yaml").read_text())
    params["families"][name] = params["families"]["ar"]
    params["students"][name] = "teacher"
    params["systems"].append(name)
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    done = subprocess.run([*stages.DVC, "repro"], cwd=project, capture_output=True, text=True, check=False,
                          env={**stages.environment(), "PYTHONPATH": str(ROOT)})
    line, *after = done.stderr.splitlines()
    assert done.returncode and line.startswith("error: params.yaml: families: ") and "must be a name: " in line
    assert [text.startswith("ERROR: failed to reproduce 'facts'") for text in after] == [True]
    assert not list(project.rglob("executed"))


def test_the_families_of_the_real_pipeline(tmp_path: Path) -> None:
    params = load_params(ROOT / "params.yaml")
    found = find_stages(read_stages(dvc_project(tmp_path, (ROOT / "dvc.yaml").read_text())), params)
    fits = {**{name: f"fit@{name}" for name in params.students},
            **{name: f"fit_lattice@{name}" for name in params.lattices}}
    tests = {f"evaluate@{name}": {fits[name]} if name in fits else set() for name in params.systems}
    assert {stage: set(found.after[stage]) - set(found.needs) for stage in found.steps} == tests | {
        fits[name]: {fits[start]} if start in fits else set() for name, start in params.starts.items()}
    assert set(found.after["teacher"]) == {"facts", "corpus", "bpe"} and "counts" in found.after[fits["lattice"]]
    assert "teacher" in found.after["evaluate@teacher"]
    assert {stage: found.steps[stage] for stage in fits.values()} == {
        fits[name]: params.family(name).training.steps for name in fits}
    assert found.steps["evaluate@ar"] > found.steps["evaluate@double_token"] > 0  # it has more decoders
    assert found.needs == ("facts", "corpus", "bpe", "teacher", "distill", "align", "counts")


def test_a_folder_that_holds_an_output_is_a_dependency_on_it(tmp_path: Path) -> None:
    """As DVC has it: no output has the dependency's own path."""
    folder = dvc_project(tmp_path, "stages:\n  teacher: {cmd: a, outs: [checkpoints/teacher]}\n  evaluate:\n"
                                   "    foreach: [ar]\n    do: {cmd: b, deps: [checkpoints], outs: ['${item}.txt']}\n")
    found = find_stages(read_stages(folder), load_params(ROOT / "params.yaml"))
    assert found.needs == ("teacher",) and found.after["evaluate@ar"] == ("teacher",)


@pytest.mark.parametrize(("block", "reason"), [
    ("matrix: {family: [ar], decoder: [beam5]}", "stage evaluate@ar-beam5: 'ar-beam5' is not a family of params.yaml"),
    ("foreach: {nobody: teacher}\n    do: {cmd: a}", "stage evaluate@nobody: 'nobody' is not a family of params.yaml"),
    ("foreach: '${nothing}'\n    do: {cmd: a}", "Could not find 'nothing'")])
def test_stages_of_an_unknown_shape_are_refused_in_one_line(tmp_path: Path, block: str, reason: str) -> None:
    cmd = "" if "do" in block else "    cmd: a\n"
    folder = dvc_project(tmp_path, f"stages:\n  evaluate:\n    {block}\n{cmd}")
    with pytest.raises(PipelineError) as error:
        find_stages(read_stages(folder), load_params(ROOT / "params.yaml"))
    line = str(error.value)
    assert "dvc.yaml: " in line and reason in line and "\n" not in line


def test_followers_of_followers() -> None:
    after = {"a": frozenset[str](), "b": frozenset("a"), "c": frozenset("b"), "d": frozenset[str]()}
    assert with_followers({"b"}, after) == {"b", "c"} and with_followers({"a"}, after) == {"a", "b", "c"}


@pytest.mark.parametrize(("jobs", "devices"), [(2, ["a,c", "b"]), (3, ["a", "b", "c"]), (4, ["a", "b", "c", "a"])])
def test_cores_and_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch, jobs: int, devices: list[str]) -> None:
    import torch

    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert shares(jobs) == [{"OMP_NUM_THREADS": str(7 // jobs)}] * jobs
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "a,b,c")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert shares(jobs) == [{"OMP_NUM_THREADS": "5", "CUDA_VISIBLE_DEVICES": some} for some in devices]


@pytest.fixture
def project(workspace: Path, change_params: Callable[[dict[str, Any]], None]) -> Path:
    """A DVC project like ours whose training is a short sleep."""
    change_params(STUDENTS)
    for name, text in {
            ".dvc/config": "[core]\n    analytics = false\n    no_scm = true\n", "train.py": TRAIN, "seconds": "0.1",
            "dvc.yaml": yaml.safe_dump({"stages": {
                "teacher": {"cmd": "mkdir checkpoints/teacher && printf teacher > checkpoints/teacher/weights",
                            "deps": ["train.en"], "outs": ["checkpoints/teacher"]},
                "fit": {"foreach": "${students}", "do": {
                    "cmd": "python train.py ${key} ${item}", "deps": ["checkpoints/${item}", "train.py"],
                    "outs": ["checkpoints/${key}"]}},
                "evaluate": {"matrix": {"family": "${systems}"}, "deps": ["checkpoints/${item.family}"],
                             "cmd": "tr a-z A-Z < checkpoints/${item.family}/weights > ${item.family}.upper",
                             "outs": ["${item.family}.upper"]},
                "table": {"cmd": "cat checkpoints/*/weights > table", "deps": ["checkpoints"], "outs": ["table"]},
            }}, sort_keys=False)}.items():
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text)
    (workspace / "train.en").write_text("text\n")
    return workspace


def repro(*options: str) -> int:
    return main(["repro", *options])


def test_dvc_loses_nothing_when_two_train_at_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert repro("--jobs", "2") == 0
    printed = capsys.readouterr().out
    assert "fit@small: training after ar\n" in printed and "fit@late: training after small\n" in printed
    order = (project / "log").read_text().split()
    assert sorted(order) == sorted(STARTS)
    assert all(order.index(start) < order.index(name) for name, start in STARTS.items() if start in order)
    assert (project / "table").read_text() == "".join(sorted(["teacher", *STARTS]))  # the plain run that follows
    locked = (project / "dvc.lock").read_bytes()
    assert yaml.safe_load(locked)["stages"].keys() == {
        "teacher", "table", "evaluate@teacher", *(f"{name}@{one}" for one in STARTS for name in ("fit", "evaluate"))}
    assert "evaluate@late: > tr" in printed and (project / "late.upper").read_text() == "LATE"

    assert not any(stage.has_changed for stage in ask_dvc(project).values())
    assert repro("--jobs", "2") == 0 and "Nothing has changed" in capsys.readouterr().out
    assert (project / "dvc.lock").read_bytes() == locked and (project / "log").read_text().split() == order


def test_a_lock_that_is_cut_off_costs_no_stage(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a killed DVC leaves it: it writes the file in place."""
    assert repro("--jobs", "2") == 0
    lock, log = project / "dvc.lock", (project / "log").read_text()
    for left, end in ((0.2, b""), (0.8, b" \xc3")):  # or within a letter
        whole = lock.read_text()
        stages_of = yaml.safe_load(whole)["stages"]
        cut = whole.index("deps:", int(left * len(whole))) + len("deps:")
        remains = whole[:cut].encode() + end
        lock.write_bytes(remains)
        capsys.readouterr()
        assert repro("--jobs", "2") == 0
        assert "dvc.lock: DVC was killed while writing it" in capsys.readouterr().out
        assert yaml.safe_load(lock.read_text())["stages"] == stages_of and (project / "log").read_text() == log
        assert (project / "dvc.lock.damaged").read_bytes() == remains


def test_conflicts_of_a_merge_stay_in_the_lock(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "<<<<<<< ours\nschema: '2.0'\n=======\nschema: '2.0'\n>>>>>>> theirs\n"
    (project / "dvc.lock").write_text(text)
    assert repro() == 2 and len(capsys.readouterr().err.splitlines()) == 1
    assert (project / "dvc.lock").read_text() == text


def test_one_that_fails_is_named_and_the_others_end(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "broken").touch()
    assert repro("--jobs", "2") == 2
    printed = capsys.readouterr()
    assert "fit@ar: ar cannot be trained\n" in printed.out and "dvc.yaml: fit@ar failed" in printed.err
    locked = yaml.safe_load((project / "dvc.lock").read_text())["stages"]
    assert "fit@nat" in locked and "fit@ar" not in locked and not (project / "table").exists()
    with pytest.raises(SystemExit) as left:  # with the status of DVC, which had the stage by name
        repro("fit@ar")
    assert left.value.code


@pytest.mark.parametrize(("failing", "told", "message"), [
    ("a", "a: failed; nothing new starts, and what still runs is finished first: b, c\n",
     "dvc.yaml: a failed; see the lines above that begin with its name. The same command"),
    ("c", "c: failed; nothing new starts\n", "dvc.yaml: c failed; see "),
    ("bc", "b: failed; nothing new starts, and what still runs is finished first: c\nc: failed; nothing new starts\n",
     "dvc.yaml: b, c failed; see the lines above that begin with their names. The same command"),
])
def test_a_failure_is_told_at_once(failing: str, told: str, message: str, monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    """Three stages end in the order in which they have begun; a fourth would follow them."""
    begun = list[str]()

    def start(folder: Path, stage: str, share: dict[str, str], output: stages.Output) -> SimpleNamespace:
        begun.append(stage)
        output.put((stage, None))
        return SimpleNamespace(wait=lambda: int(stage in failing))

    monkeypatch.setattr(stages, "_start", start)
    monkeypatch.setattr(guard, "stop", lambda processes: None)
    after = {name: frozenset[str]() for name in "abc"} | {"d": frozenset("abc")}
    with pytest.raises(PipelineError, match=f"^{message}"):
        stages.reproduce_together(Path(), after, dict.fromkeys(after, 1), [{}, {}, {}])
    assert capsys.readouterr().out == told and begun == ["a", "b", "c"]


def began(project: Path, *, ignoring: str = "pass") -> subprocess.Popen[str]:
    """A run of which two trainings have begun, each of which would take a minute."""
    (project / "seconds").write_text("60")
    first = (f"import os, signal, sys; {ignoring}; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])")
    run = subprocess.Popen([sys.executable, "-c", first, "-m", "pipeline", "repro", "--jobs", "2"],
                           stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True)
    assert run.stdout is not None
    assert len(list(islice((line for line in run.stdout if "training after" in line), 2))) == 2
    return run


def ended(project: Path) -> bool:
    """Whether the two trainings have ended."""
    return not any(Path(f"/proc/{(project / f'{name}.pid').read_text()}").exists() for name in ("ar", "nat"))


@pytest.mark.parametrize("ignoring", ["pass", "signal.signal(signal.SIGINT, signal.SIG_IGN)"])
def test_what_ends_it_ends_all_of_it(project: Path, ignoring: str) -> None:
    """Also where control-C is ignored, as in a script's `command &`."""
    with began(project, ignoring=ignoring) as run:
        run.send_signal(signal.SIGTERM)
        assert run.wait(guard.PATIENCE - 5) == 130  # before they would have to be killed
        assert ended(project)


def test_a_signal_is_not_left_until_the_next_line() -> None:
    """One that reaches another thread does not wake the one that waits, nor does one that comes just before."""
    def interrupt() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            stages.next_line(stages.Output())
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def test_kill_9_leaves_no_training_and_the_next_call_goes_on(project: Path) -> None:
    with began(project) as run:
        run.kill()
    (project / "seconds").write_text("0")
    assert repro("--jobs", "2") == 0 and (project / "table").exists()  # it waits for what the guards are ending
    assert ended(project)


def test_fewer_than_one_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert repro("--jobs", "0") == 2 and "--jobs: 0 must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--interactive", "--inter", "-i", "-fi", "--cwd", "--cwd=..", "-c", "-c.."])
def test_what_cannot_be_passed_on_is_refused(project: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no terminal to ask on, and the facts would be those of another folder."""
    assert repro(option) == 2
    line, = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {option}: ") and "`dvc repro" in line and not (project / "dvc.lock").exists()


def test_pipelines_of_other_folders_are_left_alone(project: Path) -> None:
    """Those of profiles, for example: their stages are neither shown nor waited for."""
    other = project / "profiles/other"
    other.mkdir(parents=True)
    (other / "dvc.yaml").write_text("stages:\n  never: {cmd: 'false', outs: [never]}\n")
    assert not any("never" in name for name in read_stages(project))
    assert list(read_stages(other)) == ["never"]
    marks = {str(other / "never"): {"pid": os.getpid(), "cmd": "dvc repro"}}
    (project / ".dvc/tmp").mkdir(exist_ok=True)
    (project / ".dvc/tmp/rwlock").write_text(json.dumps({"write": marks, "read": {}}))
    assert stages._processes(other) == {os.getpid()} and stages._processes(project) == set()


def test_a_cache_that_cannot_be_written_is_noticed_before_anything_runs(project: Path,
                                                                       capsys: pytest.CaptureFixture[str]) -> None:
    (project / "blocked").write_text("a file, in which there can be no folder")
    with open(project / ".dvc/config", "a") as config:
        config.write(f"[cache]\n    dir = {project}/blocked/cache\n")
    assert repro() == 2
    line, = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: dvc.yaml: {project}/blocked/cache: DVC's cache cannot be written (Not a dir")
    assert not list((project / "checkpoints").glob("*/weights"))


def test_a_second_run_in_one_folder_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(PIPELINE):
        assert repro() == 2
    line, = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: dvc.yaml: another run (process {os.getpid()} on ")
