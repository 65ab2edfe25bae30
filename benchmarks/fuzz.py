"""Does any input of any reader end otherwise than with its content or with one line that names the fault?

    python -m benchmarks.fuzz --minutes 60 --seed 1
    python -m benchmarks.fuzz --minutes 2 --readers po tmx --findings found

Every reader of files and requests that a user feeds gets as much time. Half of it Hypothesis invents inputs that have
something of the expected form; in the other half libFuzzer (by atheris) changes bytes, and keeps what runs new code.
Each engine has a process per reader. A finding is any exception but the one that a user reads, a message that is not
one printable line, ten seconds without an answer, a gigabyte of memory, or the death of the process. One input per kind
of finding is kept in --findings with its traceback; a process that has died is started again with the next seed. At the
end, the kept inputs run again under coverage.py.

Needs the extra `fuzz`.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.clock import RESULTS, about, argument_parser, table
from benchmarks.fuzz_files import write_run
from benchmarks.fuzz_readers import READERS
from benchmarks.fuzz_worker import HANG, State, save
from pipeline.files import write_json

ENGINES = ("invention", "mutation")
_RESTARTS = 50  # of a process that dies, before its reader has no time left


def attack(engine: str, name: str, folder: Path, findings: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Give inputs to a reader for some seconds, in as many processes as it needs; the numbers of inputs."""
    corpus = folder / "corpus" / name.replace(" ", "_").replace(":", "")
    corpus.mkdir(parents=True, exist_ok=True)
    state, end, deaths, begun = State(corpus.with_suffix(f".{engine}")), time.monotonic() + seconds, 0, time.monotonic()
    while (rest := end - time.monotonic()) > 1 and deaths < _RESTARTS:
        before = state.inputs
        found = run(engine, name, folder, findings, rest, seed + deaths)
        state = State(corpus.with_suffix(f".{engine}"))
        if found.returncode == 0:
            break
        hung = "Timeout (" in found.stderr
        if state.inputs == before or (found.returncode == 1 and not hung):
            raise RuntimeError(f"{name}, {engine}: this program has failed: {found.stderr[-2000:]}")
        deaths += 1
        reason = f"hung for {HANG} s" if hung else f"exit status {found.returncode}"
        code = hashlib.sha256(state.content).hexdigest()[:8]
        save(findings, name, code, state.content, f"{engine}, seed {seed + deaths - 1}: {reason}\n{found.stderr}")
    return {"inputs": state.inputs, "accepted": state.accepted, "refused": state.refused, "deaths": deaths,
            "seconds": round(time.monotonic() - begun, 1)}


def lines_run(name: str, folder: Path, findings: Path, seed: int) -> tuple[int, int]:
    """How many lines of a reader's files its kept inputs run, and how many there are."""
    measured = run("coverage", name, folder, findings, 0, seed)
    if measured.returncode != 0:
        raise RuntimeError(f"{name}, coverage: this program has failed: {measured.stderr[-2000:]}")
    ran, lines = map(int, measured.stdout.split())
    return ran, lines


def run(engine: str, name: str, folder: Path, findings: Path, seconds: float,
        seed: int) -> subprocess.CompletedProcess[str]:
    """A process of `benchmarks.fuzz_worker`."""
    return subprocess.run([sys.executable, "-m", "benchmarks.fuzz_worker", engine, name, str(folder), str(findings),
                           str(seconds), str(seed)], capture_output=True, text=True, errors="replace", check=False)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="of all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readers", nargs="+", choices=list(READERS), default=list(READERS), metavar="READER",
                        help="some of: " + ", ".join(READERS))
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="folder of the inputs that failed")
    parser.add_argument("--output", type=Path, default=RESULTS / "fuzz.json")
    options = parser.parse_args()
    description = about(["atheris", "hypothesis", "coverage", "lxml", "polib", "pyarrow", "sentencepiece", "torch"])
    seconds = 60 * options.minutes / len(options.readers) / len(ENGINES)
    readers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        write_run(folder / "run")
        for name in options.readers:
            entry: dict[str, Any] = {engine: attack(engine, name, folder, options.findings, seconds, options.seed)
                                     for engine in ENGINES}
            ran, lines = lines_run(name, folder, options.findings, options.seed)
            known = sorted(options.findings.glob(f"{name.replace(' ', '_').replace(':', '')}-*.txt"))
            readers[name] = {**entry, "lines": lines, "lines_run": ran, "findings": [path.stem for path in known]}
            print(f"{name}: {len(known)} findings", flush=True)
    totals = {"inputs": sum(one[engine]["inputs"] for one in readers.values() for engine in ENGINES),
              "findings": sum(len(one["findings"]) for one in readers.values())}
    write_json(options.output, {**description, "minutes": options.minutes, "seed": options.seed, **totals,
                                "readers": readers})
    print(table(["reader", *ENGINES, "accepted", "findings", "lines", "run"], [
        [name, *(f"{one[engine]['inputs']:,}" for engine in ENGINES),
         f"{sum(one[engine]['accepted'] for engine in ENGINES):,}", str(len(one["findings"])), str(one["lines"]),
         str(one["lines_run"])] for name, one in readers.items()]))
    print(f"{totals['inputs']:,} inputs, {totals['findings']} findings")


if __name__ == "__main__":
    main()
