"""How long do 200 simultaneous requests to `serve` wait, and what does batching buy?

    python -m benchmarks.service    # after `dvc repro`, in the folder of its params.yaml

Three services of the baseline, each in a process of its own, get the same sentences of the test split in turn: one
batches as by default, one also has a window, and one batches nothing. The sentences come from one client, one after
another, and from 200 clients at once, each on a connection of its own. Latency is from the request's first byte to the
answer's last.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.clock import RESULTS, about, argument_parser, in_turns, table
from pipeline import layout
from pipeline.files import write_json
from pipeline.params import load_params

CLIENTS, REPETITIONS = 200, 11
DECODERS = ("greedy", "beam5")
SERVICES = {"batched": (), "window of 2 ms": ("--window", "2"), "one by one": ("--batch-rows", "1")}
COLUMNS = ("p50_ms", "p95_ms", "p99_ms", "sentences_per_second")


@contextmanager
def service(family: str, options: Sequence[str]) -> Iterator[int]:
    """The port of a service, which is stopped after the block."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-m", "pipeline", "serve", "--family", family, "--port", "0", *options],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            assert found, "the service has not started"
            yield int(found[1])
        finally:
            process.terminate()


async def client(port: int, decoder: str, lines: Sequence[str]) -> list[tuple[str, float]]:
    """Translations, asked for one after another on one connection, and their latencies in seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for line in lines:
        body = json.dumps({"text": line, "decoder": decoder}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        started = perf_counter()
        writer.write(head.encode() + b"\r\n\r\n" + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = re.search(r"content-length: (\d+)", answer)
        assert answer.startswith("HTTP/1.1 200 ") and size, answer
        content = json.loads(await reader.readexactly(int(size[1])))
        answers.append((content["translations"][0]["text"], perf_counter() - started))
    writer.close()
    await writer.wait_closed()
    return answers


async def load(port: int, decoder: str, lines: Sequence[str], clients: int) -> tuple[list[str], dict[str, float]]:
    """The translations of all lines, shared between clients, and the figures of `COLUMNS`."""
    started = perf_counter()
    found = await asyncio.gather(*(client(port, decoder, lines[first::clients]) for first in range(clients)))
    seconds = perf_counter() - started
    p50, p95, p99 = np.quantile([latency for answers in found for _, latency in answers], (0.5, 0.95, 0.99)) * 1000
    texts = [found[number % clients][number // clients][0] for number in range(len(lines))]
    return texts, dict(zip(COLUMNS, (p50, p95, p99, len(lines) / seconds), strict=True))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "service.json", help="where to write the result")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**about(["starlette", "uvicorn", "torch"]), "requests": CLIENTS,
                              "repetitions": REPETITIONS, "rows": []}
    lines = [line for line in layout.read_corpus(layout.CORPUS / "test.source") if line.split()][:CLIENTS]
    with ExitStack() as running:
        ports = {name: running.enter_context(service(load_params().baseline, options))
                 for name, options in SERVICES.items()}
        for decoder in DECODERS:
            for clients in (1, CLIENTS):
                runs: dict[str, list[dict[str, float]]] = {name: [] for name in ports}
                texts = set()
                for _, name in in_turns(ports, REPETITIONS):
                    found, figures = asyncio.run(load(ports[name], decoder, lines, clients))
                    runs[name].append(figures)
                    texts.add(tuple(found))
                assert len(texts) == 1, "translations differ"
                # Of the repetition with the median throughput.
                result["rows"] += [{"service": name, "decoder": decoder, "clients": clients,
                                    **sorted(repeated, key=lambda one: one["sentences_per_second"])[REPETITIONS // 2]}
                                   for name, repeated in runs.items()]
    print(table(["service", "decoder", "clients", "p50 ms", "p95 ms", "p99 ms", "sentences/s"], [
        [row["service"], row["decoder"], str(row["clients"]), *(f"{row[column]:.1f}" for column in COLUMNS)]
        for row in result["rows"]]))
    write_json(arguments.output, result)


if __name__ == "__main__":
    main()
