"""The processes of one run refuse to start from different files, and end together, whatever happens to one of them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from fitting import COMMAND, CONFIG, WEIGHTS, WORK, curve, fit

import pipeline
from pipeline.cli import main
from pipeline.families.base import TranslationModule

SCENARIOS = ("elsewhere", "otherwise", "hangs", "terminated", "killed")
"""What happens to the second process."""
OPTIONS = {"otherwise": ["--trainer.max_steps", "11"],
           "hangs": ["--trainer.strategy", "DDPStrategy", "--trainer.strategy.timeout", "0:00:03"]}
"""Of the command; the first ones are the second process's alone."""
PROCESS = """
import json, os, shutil, signal, sys, time
import torch
from pipeline.cli import main
from pipeline.families.ordered import OrderedModule
ports, command, scenarios, options = map(json.loads, sys.argv[1:5])
second = os.environ["RANK"] == "1"
original = OrderedModule.training_step
def training_step(self, batch, batch_idx):
    if second and self.trainer.global_step == 9:
        if scenario == "hangs":
            time.sleep(6)
        elif scenario == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
        elif scenario == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    return original(self, batch, batch_idx)
OrderedModule.training_step = training_step
for scenario, os.environ["MASTER_PORT"] in zip(scenarios, ports):
    print(f"== {scenario}", file=sys.stderr, flush=True)
    if second and scenario == "elsewhere":
        os.chdir(sys.argv[5])
    began = time.monotonic()
    status = main([*command, *options.get(scenario, []) * (second or scenario != "otherwise")])
    print(f"status {status} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    os.chdir(sys.argv[6])
    torch.distributed.destroy_process_group()
"""


def run_on_two_nodes(command: list[str], elsewhere: Path) -> tuple[list[int], list[dict[str, list[str]]]]:
    """Run all scenarios on two nodes of one process each: the exit codes, and the last two lines of each scenario."""
    with ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in SCENARIOS]
        for one in free:
            one.bind(("127.0.0.1", 0))
        ports = [str(one.getsockname()[1]) for one in free]
    shared = {**os.environ, "PYTHONPATH": str(Path(pipeline.__file__).parents[1]), "TORCHELASTIC_RUN_ID": "test",
              "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    options = [sys.executable, "-c", PROCESS, json.dumps(ports), json.dumps(command), json.dumps(SCENARIOS),
               json.dumps(OPTIONS), str(elsewhere), os.getcwd()]
    processes = [subprocess.Popen(options, env={**shared, "RANK": rank, "GROUP_RANK": rank}, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, text=True) for rank in "01"]
    try:
        printed = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    parts = [[part.partition("\n")[::2] for part in text.split("== ")[1:]] for text in printed]
    return ([process.returncode for process in processes],
            [{name: lines.splitlines()[-2:] for name, lines in one} for one in parts])


def test_what_happens_to_one_process_ends_all(workspace: Path) -> None:
    """In one line each, with what the run had reached, which one process then continues."""
    before, elsewhere = WEIGHTS.read_bytes(), workspace.with_name("elsewhere")
    shutil.copytree(workspace, elsewhere)
    statuses, printed = run_on_two_nodes([*COMMAND, "--trainer.devices", "1", "--trainer.num_nodes", "2"], elsewhere)
    assert statuses == [0, -signal.SIGKILL], printed
    for scenario in SCENARIOS:
        for rank, (line, ended) in enumerate(one[scenario] for one in printed[:1 if scenario == "killed" else 2]):
            expected = "143" if (scenario, rank) == ("terminated", 1) else "2"
            assert ended.split()[1] == expected and int(ended.split()[3]) < 60, printed
            assert line.startswith("terminated; the same command" if expected == "143" else "error: "), printed
    first = {name: lines[0] for name, lines in printed[0].items()}
    assert "does not see what process 0" in first["elsewhere"] and first["elsewhere"] == printed[1]["elsewhere"][0]
    assert "process 1 on" in first["otherwise"] and "has other parameters than process 0" in first["otherwise"]
    for scenario in ("hangs", "terminated", "killed"):
        assert "another process of this run has ended or does not answer" in first[scenario]
    assert WEIGHTS.read_bytes() == before
    assert not [path for path in Path("checkpoints").rglob(".*") if path.name != ".work"]
    assert torch.load(WORK / "resume.ckpt", weights_only=True)["global_step"] == 8
    fit(workspace)
    assert json.loads(CONFIG.read_text())["training"]["steps"] == 12 and not WORK.exists()


def test_a_terminated_run_goes_on(uninterrupted: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    """At once, not at the end of its step; the status is that of shells."""
    original, reached = TranslationModule.training_step, list[int]()

    def training_step(self: TranslationModule, *batch: object) -> torch.Tensor:
        if self.trainer.global_step == 9:
            signal.raise_signal(signal.SIGTERM)
        reached.append(self.trainer.global_step)
        return original(self, *batch)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(TranslationModule, "training_step", training_step)
        assert main([*COMMAND]) == 143
    assert reached[-1] == 8 and "terminated; the same command continues" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert fit(workspace) == (uninterrupted / WEIGHTS).read_bytes()
    assert curve(workspace) == curve(uninterrupted)
