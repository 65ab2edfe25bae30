"""dvc.yaml and the facts: every stage depends on the code that it imports, or here is the reason why it need not."""

from functools import cache
from pathlib import Path

import pytest

from pipeline.families.settings import KINDS
from pipeline.fingerprint import training_code
from pipeline.imports import imports as static_imports
from pipeline.imports import modules
from pipeline.strict_yaml import read_yaml

ROOT = Path(__file__).parents[1]
HARMLESS = {
    "pipeline.allocator": "where tensors lie, not what is in them",
    "pipeline.blocks": "checks params.yaml, whose values are parameters of the stages",
    "pipeline.checks": "checks values",
    "pipeline.checksums": "digests of what is written; what they are of, others decide",
    "pipeline.cores": "any number of threads gives the same result; what is timed depends on data/machine.json",
    "pipeline.errors": "what is told when nothing is written",
    "pipeline.extras": "what is told when nothing is written",
    "pipeline.files": "writes files whole or not at all, whatever is in them",
    "pipeline.fingerprint": "names states of data and code; a killed run that continues ends as an uninterrupted one",
    "pipeline.git": "names the commit that figures are from",
    "pipeline.layout": "names the paths that dvc.yaml declares",
    "pipeline.names": "checks names, which are parameters of the stages",
    "pipeline.params": "checks params.yaml, whose values are parameters of the stages",
    "pipeline.systems": "checks which systems params.yaml chooses",
    "pipeline.training.quiet": "messages",
    "pipeline.training.together": "whether the processes of a run begin, and when they end",
    "pipeline.documents.plain": "is of --model, which no stage has",
    "pipeline.model_options": "is of --model, which no stage has",
    "pipeline.evaluation.one_model": "is of --model, which no stage has",
}
"""What can change no output of any stage, and why. What these modules import counts as little."""
_FROM_BPE = {
    "pipeline.lines": "how foreign text is read; what is read later the pipeline has written itself",
    "pipeline.vocabulary": "ids: others make another data/bpe, on which all that follows depends",
}
_TRAINING = {
    **_FROM_BPE,
    "pipeline.decoding": "validation searches with it, and what is found is the same however it is found: the tests of "
                         "equality hold every search to that",
    "pipeline.engine": "likewise; training goes through torch",
    "pipeline.families.kinds": "checks the facts' settings; that of the family's own kind is among its code",
    "pipeline.model.formats": "formats of searches",
    "pipeline.training.options": "reads the command line, which is in dvc.yaml",
}
_LISTED = {
    "pipeline.decoding": "the facts have the files of the decoders that are used, and of what they use",
    "pipeline.engine": "likewise",
}
_NO_LATTICE = {"pipeline.count_model": "only lattices read counts"}
_EXACT = {"pipeline.compiled": "which vectors numba may use: what is compiled here computes the same bits in any"}
SPARED = {
    "teacher": {**_TRAINING, **_NO_LATTICE},
    "fit": {**_TRAINING, **_NO_LATTICE},
    "fit_lattice": {**_TRAINING, **_EXACT},
    "distill": {"pipeline.vocabulary": _FROM_BPE["pipeline.vocabulary"], **_NO_LATTICE, **_LISTED},
    "align": {**_FROM_BPE, **_EXACT},
    "counts": {**_FROM_BPE, **_EXACT},
    "evaluate": {**_FROM_BPE, **_LISTED},
    "models": {**_FROM_BPE, **_EXACT, "pipeline.count_model": "counts are copied from a checkpoint",
               "pipeline.decoding": "nothing is searched", "pipeline.engine": "likewise",
               "pipeline.names": "checks values"},
    "peers": {**_FROM_BPE, **_NO_LATTICE, "pipeline.engine": "the others search with engines of their own",
              "pipeline.evaluation.speed": "tells which of their ways is quickest, which changes no translation"},
    "speed": {**_FROM_BPE, **_LISTED, "pipeline.interop.export_ctranslate2": "data/peers is what it has exported",
              "pipeline.interop.export_huggingface": "data/peers is what it has exported",
              "pipeline.bleu": "reads hypotheses and scores none",
              "pipeline.evaluation.metrics": "likewise"},
    "analyses": {**_FROM_BPE, "pipeline.evaluation.peers": "no peer is analysed",
                 "pipeline.interop": "no peer is analysed",
                 "pipeline.evaluation.provenance": "is written by the stage `speed`"},
    "report": {"pipeline.lines": _FROM_BPE["pipeline.lines"]},
}
"""What cannot change the outputs of a stage, and why."""


@cache
def imports(module: str) -> set[str]:
    """The modules of the package that one imports, at its top, within functions, or, with `import_module`, by name."""
    found = set(static_imports(module))
    if "import_module(" in modules()[module].read_text(encoding="utf-8"):  # any file of a folder
        found |= {other for other in modules() if other.startswith(module.rpartition(".")[0] + ".")}
    return found


def reasons(stage: str, module: str) -> set[str]:
    """The names above by which a module is spared."""
    return {name for name in {*HARMLESS, *SPARED.get(stage, ())} if module == name or module.startswith(f"{name}.")}


@cache
def used_and_spared(stage: str) -> tuple[set[str], set[str]]:
    """The modules that the verb of a stage imports, directly or not, and those of the names above that it meets."""
    verb = str(STAGES[stage]["cmd"]).split()[3]
    waiting, used, spared = [f"pipeline.commands.{verb}"], set[str](), set[str]()
    while waiting:
        for module in imports(waiting.pop()) - used:
            spared |= reasons(stage, module)
            if not reasons(stage, module):
                used.add(module)
                waiting.append(module)
    return used, spared


def not_covered(stage: str, dependencies: list[str]) -> list[str]:
    """The files that a stage uses and that are neither among these dependencies nor in folders that are."""
    paths = [modules()[module].relative_to(ROOT).as_posix() for module in used_and_spared(stage)[0]]
    return sorted(path for path in paths if not any(path == one or path.startswith(f"{one}/") for one in dependencies))


STAGES = {name: {**block, **block.get("do", {})} for name, block in read_yaml(ROOT / "dvc.yaml")["stages"].items()
          if not block.get("always_changed")}
CODE = {name: [path for path in block["deps"] if path.startswith("pipeline/")] for name, block in STAGES.items()}
IN_FACTS = {name: [modules()[module].relative_to(ROOT).as_posix() for kind in KINDS for module in training_code(kind)]
            for name, block in STAGES.items() if any(path.startswith("data/trainings") for path in block["deps"])}
"""The files whose digests are in the facts of trainings, on which a stage depends."""


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_all_that_it_imports(stage: str) -> None:
    assert not_covered(stage, [*CODE[stage], *IN_FACTS.get(stage, [])]) == []


@pytest.mark.parametrize("stage", STAGES)
def test_no_dependency_on_code_can_be_left_out(stage: str) -> None:
    """Without any of them, the test above fails."""
    for path in CODE[stage]:
        assert (ROOT / path).exists()
        assert not_covered(stage, [other for other in CODE[stage] if other != path]), path


def test_no_reason_outlives_its_import() -> None:
    """A module that was moved, or that a stage no longer imports, need not be spared."""
    met = {stage: used_and_spared(stage)[1] for stage in STAGES}
    for name in {name for names in SPARED.values() for name in names}:
        assert any(name in met[stage] for stage in SPARED if name in SPARED[stage]), name
    assert HARMLESS.keys() - set[str]().union(*met.values()) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_depends_on_the_code_of_its_own_kind(kind: str) -> None:
    """On no other family, no decoder, no evaluation: a change of these leaves its weights as they are."""
    found = training_code(kind)
    families = {name.rpartition(".")[2] for name in found if name.startswith("pipeline.families.")}
    assert families & set(KINDS) == {kind} and {"pipeline.model.transformer", "pipeline.training.fit"} <= found.keys()
    assert ("pipeline.model.masked" in found) == (kind == "masked")
    assert not any(name.startswith(("pipeline.decoding", "pipeline.engine", "pipeline.evaluation")) for name in found)


def test_trainings_are_the_stages_whose_code_is_in_the_facts() -> None:
    assert IN_FACTS.keys() == {"teacher", "fit", "fit_lattice"} and not any(CODE[stage] for stage in IN_FACTS)
