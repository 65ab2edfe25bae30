"""What is made of a grid: text for the terminal, pictures with the same bytes, and a page that a browser runs."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.jacobi.grid import Cell, Grid
from pipeline.evaluation.analyses.jacobi.page import render_page
from pipeline.evaluation.analyses.jacobi.picture import draw
from pipeline.evaluation.analyses.jacobi.sentence import Inspected, render

PIECES = ["<pad>", "▁one", "▁two", "▁three", "</s>", '<img src="x" onerror="throw 1">', "$\\frac{", "${source}"]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_a_browser = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")


def inspected(*rows: list[int], warning: str | None = None) -> Inspected:
    """Of iterates that end in the right one."""
    cells = [[Cell(token, 0.25 + 0.5 * (token == right), token == right)
              for token, right in zip(row, rows[-1], strict=True)] for row in rows]
    return Inspected('A "lamp" & <b>', "one & <i>two", Grid(cells, True), PIECES, warning)


EXAMPLE = inspected([1, 1, 3, 3], [1, 2, 1, 4], [1, 2, 3, 4])
"""They settle in iterations 1, 2, 3 and 2."""
NASTY = inspected([7, 5, 6, 6], [5, 5, 6, 6], [5, 6, 5, 7], [5, 6, 7, 4], warning="cut < here")


def test_text() -> None:
    assert render(EXAMPLE, 80) == (
        '  A "lamp" & <b>\n'
        "\n"
        "     1     2       3         4\n"
        "  1  ▁one  ~▁one~  (▁three)  ~▁three~\n"
        "  2  ·     ▁two    ~▁one~    </s>\n"
        "  3  ·     ·       ▁three    ·\n"
        "\n"
        "  = one & <i>two\n"
        "    4 tokens in 3 iterations, 1.33 per iteration; 2 settled together with others\n"
        "    rows: iterations; a token: it settles; ~wrong~; (right, but changes again); · settled before\n")


@pytest.mark.parametrize(("width", "bands"), [(20, ["1 2", "3", "4"]), (1, ["1", "2", "3", "4"]), (99, ["1 2 3 4"])])
def test_text_is_as_wide_as_the_terminal(width: int, bands: list[str]) -> None:
    lines = render(EXAMPLE, width).split("\n  = ")[0].splitlines()[1:]
    assert [" ".join(line.split()) for line in lines if line.startswith("     ")] == bands
    # In the last band nothing settles but the end symbol, in iteration 2.
    if width < 99:
        assert lines[-1].split() == ["2", "</s>"] and max(map(len, lines)) <= max(width, 15)


@pytest.mark.parametrize("one", [EXAMPLE, NASTY, inspected([4])], ids=["example", "nasty", "empty translation"])
def test_pictures_are_the_same_bytes(one: Inspected) -> None:
    png, svg = chart.png(draw(one)), chart.svg(draw(one))
    assert (png, svg) == (chart.png(draw(one)), chart.svg(draw(one)))
    assert png.startswith(b"\x89PNG") and b"<dc:date>" not in svg
    assert png != chart.png(draw(inspected([1, 2, 3, 4])))


class Tags(HTMLParser):
    """Counts start tags and keeps what buttons say."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.buttons: list[dict[str, str | None]] = []
        self.classes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag == "button":
            self.buttons.append(dict(attrs))
        if tag == "td":
            self.classes.append(dict(attrs).get("class") or "")


def test_the_page_holds_the_grid() -> None:
    page = Tags(render_page(EXAMPLE, "en", "xx"))
    assert page.count["td"] == 1 + 3 * 4 and page.count["tr"] == 1 + 3  # the corner is a cell too
    assert page.classes[1:] == ["settles", "wrong together", "lucky", "wrong together",
                                "settled", "settles together", "wrong", "settles together",
                                "settled", "settled together", "settles", "settled together"]
    assert [(one["data-settled"], one["data-before"]) for one in page.buttons] == [
        ("1", ""), ("2", "0"), ("3", "1"), ("2", "0")]
    assert page.count["path"] == 1 + 3  # an arrow's tip, and three arrows


def test_the_page_takes_text_for_text() -> None:
    page = render_page(NASTY, 'en"><script>', "xx")
    tags = Tags(page).count
    assert "img" not in tags and tags["script"] == 1 and "b" not in tags and "i" not in tags
    assert "${source}" in page and "cut &lt; here" in page
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#)""", page.replace("src=&quot;", ""))


def browse(page: str, folder: Path, fragment: str = "") -> tuple[str, list[str]]:
    """What a browser makes of a page, and what it has to say on its console."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                           "--enable-logging=stderr", "--v=0", f"--user-data-dir={folder / 'profile'}", "--dump-dom",
                           path.as_uri() + fragment], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@needs_a_browser
def test_a_browser_runs_the_page(tmp_path: Path) -> None:
    dom, console = browse(render_page(NASTY, "en", "xx"), tmp_path, "#token-3")
    assert console == []
    page = Tags(dom)
    assert page.count["td"] == 1 + 4 * 4 and "img" not in page.count
    # The third token, chosen by the address, settles in iteration 4; it depends on the second, that on the first.
    columns = [page.classes[1 + place::4] for place in range(4)]
    assert all("chosen" in names for names in columns[2]) and all("direct" in names for names in columns[1])
    assert all("reached" in names and "direct" not in names for names in columns[0])
    assert not any(state in names for names in columns[3] for state in ("chosen", "direct", "reached"))
    text = re.sub(r"<[^>]*>", "", dom)
    assert "${source} (3) settles in iteration 4" in text and "May depend on $\\frac{ (2)." in text
    assert page.count["li"] == 5 + 4  # the key, and a bar for each iteration


@needs_a_browser
def test_a_console_that_is_not_silent_is_heard(tmp_path: Path) -> None:
    broken = render_page(EXAMPLE, "en", "xx").replace("<script>", "<script>nowhere();")
    assert any("nowhere is not defined" in line for line in browse(broken, tmp_path)[1])
