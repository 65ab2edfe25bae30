"""The number of cores: those of the process, and what a container's quota is worth."""

import os
from pathlib import Path

import pytest

from pipeline import cores


@pytest.mark.parametrize(("quota", "expected"), [("150000 100000", 2), ("1600000 100000", 8), ("50000 100000", 1),
                                                 ("max 100000", 8), ("", 8), (None, 8)])
def test_a_quota_counts_as_cores(quota: str | None, expected: int, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(cores, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert cores.usable_cores() == expected
