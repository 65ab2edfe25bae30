"""One flipped bit in every kind of file that is read: noticed and named, or else of no effect, and never used."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.workshop import OUTPUTS, Ended, Outcome, Workshop, call, differing, digests

_TRANSLATE = "translate --device cpu --decoder greedy --input in.txt --output out.txt --family"


class Kind(NamedTuple):
    """Files of one kind, and a command that reads them."""

    files: str
    """Pattern."""
    command: str


KINDS = [
    Kind("data/corpus/train.source", "bpe"),
    Kind("data/corpus/test.target", "report"),
    Kind("data/bpe/train.pairs", "align"),
    Kind("data/bpe/test.pairs", "test --family ar --decoder greedy"),
    Kind("data/bpe/joint.model", f"{_TRANSLATE} ar"),
    Kind("data/bpe/meta.json", f"{_TRANSLATE} ar"),
    Kind("data/distilled/train.pairs", "align"),
    Kind("data/alignment/raw.safetensors", "counts"),
    Kind("data/counts/both.safetensors", f"{_TRANSLATE} ar --shortlist 20"),
    Kind("checkpoints/ar/weights.safetensors", f"{_TRANSLATE} ar"),
    Kind("checkpoints/ar/config.json", f"{_TRANSLATE} ar"),
    Kind("checkpoints/ar/SHA256SUMS", f"{_TRANSLATE} ar"),
    Kind("checkpoints/lattice/counts.safetensors", f"{_TRANSLATE.replace('--decoder greedy', '')} lattice"),
    Kind("data/hypotheses/ar/*.jsonl", "report"),
    Kind("data/models/ar/*[!d]", _TRANSLATE.replace("--family", "--model data/models/ar")),
]


def flips(workshop: Workshop, tries: int) -> list[Outcome]:
    """Flip a bit in each file, several times at random places."""
    found = []
    with workshop.copy() as folder:
        unharmed: dict[str, dict[str, str]] = {}
        for kind in KINDS:
            if kind.command not in unharmed:
                ended = call(folder, kind.command)
                if ended.status:
                    found.append(Outcome(f"{kind.command}, undamaged", False, ended.last))
                    continue
                unharmed[kind.command] = _written(folder)
            for path in sorted(folder.glob(kind.files)):
                name = path.relative_to(folder).as_posix()
                for _ in range(tries):
                    content = path.read_bytes()
                    place, bit = workshop.random.randrange(len(content)), workshop.random.randrange(8)
                    flip(path, place, bit)
                    ended = call(folder, kind.command)
                    changed = set(differing(_written(folder), unharmed[kind.command])) - {name}
                    found.append(_judge(f"{name}, bit {bit} of byte {place}", name, ended, not changed))
                    path.write_bytes(content)
    return found


def flip(path: Path, place: int, bit: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def _judge(what: str, name: str, ended: Ended, is_unharmed: bool) -> Outcome:
    """As promised: refused by one line that names the file, or its folder's digests."""
    names = (name, str(Path(name).parent))
    if ended.is_one_line and any(one in ended.last for one in names):
        return Outcome(what, True, ended.last)
    if ended.status == 0 and is_unharmed:
        return Outcome(what, True, "not noticed: what it wrote is as without the fault")
    return Outcome(what, False, f"status {ended.status}: {ended.last}")


def _written(folder: Path) -> dict[str, str]:
    """Digests of what the commands write."""
    return digests(folder, (*OUTPUTS, "out.txt"))


def in_unfinished_work(workshop: Workshop, tries: int) -> list[Outcome]:
    """Flip a bit in the files of a training, and of a distillation, that were killed: the end has the same bytes."""
    found = []
    for command, output, patterns in (
            ("fit --family teacher --trainer.accelerator cpu --in-place", "checkpoints/teacher/weights.safetensors",
             ("resume.ckpt", "candidates/*.safetensors", "candidates/index.json", "candidates/SHA256SUMS",
              "fingerprint.json")),
            ("distill --devices 1 --accelerator cpu", "data/distilled/train.pairs", (".shards/*/shard-*",))):
        with workshop.copy() as folder:
            work = folder / "checkpoints/.work"
            kept = folder / "kept"
            ended = call(folder, command, before=partial(keep_work, work, kept))
            expected = (folder / output).read_bytes()
            if ended.status or not kept.exists():
                found.append(Outcome(command, False, f"status {ended.status}: {ended.last}"))
                continue
            for pattern in patterns:
                for path in sorted(kept.rglob("*")):
                    if not path.match(pattern):
                        continue
                    for _ in range(tries):
                        shutil.rmtree(work, ignore_errors=True)
                        shutil.copytree(kept, work)
                        copy = work / path.relative_to(kept)
                        place = workshop.random.randrange(copy.stat().st_size)
                        flip(copy, place, workshop.random.randrange(8))
                        ended = call(folder, command)
                        same = (folder / output).read_bytes() == expected
                        told = [line for line in ended.error.splitlines() if "starting anew" in line
                                or "damaged" in line or "continuing" in line]
                        found.append(Outcome(
                            f"{path.relative_to(kept)}, byte {place}", ended.status == 0 and same,
                            f"{'; '.join(told)[:300] or 'made again without a word'}; the result is "
                            f"{'the same' if same else 'ANOTHER'} (status {ended.status})"))
    return found


def keep_work(work: Path, kept: Path) -> None:
    """Let the end of a training or distillation copy its unfinished work before it removes that."""
    from pipeline import distillation
    from pipeline.training import fit

    for module in (distillation, fit):
        def remove(path: Path, original: Callable[[Path], None] = module.remove) -> None:
            if ".work" in path.parts and not kept.exists():
                shutil.copytree(work, kept)
            original(path)

        module.remove = remove  # type: ignore[attr-defined]
