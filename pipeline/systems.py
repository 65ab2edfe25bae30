"""What a run trains and evaluates: its `systems`, and the families that they start from.

`families` is the catalogue, `systems` the choice. dvc.yaml cannot follow references, so it reads two tables, `students`
and `lattices`, which give for every family that the systems need the one that it starts from.
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pipeline.blocks import convert, merge, mistakes_in
from pipeline.errors import PipelineError
from pipeline.families.settings import KINDS, FamilySettings, kind_settings
from pipeline.names import check_name
from pipeline.strict_yaml import read_yaml

TEACHER = "teacher"
TABLES = tuple(dict.fromkeys(kind_settings(kind).table for kind in KINDS))
"""The names of the tables: `students`, and those of kinds that depend on further stages."""

Students = Mapping[str, Mapping[str, str]]
"""Per table, the families that dvc.yaml trains from it, each with its `start`."""


def lay_over(content: dict[str, Any], preset: Path) -> dict[str, Any]:
    """The content of params.yaml updated by a preset, as in a profile's params.yaml.

    Raises:
        PipelineError: the preset, or one that it extends, cannot be read, or contains a table that follows from its
            systems; or it extends itself.
    """
    for _, changes in _extended(preset, []):
        content = merge(content, changes)
    return with_students(content)


def check_preset(content: dict[str, Any], preset: Path, check: Callable[[dict[str, Any]], object]) -> None:
    """Check the content of params.yaml updated by a preset.

    Args:
        content: of params.yaml.
        preset: a file.
        check: raises a PipelineError if it refuses such content.

    Raises:
        PipelineError: it is refused. The message begins with the file since which it is: params.yaml, the preset, or
            one that this extends.
    """
    origin, refusal = "", ""
    for file, changes in (("params.yaml", {}), *_extended(preset, [])):
        content, found = merge(content, changes), ""
        try:
            check(with_students(content))
        except PipelineError as error:
            found = str(error)
        if found.partition(";")[0] != refusal.partition(";")[0]:  # a remedy may list what another file has added
            origin = file
        refusal = found
    if refusal:
        with mistakes_in(origin):
            raise PipelineError(refusal)


def _extended(preset: Path, extending: list[Path]) -> list[tuple[str, dict[str, Any]]]:
    """The changes that a preset makes, in their order: those of the presets that it `extends` come first.

    Args:
        preset: a file.
        extending: the presets that extend it, directly or indirectly.

    Returns:
        Per file its name, for error messages with those of the presets that extend it, and its changes.
    """
    if preset in extending:
        raise PipelineError(f"{extending[-1]}: extends: {preset.stem} extends it as well; remove one of them")
    changes = read_yaml(preset)
    for table in TABLES:
        if table in changes:
            raise PipelineError(f"{preset}: {table} follows from `systems`; remove it, and give each family of yours "
                                "that does not start from the teacher a `start`")
    named = changes.pop("extends", [])
    with mistakes_in(preset):
        names = convert(tuple[str, ...], named if isinstance(named, list) else [named], "extends")
        for name in names:
            check_name(name, "extends")
    earlier = [_extended(preset.with_name(f"{name}.yaml"), [*extending, preset]) for name in names]
    return [*chain.from_iterable(earlier), (", extended by ".join(map(str, [preset, *reversed(extending)])), changes)]


def with_students(content: dict[str, Any]) -> dict[str, Any]:
    """The content of params.yaml with the tables of students that its `systems` need.

    A system needs the family that it starts from, and that family its own start, up to the teacher.

    >>> families = {"teacher": {}, "ar": {}, "drafter": {"start": "ar"}, "lattice": {"kind": "lattice"}, "nat": {}}
    >>> chosen = with_students({"families": families, "systems": ["teacher", "drafter", "lattice"]})
    >>> chosen["students"], chosen["lattices"]
    ({'ar': 'teacher', 'drafter': 'ar'}, {'lattice': 'teacher'})
    """
    blocks, systems, starts = content.get("families"), content.get("systems"), dict[str, str]()
    if not (isinstance(blocks, dict) and isinstance(systems, list) and all(isinstance(name, str) for name in systems)):
        return content  # `parse_params` will refuse it

    def start_of(name: str) -> str:
        return convert(str, blocks[name].get("start") or TEACHER, f"families.{name}.start")

    for system in systems:
        chain = list[str]()
        while isinstance(blocks.get(system), dict) and system not in (TEACHER, *starts, *chain):
            chain.append(system)
            system = start_of(system)
        starts |= {name: start_of(name) for name in reversed(chain)}
    tables = {name: FamilySettings.variant(merge({}, blocks[name]), f"families.{name}").table  # without nulls
              for name in starts}
    return {**content, **{table: {name: start for name, start in starts.items() if tables[name] == table}
                          for table in TABLES}}


def check_systems(systems: tuple[str, ...], families: Mapping[str, FamilySettings], students: Students) -> None:
    """Raise a PipelineError unless the tables of students hold what the systems need, each family in its own table."""
    starts = {name: start for table in students.values() for name, start in table.items()}
    for name in systems:
        find_family(name, families, "systems")
    for name in systems:
        if name not in (TEACHER, *starts):
            raise PipelineError(f"params.yaml: systems: {name} is not trained; add {name}: "
                                f"{families[name].start or TEACHER} to {families[name].table}, which dvc.yaml reads")
    for table, rows in students.items():
        for student in rows:
            ancestors = _ancestors(student, students, starts)
            family = find_family(student, families, table)
            _check_start(student, families, ancestors)
            if family.table != table:
                raise PipelineError(f"params.yaml: {table}.{student}: a family of kind {family.kind} does not belong "
                                    f"there; {_who_belongs_where()}")
    for student, start in starts.items():
        family = families[student]
        if family.start not in ("", start):
            raise PipelineError(f"params.yaml: families.{student}.start is {family.start!r}, but "
                                f"{family.table}.{student}, which dvc.yaml reads, is {start!r}; make them agree")
        if family.verifier not in (None, start):
            raise PipelineError(f"params.yaml: families.{student}.drafting.verifier is {family.verifier!r}, but "
                                f"{family.table}.{student} is {start!r}; a drafter starts from its verifier")


def check_sides(needed: Collection[str], families: Mapping[str, FamilySettings], sentences: int | None,
                noise: bool) -> None:
    """Raise a PipelineError unless a run makes the training data of every family that it trains.

    Args:
        needed: the families that are trained.
        families: all of them.
        sentences: the number of sentences that are distilled; None: all.
        noise: whether the corpus has synthetic pairs.
    """
    for name in needed:
        side = find_family(name, families, "systems").data.side
        if side == "synthetic" and not noise:
            raise PipelineError(f"params.yaml: families.{name}.data.side is 'synthetic', but the corpus has no "
                                "synthetic pairs; set corpus.noise, or another side")
        if side in ("distilled", "both") and name == TEACHER:
            raise PipelineError(f"params.yaml: families.{name}.data.side is {side!r}, but distilled data are what the "
                                "teacher translates once it is trained; set it to raw")
        if side in ("distilled", "both") and sentences is not None:
            raise PipelineError(f"params.yaml: families.{name}.data.side is {side!r}, but distillation.sentences "
                                f"leaves distilled data of only {sentences} sentences; remove distillation.sentences, "
                                "or set the side to raw")


def find_family(name: str, families: Mapping[str, FamilySettings], where: str) -> FamilySettings:
    """The family of that name.

    Raises:
        PipelineError: there is no such family; the message begins with the option or key that names it, `where`.
    """
    if name not in families:
        near = difflib.get_close_matches(name, families, 1)
        raise PipelineError(f"{where}: family {name!r} is unknown; {f'did you mean {near[0]}? ' if near else ''}"
                            f"params.yaml has {', '.join(families)}")
    return families[name]


def _ancestors(student: str, students: Students, starts: Mapping[str, str]) -> list[str]:
    """The families that a student begins with, from its `start` to the teacher, to which all must lead."""
    chain = [student]
    while chain[-1] != TEACHER:
        start = starts.get(chain[-1])
        if start is None or start in chain:
            table = next((table for table, rows in students.items() if chain[-1] in rows), "students")
            raise PipelineError(f"params.yaml: {table}.{chain[-1]} starts from {start!r}; it must be {TEACHER} or a "
                                "student that does not start from it")
        chain.append(start)
    return chain[1:]


def _check_start(student: str, families: Mapping[str, FamilySettings], ancestors: list[str]) -> None:
    """Check that a student can begin with the weights that it is to take."""
    family = families[student]
    named = family.start_with.family
    if named not in ("", *ancestors):
        raise PipelineError(f"params.yaml: families.{student}.start_with.family: {named!r} is not what its start began "
                            f"with; choose one of {', '.join(ancestors)}")
    if family.takes_weights:
        given = find_family(named or ancestors[0], families, f"families.{student}")
        try:
            family.network.copies_of(given.network)
        except PipelineError as error:
            raise PipelineError(f"params.yaml: families.{student}.{error}") from None


def _who_belongs_where() -> str:
    """The kinds of family that each table trains."""
    special = {table: [kind for kind in KINDS if kind_settings(kind).table == table] for table in TABLES[1:]}
    return ", ".join([*(f"`{table}` trains those of kind {', '.join(kinds)}" for table, kinds in special.items()),
                      f"`{TABLES[0]}` all others"])
