"""One process of `benchmarks.fuzz`: one engine that gives inputs to one reader; a crash ends this process only."""

import faulthandler
import hashlib
import importlib
import mmap
import resource
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HANG = 10
"""Seconds after which an input has hung its reader."""
MEMORY = 1 << 30
"""Bytes of address space that a reader may take more than it has after its sound inputs."""
ALLOWED = ("PipelineError", "RequestError")
"""The names of the errors that a reader may raise."""
_CODE = ("pipeline", "yaml", "polib")
_COMPILED = ("pipeline.engine", "pipeline.model", "pipeline.decoding", "pipeline.alignment", "pipeline.compiled",
             "pipeline.count_model.look_up", "pipeline.training", "pipeline.families")
"""What numba or torch compiles, or imports in seconds: it is not instrumented."""
_LONGEST = 1 << 17
_TRACED = 60
"""How many times longer an input may take while its lines are counted."""
_STATE = struct.Struct("<4Q")


class State:
    """What the parent finds after a crash: the numbers of inputs, accepted and refused ones, and the last input."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_STATE.size + _LONGEST))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.inputs, self.accepted, self.refused, self._length = _STATE.unpack_from(self._map)

    @property
    def content(self) -> bytes:
        """The last input."""
        return self._map[_STATE.size:_STATE.size + self._length]

    def begin(self, content: bytes) -> None:
        """Note an input before it is given to the reader."""
        self.inputs, self._length = self.inputs + 1, len(content)
        self._map[_STATE.size:_STATE.size + len(content)] = content
        self._write()

    def end(self, accepted: int, refused: int) -> None:
        """Note its outcome."""
        self.accepted, self.refused = self.accepted + accepted, self.refused + refused
        self._write()

    def _write(self) -> None:
        _STATE.pack_into(self._map, 0, self.inputs, self.accepted, self.refused, self._length)


class Trial:
    """Gives inputs to a reader and keeps one input per kind of failure."""

    def __init__(self, name: str, read: Callable[[bytes], object], state: State, findings: Path, origin: str,
                 patience: float = HANG) -> None:
        self._name, self._read, self._state, self._findings, self._origin = name, read, state, findings, origin
        self._patience = patience
        self._known = {path.stem.rpartition("-")[2] for path in findings.glob("*.txt")}

    def __call__(self, content: bytes) -> None:
        content = content[:_LONGEST]
        self._state.begin(content)
        faulthandler.dump_traceback_later(self._patience, exit=True)
        try:
            self._read(content)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also a panic of a library in Rust
            refused = type(error).__name__ in ALLOWED and is_one_line(str(error))
            self._state.end(0, int(refused))
            if not refused:
                self._keep(content, error)
        else:
            self._state.end(1, 0)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _keep(self, content: bytes, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/pipeline/" in frame.filename][-1:]
        kind = f"{type(error).__name__} {[(frame.filename, frame.lineno) for frame in [*own, *frames[-1:]]]}"
        code = hashlib.sha256(kind.encode()).hexdigest()[:8]
        if code not in self._known:
            self._known.add(code)
            reason = "".join(traceback.format_exception(error))
            save(self._findings, self._name, code, content, f"{self._origin}\n{reason}")


def is_one_line(message: str) -> bool:
    """Whether a message is one line that a terminal shows as it is."""
    return bool(message) and message.isprintable()


def save(findings: Path, name: str, code: str, content: bytes, reason: str) -> None:
    """Write the input of a finding, and what is known about it beside it."""
    findings.mkdir(parents=True, exist_ok=True)
    file = findings / f"{name.replace(' ', '_').replace(':', '')}-{code}"
    file.with_suffix(".bin").write_bytes(content)
    file.with_suffix(".txt").write_text(reason[-20000:], encoding="utf-8", errors="backslashreplace")


def mutate(trial: Trial, corpus: Path, words: tuple[str, ...], seconds: float, seed: int) -> None:
    """Change bytes of what has reached new code so far, by libFuzzer; this ends the process."""
    import atheris

    options = [f"-max_total_time={max(1, int(seconds))}", f"-seed={seed}", f"-max_len={_LONGEST}", "-rss_limit_mb=0",
               "-timeout=1200", "-print_final_stats=0"]
    if words:  # libFuzzer refuses an empty dictionary
        dictionary = corpus.with_suffix(".words")
        escaped = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in words)
        dictionary.write_text("".join(f'"{word}"\n' for word in escaped))
        options.append(f"-dict={dictionary}")
    atheris.Setup([sys.argv[0], str(corpus), *options], trial)
    atheris.Fuzz()


def invent(trial: Trial, inputs: Any, seconds: float, seed: int, most: int | None = None) -> None:
    """Give what a strategy of Hypothesis makes, for some seconds or a number of inputs."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        @seeded(seed)
        @settings(max_examples=most or 500, database=None, deadline=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck), derandomize=False)
        @given(inputs)
        def each(content: bytes) -> None:
            if time.monotonic() < end:
                trial(content)

        each()
        seed += 1_000_003
        if most is not None:
            return


@contextmanager
def _limited(read: Callable[[bytes], object], seeds: list[bytes]) -> Iterator[None]:
    """Within, memory is limited; before, the sound inputs have loaded what their reader needs."""
    for content in seeds:
        try:
            read(content)
        except Exception as error:  # packed lines, for one, are no plain ones
            if type(error).__name__ not in ALLOWED:
                raise
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def main() -> None:
    engine, name, folder, findings, seconds, seed = sys.argv[1:]
    if engine == "mutation":
        import atheris

        with atheris.instrument_imports(include=list(_CODE), exclude=list(_COMPILED)):
            readers = importlib.import_module("benchmarks.fuzz_readers")
    elif engine == "coverage":
        _measure(name, Path(folder), int(seed))
        return
    else:
        readers = importlib.import_module("benchmarks.fuzz_readers")
    reader, places, corpus = _open(readers, name, Path(folder))
    seeds = list(reader.seeds(places.run))
    trial = Trial(name, lambda content: reader.read(content, places), State(corpus.with_suffix(f".{engine}")),
                  Path(findings), f"python -m benchmarks.fuzz_worker {engine}, seed {seed}")
    with _limited(lambda content: reader.read(content, places), seeds):
        if engine == "mutation":
            for number, content in enumerate(seeds):
                (corpus / f"seed{number}").write_bytes(content)
            mutate(trial, corpus, reader.words, float(seconds), int(seed))
        else:
            invent(trial, reader.structured(places.run), float(seconds), int(seed))


def _open(readers: Any, name: str, folder: Path) -> tuple[Any, Any, Path]:
    """A reader, its places and its corpus."""
    corpus = folder / "corpus" / name.replace(" ", "_").replace(":", "")
    scratch = corpus.with_suffix(".scratch")
    for made in (corpus, scratch):
        made.mkdir(parents=True, exist_ok=True)
    return readers.READERS[name], readers.Places(folder / "run", scratch), corpus


def _measure(name: str, folder: Path, seed: int) -> None:
    """Print how many lines of a reader's files the whole corpus and 300 invented inputs run, and how many there are."""
    from coverage import Coverage

    root = Path(__file__).parents[1]
    coverage = Coverage(data_file=None, config_file=False, include=[str(root / "pipeline/*")])
    coverage.start()
    readers = importlib.import_module("benchmarks.fuzz_readers")
    reader, places, corpus = _open(readers, name, folder)
    trial = Trial(name, lambda content: reader.read(content, places), State(corpus.with_suffix(".coverage")),
                  corpus.with_suffix(".again"), "coverage", patience=_TRACED * HANG)
    for path in sorted(corpus.iterdir()):
        trial(path.read_bytes())
    invent(trial, reader.structured(places.run), 60, seed, most=300)
    coverage.stop()
    run = total = 0
    for file in reader.code:
        _, statements, _, missing, _ = coverage.analysis2(str(root / file))
        run, total = run + len(statements) - len(missing), total + len(statements)
    print(run, total)


if __name__ == "__main__":
    main()
