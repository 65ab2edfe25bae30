"""Weights put aside for the average: the right ones stay, whatever happens."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.checksums import SUMS
from pipeline.files import read_json
from pipeline.training import candidates as module
from pipeline.training.candidates import INDEX, Candidate, Candidates


def weights(step: int) -> dict[str, torch.Tensor]:
    return {"matrix": torch.full((2, 2), float(step)), "bias": torch.tensor([step / 7])}


def steps(candidates: Candidates) -> list[int]:
    return sorted(one.step for one in candidates.average()[1])


def add_all(candidates: Candidates, scores: dict[int, float | None]) -> None:
    for step, bleu in scores.items():
        candidates.add(Candidate(step, bleu), weights(step))


def test_the_last_ones_stay(tmp_path: Path) -> None:
    last = Candidates(tmp_path, 3, "last")
    add_all(last, {4: 9.0, 8: 8.0, 12: 7.0, 16: 6.0, 18: None})
    mean, chosen = last.average()
    assert [one.step for one in chosen] == [12, 16, 18]
    assert chosen[0].score == 7.0 and chosen[2].score is None
    assert torch.equal(mean["matrix"], torch.full((2, 2), (12 + 16 + 18) / 3))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        SUMS, INDEX, *(f"step-{step:08d}.safetensors" for step in (12, 16, 18))]


def test_the_best_ones_stay(tmp_path: Path) -> None:
    best = Candidates(tmp_path, 2, "best")
    add_all(best, {4: 5.0, 8: 9.0, 12: 9.0, 16: 9.0, 18: None})
    assert steps(best) == [12, 16]  # of equals the later ones; one without a score is the last resort


def test_a_step_without_a_score_is_better_than_nothing(tmp_path: Path) -> None:
    best = Candidates(tmp_path, 2, "best")
    add_all(best, {4: None})
    assert steps(best) == [4]
    add_all(best, {8: 0.0, 12: None})
    assert steps(best) == [8, 12]


@settings(max_examples=25)
@given(scores=st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=8), count=st.integers(1, 4),
       by=st.sampled_from(["last", "best"]))
def test_what_stays_is_what_a_sort_would_choose(tmp_path_factory: pytest.TempPathFactory,
                                                 scores: list[float | None], count: int, by: str) -> None:
    folder = tmp_path_factory.mktemp("candidates")
    kept = Candidates(folder, count, by)
    add_all(kept, dict(enumerate(scores)))
    ranked = sorted(enumerate(scores), key=lambda one: (-1.0 if by == "last" or one[1] is None else one[1], one[0]))
    assert steps(kept) == sorted(step for step, _ in ranked[-count:])


def test_a_step_that_comes_again_counts_once(tmp_path: Path) -> None:
    last = Candidates(tmp_path, 2, "last")
    add_all(last, {4: 1.0, 8: 2.0})
    last.add(Candidate(8, 3.0), weights(80))
    mean, chosen = last.average()
    assert [(one.step, one.score) for one in chosen] == [(4, 1.0), (8, 3.0)]
    assert torch.equal(mean["matrix"], torch.full((2, 2), 42.0))


def test_what_came_after_the_resume_point_is_forgotten(tmp_path: Path) -> None:
    last = Candidates(tmp_path, 3, "last")
    add_all(last, {4: 1.0, 8: 2.0, 12: 3.0})
    last.forget_after(8)
    assert steps(last) == [4, 8]
    assert not (tmp_path / "step-00000012.safetensors").exists()
    last.forget_after(8)
    assert steps(last) == [4, 8]
    Candidates(tmp_path / "nothing yet", 3, "last").forget_after(0)
    assert not (tmp_path / "nothing yet").exists()


@pytest.mark.parametrize("moment", ["write_json", "remove"])
def test_killed_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Between any two of its writes, what is on disk is a list of weights that are all there."""
    add_all(Candidates(tmp_path, 2, "last"), {4: 1.0, 8: 2.0})

    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, moment, kill)
        with pytest.raises(Killed):
            add_all(Candidates(tmp_path, 2, "last"), {12: 3.0})
    again = Candidates(tmp_path, 2, "last")
    assert steps(again) == ([4, 8] if moment == "write_json" else [8, 12])
    again.forget_after(8)  # as a resumed run does
    add_all(again, {12: 3.0, 16: 4.0})
    assert steps(again) == [12, 16]
    assert [one["step"] for one in read_json(tmp_path / INDEX)["candidates"]] == [12, 16]
