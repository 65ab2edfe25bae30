"""Two processes give the figures of one, to the last digit."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from draws import ALIKE
from fitting import STUDENTS

import pipeline
from pipeline import layout
from pipeline.blocks import merge
from pipeline.cli import main
from pipeline.corpus.pairs import Pairs
from pipeline.model.checkpoint import read_weights
from pipeline.training.metrics import CorpusBleu

QUALITY, CHECKPOINT = Path("reports/quality/teacher.json"), Path("checkpoints/teacher")
PAIRS = Path("data/distilled/train.pairs")
PATHS = [str(Path(pipeline.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "OMP_NUM_THREADS": "1"}
ON_CPU = ("--trainer.accelerator", "cpu")


def hypotheses() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("data/hypotheses/teacher").iterdir()}


SPOILT = """
import os
from pipeline.families.ordered import OrderedModule
original = OrderedModule.training_step
def training_step(self, batch, batch_idx):
    loss = original(self, batch, batch_idx)
    return loss * float("nan") if self.trainer.global_step == 9 and os.environ["RANK"] == "1" else loss
OrderedModule.training_step = training_step
"""
"""A loss that is not finite in one of the processes."""


BREAK = """
from pipeline.families.ordered import OrderedModule
original = OrderedModule.training_step
def training_step(self, batch, batch_idx):
    if self.trainer.global_step == 6:
        open("broken", "w").close()
        raise RuntimeError("broken off")
    return original(self, batch, batch_idx)
OrderedModule.training_step = training_step
"""


BEGIN = """
import atexit, os, time
import torch
from draws import ALIKE
atexit.register(lambda: print("connected at the end:", torch.distributed.is_initialized()))
for name, drawn in ALIKE.items():
    setattr(torch, name, drawn)
from pipeline import files
if os.environ["RANK"] == "0":
    files.remove = lambda path, remove=files.remove: (time.sleep(0.3 * (path.parent.name == ".work")), remove(path))
else:
    from pipeline import distillation
    distillation.choose_penalty = None
from pipeline.cli import main
"""
"""Every sentence draws alike. The first process takes its time to remove what it worked with; the second must not come
back, perhaps to train again, meanwhile. What is chosen for all, the first one chooses."""


def on_two_nodes(code: str) -> list[str]:
    """Run a program on two nodes of one process each, started from outside as torchrun does; what each has printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**ENVIRONMENT, "TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0",
              "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(Path(__file__).parent)])}
    processes = [subprocess.Popen([sys.executable, "-c", code], env={**shared, "RANK": rank, "GROUP_RANK": rank},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in "01"]
    printed = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(printed)
    return printed


def run_two(*commands: list[str]) -> list[str]:
    """Run commands on two nodes, one after the other; the last one again, with a loss that is not finite."""
    return on_two_nodes(
        f"{BEGIN}\nfor command in {commands!r}:\n    assert main(command) == 0\n"
        f"    assert not os.listdir('checkpoints/.work'), 'a process came back before the first one had ended'\n"
        f"{SPOILT}\nassert main({commands[-1]!r}) == 2")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_two_processes_on_one_gpu_score_like_one(workspace: Path) -> None:
    """Each is a node, whose first GPU is the same; NCCL refuses a GPU that has two processes, Gloo does not."""
    options = ["test", "--family", "teacher", "--trainer.accelerator", "gpu", "--trainer.devices", "1", "--in-place"]
    assert main(options) == 0
    alone = QUALITY.read_bytes(), hypotheses()
    QUALITY.unlink()
    both = [*options, "--trainer.num_nodes", "2", "--trainer.strategy=DDPStrategy",
            "--trainer.strategy.process_group_backend=gloo"]
    on_two_nodes(f"from pipeline.cli import main\nassert main({both!r}) == 0")
    assert (QUALITY.read_bytes(), hypotheses()) == alone


def test_two_processes_score_distill_and_train_like_one(
        lattice_family: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """Families of every kind, in one pair of processes."""
    students = list(STUDENTS["families"])
    # Each device draws its own dropout; one of two has nothing to validate.
    change_params(merge(STUDENTS, {
        "network": {"dropout": 0.0}, "training": {"validation_sentences": 5},
        "distillation": {"length_penalty": [0.0, 1.0], "validation_sentences": 6},
        "families": {name: {"training": {"steps": 4}} for name in students}}))
    for name, drawn in ALIKE.items():
        monkeypatch.setattr(torch, name, drawn)
    distill = ["distill", "--accelerator", "cpu", "--devices"]
    fits = [["fit", "--family", name, *ON_CPU, "--in-place", "--trainer.precision", "64-true", "--trainer.devices"]
            for name in (*students, "teacher")]
    shutil.copytree(CHECKPOINT, "teacher")
    searches = [["test", "--family", "teacher", *ON_CPU, "--in-place", "--trainer.devices"],
                ["predict", "--family", "interleaved", *ON_CPU, "--trainer.default_root_dir", "predicted",
                 "--trainer.devices"], ["validate", "--family", "interleaved", *ON_CPU, "--trainer.devices"]]
    capsys.readouterr()
    assert [main([*command, "1"]) for command in searches] == [0, 0, 0]
    table = [line for line in capsys.readouterr().out.splitlines() if "validation_" in line]
    predictions, scored = Path("predicted/predictions.txt").read_bytes(), (QUALITY.read_bytes(), hypotheses())
    assert set(scored[1]) == {"greedy.jsonl", "beam3.jsonl", "SHA256SUMS"}
    Path("predicted/predictions.txt").unlink()
    QUALITY.unlink()

    def trained() -> dict[str, tuple[dict[str, Any], dict[str, torch.Tensor]]]:
        """Of each family the steps that were averaged, with their BLEU, and the weights."""
        folders = {name: layout.checkpoint(name) for name in (*students, "teacher")}
        return {name: (json.loads((folder / "config.json").read_text())["training"],
                       read_weights(folder / "weights.safetensors")) for name, folder in folders.items()}

    assert [main([*command, "1"]) for command in (distill, *fits)] == [0] * 6
    pairs, alone = PAIRS.read_bytes(), trained()
    shutil.rmtree(CHECKPOINT)
    shutil.move("teacher", CHECKPOINT)
    PAIRS.unlink()
    nodes = ["1", "--trainer.num_nodes", "2"]
    printed = run_two([*distill, "1", "--num-nodes", "2"], *([*one, *nodes] for one in (*searches, *fits)))
    assert (QUALITY.read_bytes(), hypotheses()) == scored
    assert sum(text.count("teacher greedy: BLEU") for text in printed) == 1  # the second process reports nothing
    assert PAIRS.read_bytes() == pairs
    assert Path("predicted/predictions.txt").read_bytes() == predictions
    assert [line for line in printed[0].splitlines() if "│" in line and "validation_" in line] == table != []
    for name, (training, weights) in trained().items():
        assert training == alone[name][0] and weights.keys() == alone[name][1].keys()
        for part, weight in weights.items():
            torch.testing.assert_close(weight, alone[name][1][part], rtol=0, atol=1e-9, msg=f"{part} of {name}")
    errors = [line for text in printed for line in text.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2 and errors[0] == errors[1]  # both end
    assert all("connected at the end: False" in text for text in printed)  # else gloo's threads may abort a process
    assert errors[0].startswith("error: step 10: the training loss is nan, of rows ")


def test_what_a_test_writes(workspace: Path, change_params: Callable[[dict[str, Any]], None],
                            capsys: pytest.CaptureFixture[str]) -> None:
    change_params({"network": {"max_length": 20}})  # more than some sources have
    options = ["test", "--family", "interleaved", *ON_CPU, "--in-place", "--trainer.devices", "1"]
    assert main([*options, "--decoder", "greedy"]) == 0
    report = json.loads(Path("reports/quality/interleaved.json").read_text())
    assert report["family"] == "interleaved" and report["data"] == "raw" and set(report["decoders"]) == {"greedy"}
    lines = [json.loads(line) for line in Path("data/hypotheses/interleaved/greedy.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(24))
    assert report["decoders"]["greedy"]["calls"] == pytest.approx(sum(line["calls"] for line in lines) / 24)
    printed = capsys.readouterr()
    assert f"BLEU {report['decoders']['greedy']['bleu']:.2f}" in printed.out
    pairs = Pairs.open(Path("data/bpe/test.pairs"))
    cut = sum(len(pairs.source(row)) + 1 > 20 for row in range(24))
    assert 0 < cut < 24 and report["sources_cut"] == cut
    assert f"{cut} of 24 sources are cut to the model's 19 pieces\n" in printed.err


FINGERPRINT = """
import zlib
from pipeline.training.metrics import CorpusBleu
def update(self, hypotheses, references):
    self.counts[0] += sum(zlib.crc32(text.encode()) % 997 for text in hypotheses)
CorpusBleu.update, CorpusBleu.compute = update, lambda self: self.counts[0].double().cpu() / 100
"""
"""In place of BLEU, which is 0 after so few steps, a number that differs when translations do."""


def test_divided_weights_train_and_continue_like_whole_ones(
        workspace: Path, change_params: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices with half of the weights each, interrupted after validations, against one device that is not."""
    change_params({"network": {"dropout": 0.0}, "training": {"steps": 8, "validate_every": 2, "average": 4}})
    fit = ["fit", "--family", "teacher", *ON_CPU, "--in-place", "--trainer.precision", "64-true", "--trainer.devices"]
    divided = [*fit, "2", "--trainer.strategy", "sharded"]
    path = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], os.getcwd()])}

    def run(code: str) -> "subprocess.CompletedProcess[str]":
        Path("run.py").write_text(code, encoding="utf-8")  # Lightning starts the second process by the same command
        return subprocess.run([sys.executable, "run.py"], env=path, capture_output=True, text=True, timeout=200,
                              check=False)

    for name in ("update", "compute"):
        monkeypatch.setattr(CorpusBleu, name, getattr(CorpusBleu, name))  # so that they are restored after the test
    exec(FINGERPRINT, {})
    code = f"{FINGERPRINT}\nimport sys\nfrom pipeline.cli import main\nsys.exit(main({divided!r}))"
    stopped = run(f"{BREAK}\n{code}")
    # A file shows it, and not the error: gloo's threads may abort the process before it has printed that.
    assert stopped.returncode and Path("broken").exists(), stopped.stderr
    done = run(code)
    assert not done.returncode and "continuing from" in done.stdout, done.stderr
    training = json.loads((CHECKPOINT / "config.json").read_text())["training"]
    together = read_weights(CHECKPOINT / "weights.safetensors")
    assert main([*fit, "1"]) == 0
    assert json.loads((CHECKPOINT / "config.json").read_text())["training"] == training  # also the validations' BLEU
    assert len({one["bleu"] for one in training["averaged"]}) > 1
    for name, weight in read_weights(CHECKPOINT / "weights.safetensors").items():
        torch.testing.assert_close(weight, together[name], rtol=0, atol=1e-9, msg=name)
