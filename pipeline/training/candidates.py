"""Candidates: the weights kept at validations, whose average becomes the final model."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pipeline.checksums import record
from pipeline.errors import PipelineError
from pipeline.files import read_json, remove, write_json
from pipeline.fingerprint import digest
from pipeline.model.checkpoint import average_weights, read_weights, write_weights

INDEX = "index.json"


@dataclass(frozen=True)
class Candidate:
    """Weights of one step."""

    step: int
    score: float | None
    """How good the validation was (`TranslationModule.watched`); None if the step was not validated."""


class Candidates:
    """The N last or best candidates, in a folder, which holds all their state; others are removed."""

    def __init__(self, folder: Path, count: int, by: str) -> None:
        """Args:
            folder: of the candidates.
            count: N.
            by: `last` or `best` (by validation; of two equally good ones the later step).
        """
        self._folder, self._count, self._by = folder, count, by

    def begin(self) -> None:
        """Write an empty list unless there is one: a run that has no candidates yet has lost none."""
        if not os.path.exists(self._folder / INDEX):
            self._write_index([])

    def add(self, candidate: Candidate, weights: dict[str, Tensor]) -> None:
        """Keep weights, and remove those that are no longer among the N."""
        write_weights(self._path(candidate), weights)
        record(self._folder, [self._path(candidate).name])
        known = [other for other in self._known() if other.step != candidate.step] + [candidate]
        kept = self._ranked(known)[:self._count]
        self._write_index(kept)
        for other in known:
            if other not in kept:
                remove(self._path(other))

    def forget_after(self, step: int) -> None:
        """Remove candidates after the step at which a run resumes, which will make them again."""
        known = self._known()
        later = [one for one in known if one.step > step]
        if later:
            self._write_index([one for one in known if one.step <= step])
        for one in later:
            remove(self._path(one))

    def damaged(self) -> Path | None:
        """The first missing or damaged file of those that a run with a resume point must have; None: all are valid."""
        index = self._folder / INDEX
        try:
            known = self._known()
        except (PipelineError, KeyError, TypeError):
            return index
        for one in known:
            try:
                read_weights(self._path(one))
            except PipelineError:
                return self._path(one)
        return None if os.path.exists(index) else index

    def average(self) -> tuple[dict[str, Tensor], list[Candidate]]:
        """The mean of the candidates' weights, and the candidates.

        Raises:
            PipelineError: there are no candidates, or a file is missing or damaged.
        """
        chosen = self._known()
        if not chosen:
            raise PipelineError(f"{self._folder}: no step was trained; let the trainer's options allow one")
        paths = [self._path(one) for one in chosen]
        return average_weights([read_weights(path) for path in paths], [str(path) for path in paths]), chosen

    def _ranked(self, known: list[Candidate]) -> list[Candidate]:
        if self._by == "last":
            return sorted(known, key=lambda one: -one.step)
        # A step without a validation is better than nothing, but not than one with a score.
        return sorted(known, key=lambda one: (one.score is None, -(one.score or 0.0), -one.step))

    def _known(self) -> list[Candidate]:
        index = self._folder / INDEX
        if not os.path.exists(index):
            return []
        content = read_json(index)
        if content["sha256"] != _digest(content["candidates"]):
            raise PipelineError(f"{index}: damaged: its SHA-256 is not that of its entries; remove {self._folder} and "
                                "train again")
        return [Candidate(**one) for one in content["candidates"]]

    def _write_index(self, kept: list[Candidate]) -> None:
        entries = [asdict(one) for one in sorted(kept, key=lambda one: one.step)]
        write_json(self._folder / INDEX, {"candidates": entries, "sha256": _digest(entries)})

    def _path(self, candidate: Candidate) -> Path:
        return self._folder / f"step-{candidate.step:08d}.safetensors"


def _digest(entries: list[dict[str, Any]]) -> str:
    return digest(json.dumps(entries).encode())
