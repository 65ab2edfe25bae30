"""A headless browser for tests of pages: Chromium of the system, by its DevTools protocol over two pipes."""

import base64
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Chromium reads descriptor 3 and writes descriptor 4. The pipe's own may have these numbers, so they are moved first.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
for descriptor, end in enumerate(ends, 3):
    os.dup2(end, descriptor)
os.execvp(sys.argv[3], sys.argv[3:])
"""

_PATIENCE = 60
"""Seconds without an answer or event after which a browser hangs; usually there are milliseconds."""


class Browser:
    """One page of a running Chromium."""

    def __init__(self, requests: int, answers: int) -> None:
        """Args: file descriptors, to write requests to and to read answers from."""
        self._requests, self._answers, self._number, self._rest = requests, answers, 0, b""
        self.seen: list[dict[str, Any]] = []
        """Events, in their order."""
        self._session: str | None = None
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.seen.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        result = self.do("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def open(self, url: str) -> None:
        """Load a page completely."""
        self.do("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.seen):
            self.seen.append(self._receive())

    def press_enter(self) -> None:
        """Press Enter where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.do("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)

    def picture(self, path: Path) -> None:
        """Write a PNG of the whole page."""
        shot = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._answers], [], [], _PATIENCE)[0]:
                raise RuntimeError(f"the browser has been silent for {_PATIENCE} seconds; its last events: "
                                   f"{[event.get('method') for event in self.seen[-5:]]}")
            read = os.read(self._answers, 2**16)
            if not read:
                raise RuntimeError("the browser has ended")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextmanager
def browse(program: str, folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in a folder, ended together with the block."""
    (its_input, requests), (answers, its_output) = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
               "--disable-extensions", "--disable-background-networking", f"--user-data-dir={folder}",
               "--window-size=1200,900", "--remote-debugging-pipe"]
    process = subprocess.Popen([sys.executable, "-c", _START, str(its_input), str(its_output), program, *options],
                               pass_fds=(its_input, its_output), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(its_input)
    os.close(its_output)
    try:
        browser = Browser(requests, answers)
        yield browser
    finally:
        os.close(requests)
        os.close(answers)
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
