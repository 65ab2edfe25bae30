"""Text that is compressed by zstandard, Parquet, and the bar that shows how much of a file has been read."""

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import lines
from pipeline.blocks import build
from pipeline.errors import PipelineError
from pipeline.lines import read_lines
from pipeline.sources.build import read_splits
from pipeline.sources.settings import CorpusSettings

TEXT = "ein Füchslein\r\n\nzwei\u2028Zeilen\nohne Ende"


@pytest.mark.parametrize("at_once", [1, 7, 1 << 17])
def test_zstandard_is_read_like_plain_text(tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    zstandard = pytest.importorskip("zstandard")
    monkeypatch.setattr(lines, "_PACKED", at_once)
    plain, packed = tmp_path / "plain", tmp_path / "packed.zst"
    plain.write_bytes(TEXT.encode())
    whole = TEXT.encode()
    packed.write_bytes(b"".join(zstandard.compress(part) for part in (whole[:20], b"", whole[20:])))  # three frames
    assert list(read_lines(packed)) == list(read_lines(plain)) == ["ein Füchslein", "", "zwei\u2028Zeilen", "ohne Ende"]


@pytest.mark.parametrize("spoil", [lambda packed: packed[:-3], lambda packed: b"no frame" + packed])
def test_a_truncated_or_damaged_file_is_no_shorter_corpus(tmp_path: Path, spoil: object) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "packed.zst"
    path.write_bytes(spoil(zstandard.compress(TEXT.encode() * 100)))  # type: ignore[operator]
    with pytest.raises(PipelineError, match=r"packed\.zst: cannot be decompressed"):
        list(read_lines(path))


def settings_for(folder: Path, **more: str) -> CorpusSettings:
    path = str(folder / "pairs.parquet")
    return build(CorpusSettings, {"source": "parquet", "parquet": {"train": path, "validation": path, "test": path,
                                                                   **more}}, "corpus")


def test_parquet_has_columns_or_structures(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"en": "a fox", "de": "ein Fuchs"}, {"en": "b", "de": None}]
    for more, content in (({}, rows), ({"field": "both"}, [{"both": row} for row in rows])):
        parquet.write_table(pyarrow.Table.from_pylist(content), tmp_path / "pairs.parquet", row_group_size=1)
        settings = settings_for(tmp_path, **more)
        assert list(read_splits(settings)["test"]) == [("a fox", "ein Fuchs"), ("b", "")]
        assert settings.reader.inputs(settings.block) == [str(tmp_path / "pairs.parquet")] * 3
    parquet.write_table(pyarrow.Table.from_pylist([{"both": row, "reference2": "ein Rotfuchs"} for row in rows]),
                        tmp_path / "pairs.parquet")
    splits = read_splits(settings_for(tmp_path, field="both"))
    assert (next(iter(splits["train"])), next(iter(splits["test"]))) == (
        ("a fox", "ein Fuchs"), ("a fox", "ein Fuchs", "ein Rotfuchs"))
    with pytest.raises(PipelineError, match=r"row 1 has the columns both, reference2 but .* corpus\.parquet\.field"):
        list(read_splits(settings_for(tmp_path))["train"])
    (tmp_path / "pairs.parquet").write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match="cannot be read as Parquet"):
        list(read_splits(settings_for(tmp_path))["train"])


def packed_by_zstandard(text: bytes) -> bytes:
    return pytest.importorskip("zstandard").compress(text)


@pytest.mark.parametrize(("ending", "pack"), [("txt", bytes), ("gz", gzip.compress), ("zst", packed_by_zstandard)])
def test_a_bar_knows_the_end_of_a_file(ending: str, pack: Callable[[bytes], bytes], tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"sentence {number * number}" for number in range(50_000)]
    path = tmp_path / f"train.{ending}"
    path.write_bytes(pack("\n".join(texts).encode()))
    for on_terminal in (False, True):
        screen = terminal(monkeypatch, on_terminal)
        assert list(read_lines(path, progress=True)) == texts == list(read_lines(path))
        assert (f"{path.name}: 100%" in screen.getvalue()) is on_terminal
    screen, part = terminal(monkeypatch, True), read_lines(path, progress=True)
    next(part)
    del part
    assert "100%" not in screen.getvalue() and screen.getvalue().endswith("\n")


def test_a_bar_knows_the_end_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([{"en": "a", "de": "b"}] * 9), tmp_path / "pairs.parquet")
    screen = terminal(monkeypatch, True)
    assert len(list(read_splits(settings_for(tmp_path))["train"])) == 9
    assert "pairs.parquet: 100%" in screen.getvalue() and "9/9" in screen.getvalue()


def terminal(monkeypatch: pytest.MonkeyPatch, is_one: bool) -> io.StringIO:
    """What standard error is from now on."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: is_one, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    return screen
