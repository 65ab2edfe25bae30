"""params.yaml and the presets: all that is shipped parses, and every mistake is one line."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.blocks import merge
from pipeline.commands.repro import check_decoders
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.model.orders import make_order
from pipeline.names import check_name
from pipeline.params import Params, load_params, parse_params
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over, with_students

ROOT = Path(pipeline.__file__).parents[1]
PRESETS = sorted((ROOT / "presets").glob("*.yaml"))


@cache
def shipped_once() -> dict[str, Any]:
    return read_yaml(ROOT / "params.yaml")


def shipped() -> dict[str, Any]:
    return copy.deepcopy(shipped_once())


def check(params: Params) -> None:
    """What parsing leaves to the stage that needs it: every order and every decoder exists."""
    for name, family in params.families.items():
        assert family.order is None or make_order(family.order).width >= 1
        assert params.decoders_of(name)
    for name, block in params.decoders.items():
        make_decoder(name, block, LengthLimit(params.limit.ratio, params.limit.extra))
    check_decoders(params)


def test_the_shipped_parameters() -> None:
    params = load_params(ROOT / "params.yaml")
    check(params)
    assert params == parse_params(shipped())
    assert with_students(shipped()) == shipped()  # what dvc.yaml reads is what the systems need


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_every_preset_is_laid_over_them(preset: Path) -> None:
    params = parse_params(lay_over(shipped(), preset))
    check(params)
    assert {"teacher", *params.starts} >= set(params.systems)


def test_a_preset_extends_another_one(tmp_path: Path) -> None:
    contents = {"first": "seed: 2\nnetwork: {width: 64}", "second": "extends: first\nnetwork: {heads: 2}",
                "third": "extends: second\nseed: 3", "itself": "extends: other", "other": "extends: itself",
                "lost": "extends: nosuch", "climbs": "extends: ../first", "number": "extends: 1",
                "beside": "network: {width: 96, heads: 8}", "both": "extends: [third, beside]", "mixed": "extends: [1]"}
    for name, text in contents.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    params = parse_params(lay_over(shipped(), tmp_path / "third.yaml"))
    assert params.seed == 3 and (params.family("ar").network.width, params.family("ar").network.heads) == (64, 2)
    params = parse_params(lay_over(shipped(), tmp_path / "both.yaml"))
    assert params.seed == 3 and (params.family("ar").network.width, params.family("ar").network.heads) == (96, 8)
    for name, words in (("itself", "other.yaml: extends: itself extends it as well"), ("lost", "nosuch.yaml"),
                        ("climbs", "climbs.yaml: extends: '../first' must be a name"),
                        ("number", "number.yaml: extends"), ("mixed", "mixed.yaml: extends")):
        with pytest.raises(PipelineError, match=words):
            lay_over(shipped(), tmp_path / f"{name}.yaml")


def test_how_long_a_preset_trains_holds_for_the_teacher() -> None:
    """A number of steps in the teacher's own block would win over a preset's `training`."""
    assert parse_params(lay_over(shipped(), ROOT / "presets/smoke.yaml")).family("teacher").training.steps == 40


def test_what_a_system_starts_from_is_trained_too() -> None:
    chosen = with_students({**shipped(), "systems": ["teacher", "ar", "nat", "double_token_r2l"]})
    assert chosen["students"] == {"ar": "teacher", "mask_predict": "teacher", "nat": "mask_predict",
                                  "interleaved": "teacher", "ar_r2l": "interleaved", "double_token_r2l": "ar_r2l"}
    assert chosen["lattices"] == {} and parse_params(chosen).systems == ("teacher", "ar", "nat", "double_token_r2l")


@pytest.mark.parametrize("key", ["kind", "masking", "drafting"])
def test_a_null_of_a_family_is_as_if_it_were_not_there(key: str) -> None:
    chosen = with_students(changed(f"families.ar.{key}", None))
    assert chosen["students"] == shipped()["students"] and parse_params(chosen) == parse_params(shipped())


def test_families_that_start_from_one_another_are_refused() -> None:
    content = shipped()
    content["families"]["ar"]["start"] = "drafter"
    with pytest.raises(PipelineError, match="it must be teacher or a student that does not start from it"):
        parse_params(with_students(content))


def test_a_preset_names_no_students(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("students: {ar: teacher}\n")
    with pytest.raises(PipelineError, match=r"mine.yaml: students follows from `systems`; remove it"):
        lay_over(shipped(), preset)


def test_a_family_inherits_the_defaults_and_overrides_them() -> None:
    content = shipped()
    content["network"]["dropout"] = 0.25
    content["families"]["ar"]["network"] = {"heads": 2}
    params = parse_params(content)
    assert params.family("ar").network.dropout == params.family("teacher").network.dropout == 0.25
    assert (params.family("ar").network.heads, params.family("teacher").network.heads) == (2, 4)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The shipped parameters with one key set, or removed where the value is `...`."""
    content = shipped()
    *blocks, key = path.split(".")
    block = content
    for name in blocks:
        block = block.setdefault(name, {})
    if value is ...:
        del block[key]
    else:
        block[key] = value
    return content


@pytest.mark.parametrize(("path", "value", "message"), [
    ("coprus", {}, r"^params.yaml: coprus is unknown; did you mean corpus\?"),
    ("corpus", ..., "^params.yaml: corpus is missing"),
    ("corpus", None, "^params.yaml: corpus must be a block of keys, not None"),
    ("seed", "one", "^params.yaml: seed is 'one'; it must be of type int"),
    ("seed", True, "^params.yaml: seed is True; it must be of type int"),
    ("network.widht", 3, r"network.widht is unknown; did you mean families.teacher.network.width\?"),
    ("network.width", "128", "network.width is '128'; it must be of type int"),
    ("network.width", 130, "network.width: 130 must be even and divisible by network.heads = 4"),
    ("network", 5, "network must be a block of keys, not 5"),
    ("optimisation.betas", [0.9], "optimisation.betas must have 2 entries, not 1"),
    ("optimisation.learning_rate", 0, "learning_rate: 0.0 must be above 0"),
    ("optimisation.schedule", "cosine", "schedule is 'cosine'; choose one of inverse_square_root"),
    ("optimisation.label_smoothing", 1.0, "label_smoothing: 1.0 must be at least 0 and below 1"),
    ("families.ar.training.steps", 0, "training.steps: 0 must be at least 1"),
    ("training.average_by", "luck", "training.average_by is 'luck'; choose one of last, best"),
    ("training.precision", "bf17", "training.precision is 'bf17'; choose one of 32-true, 16-mixed"),
    ("training.clip", -1, "clip: -1.0 must be at least 0"),
    ("data.side", "left", "left"),
    ("families.ar.order", ..., "families.ar.order: is missing; a family of kind ordered must name it"),
    ("families.ar.order", "left_to_right", "families.ar.order must be a block of keys, not 'left_to_right'"),
    ("families.ar.order.width", 2, "families.ar.order.width is unknown"),
    ("families.ar.kind", "masked", "families.ar.order: a family of kind masked has none; remove it"),
    ("families.ar.kind", "lattice", "families.ar.order: a family of kind lattice has none; remove it"),
    ("families.ar.kind", "trellis",
     "kind: 'trellis' is unknown; choose one of ordered, drafter, heads, lattice, masked"),
    ("families.lattice.order", {"name": "left_to_right"}, "families.lattice.order: a family of kind lattice has none"),
    ("families.mask_predict.masking", "half", "masking is 'half'; choose one of uniform, all"),
    ("families.lattice.masking", "all", "families.lattice.masking: a family of kind lattice has none"),
    ("families.ar.masking", "all", "families.ar.masking: a family of kind ordered has none"),
    ("students.ar", "nobody", "students.nobody starts from None; it must be teacher or a student"),
    ("students.ar", "drafter", "students.drafter starts from 'ar'; it must be teacher or a student"),
    ("students.double_token", "teacher",
     "families.double_token.start is 'interleaved', but students.double_token, .* is 'teacher'"),
    ("students.ar", None, "^params.yaml: students.ar is None; it must be of type str"),
    ("default_decoders", ["beam99"], "default_decoders: decoder 'beam99' is unknown"),
    ("families.ar.decoders", ["beam99"], "families.ar.decoders: decoder 'beam99' is unknown; params.yaml has greedy"),
    ("families.ar.decoders", "greedy", "families.ar.decoders must be a list, not 'greedy'"),
    ("families.ar", None, "families.ar must be a block of keys, not None"),
    ("families.ar", "left_to_right", "families.ar must be a block of keys, not 'left_to_right'"),
    ("families", ["ar"], r"families must be a block of keys, not \['ar'\]"),
    ("families", None, "families must be a block of keys, not None"),
    ("systems", ["teacher", "ar", "nobody"], "systems: family 'nobody' is unknown"),
    ("systems", ["teacher", "ar", "nat"], "systems: nat is not trained; add nat: mask_predict to students, which"),
    ("students", {"ar": "teacher"}, "systems: interleaved is not trained; add interleaved: teacher to students"),
    ("students", ["ar"], r"students must be a block of keys, not \['ar'\]"),
    ("lattices", {}, "systems: lattice is not trained; add lattice: ar to lattices"),
    ("lattices", None, "^params.yaml: lattices must be a block of keys, not None"),
    ("lattices.lattice", "nobody", "students.nobody starts from None; it must be teacher or a student"),
    ("lattices.lattice", "lattice", "lattices.lattice starts from 'lattice'; it must be teacher or a student"),
    ("students.lattice", "teacher", "students.lattice: a family of kind lattice does not belong there; `lattices` tr"),
    ("lattices.nat", "teacher", "lattices.nat: a family of kind masked does not belong there; `lattices` trains those"),
    ("alignment.tension", 0, "alignment.tension: 0.0 must be above 0"),
    ("alignment.symmetrise", "diagonal", "alignment.symmetrise is 'diagonal'; choose one of forward"),
    ("counts.top", 0, "counts.top: 0 must be at least 1"),
    ("counts.smoothing", 0.1, "^params.yaml: counts.smoothing is unknown"),
    ("baseline", "nobody", "baseline: 'nobody' is not among the systems, teacher, ar, interleaved"),
    ("decoders.greedy", "greedy", "^params.yaml: decoders.greedy must be a block of keys, not 'greedy'"),
    ("decoders.beam5", ..., "decoder 'beam5' is unknown"),
    ("distillation.decoder", "beam99", "distillation.decoder: decoder 'beam99' is unknown"),
    ("distillation.length_penalty", [-1], r"distillation.length_penalty\[0\]: -1.0 must be at least 0"),
    ("families.ar.start_with.positions", [-1, -1], r"start_with.positions: \[-1, -1\] begins a table that is learned"),
    ("families.ar.start_with.weights", "decoder", "start_with.weights is 'decoder'; choose one of all, encoder"),
    ("families.ar", {"order": {"name": "left_to_right"}, "warm_start": False, "start_with": {"weights": "encoder"}},
     "start_with: a family of kind ordered with warm_start false copies nothing from its start; remove start_with"),
    ("families.blockwise.start_with.weights", "encoder", "a family of kind heads with warm_start true copies nothing"),
    ("families.drafter.start_with.family", "interleaved",
     r"families.drafter.start_with.family: 'interleaved' is not what its start began with; choose one of ar, teacher$"),
    ("families.ar.network.width", 256, "families.ar.network.positions: sinusoidal: a network that begins with the"),
    ("limit.ratio", "twice", "^params.yaml: limit.ratio is 'twice'; it must be of type float"),
    ("evaluation.batch_row", 3, "^params.yaml: evaluation.batch_row is unknown"),
    ("seed", -1, "^params.yaml: seed: -1 must be at least 0 and at most 4294967295$"),
    ("seed", 2 ** 32, "^params.yaml: seed: 4294967296 must be at least 0 and at most 4294967295"),
    ("distillation.shard_rows", 0, "^params.yaml: distillation.shard_rows: 0 must be at least 1$"),
    ("distillation.batch_tokens", 0, "^params.yaml: distillation.batch_tokens: 0 must be at least 1"),
    ("evaluation.batch_tokens", 0, "^params.yaml: evaluation.batch_tokens: 0 must be at least 1"),
    ("speed.repetitions", 0, "^params.yaml: speed.repetitions: 0 must be at least 1"),
    ("limit.extra", -50, "^params.yaml: limit.extra: -50 must be at least 0"),
    ("limit.ratio", float("inf"), "^params.yaml: limit.ratio: inf must be finite and at least 0"),
    ("optimisation.betas", [2, 3], r"families.teacher.optimisation.betas\[0\]: 2.0 must be at least 0 and below 1"),
    ("optimisation.learning_rate", float("nan"), "optimisation.learning_rate: nan must be finite and above 0"),
    ("corpus.keep", {"train": 0}, "^params.yaml: corpus.keep.train: 0 must be at least 1"),
    ("families.ar.training", {"clip": float("nan")}, "^params.yaml: families.ar.training.clip: nan must be finite"),
    ("peers.hf_greedy.beams", 0, "^params.yaml: peers.hf_greedy.beams: 0 must be at least 1"),
    ("decoders", {5: {}}, "^params.yaml: decoders: the name 5 is read as int, not as text; put it in quotes"),
    ("families", {False: {}}, "^params.yaml: families: the name False is read as bool, not as text; put it in quotes"),
])
def test_one_mistake(path: str, value: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        parse_params(changed(path, value))
    assert str(caught.value).startswith("params.yaml: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(("path", "value", "message"), [
    ("decoders.beam5", {"algorithm": "beam", "beam": 5}, r"decoders.beam5.beam is unknown; did you mean .*beams\?"),
    ("decoders.beam5.beams", "five", "decoders.beam5.beams is 'five'; it must be of type int"),
    ("decoders.beam5.nbest", 6, "decoders.beam5.nbest: 6 must not exceed the beams, 5"),
    ("decoders.pj.start", "noise", "decoders.pj.start: 'noise' is unknown; choose one of padding, source"),
    ("decoders.greedy.algorithm", "lucky", "decoders.greedy.algorithm: 'lucky' is not a file of pipeline/decoding"),
    ("families.lattice.decoders", ["lattice16", "beam4"],
     "families.lattice.decoders: beam4 searches ordered models, and lattice is of kind lattice; name another"),
    ("families.drafter.decoders", [], "families.drafter.decoders: greedy searches ordered models"),
    ("families.interleaved.decoders", ["greedy", "iad"],
     "families.interleaved.decoders: slots per step: iad needs 1, and the order of interleaved fills 2; name"),
    ("families.ar.decoders", ["greedy", "pair_beam10"],
     "families.ar.decoders: slots per step: pair_beam10 needs 2, and the order of ar fills 1; name another"),
    ("families.lattice.drafting", None, "families.lattice.decoders: lattice_gad returns what a verifier predicts, and"),
    ("distillation.decoder", "nat", "distillation.decoder: nat searches masked models, and teacher is of kind ordered"),
    ("distillation.hypotheses", 6, "distillation.hypotheses: 6 must not exceed the beams, 5; .* than 'beam5'$"),
    ("distillation", {"decoder": "greedy", "hypotheses": 2}, "distillation.hypotheses: 2 must not exceed 1, w"),
    ("distillation", {"decoder": "greedy", "length_penalty": [1]}, "distillation.length_penalty: the decoder greedy h"),
])
def test_a_decoder_that_no_stage_could_search_with(path: str, value: Any, message: str) -> None:
    """Parsing leaves it to `repro`, which refuses it before anything is trained."""
    params = parse_params(changed(path, value))
    with pytest.raises(PipelineError, match=f"^params.yaml: {message}") as caught:
        check_decoders(params)
    assert "\n" not in str(caught.value)


def test_the_file_of_a_mistake_is_named(tmp_path: Path) -> None:
    """Also where a check knows only the key."""
    (tmp_path / "params.yaml").write_text(json.dumps(changed("systems", ["teacher", "interleavd"])))
    with pytest.raises(PipelineError, match=f"^{tmp_path}/params.yaml: systems: family 'interleavd' is unknown; did"):
        load_params(tmp_path / "params.yaml")


def test_a_corpus_without_further_sources_is_named() -> None:
    content = changed("distillation.extra_sources", True)
    assert parse_params(content).distillation.extra_sources
    content["corpus"] |= {"source": "tsv", "tsv": {"train": "a", "validation": "b", "test": "c"}}
    with pytest.raises(PipelineError, match="extra_sources: the corpus source tsv has no sentences"):
        parse_params(content)


NO_NAMES = ["", ".", "..", "../../x", "a/b", "a\\b", ".work", "-rf", "a b", "a;b", "a'b", "$(x)", "a.b", "a@b", "a\nb",
            "a\n", "é", "x" * 65]


@pytest.mark.parametrize("block", ["families", "decoders", "peers"])
@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_is_no_path_and_nothing_to_a_shell(block: str, name: str) -> None:
    content = shipped()
    content[block][name] = next(iter(content[block].values()))
    with pytest.raises(PipelineError, match=rf"^params.yaml: {block}: .* must be a name") as caught:
        parse_params(content)
    assert repr(name) in str(caught.value) and "\n" not in str(caught.value)


def test_the_shipped_presets_have_names() -> None:
    for preset in PRESETS:
        check_name(preset.stem, "--profile")


def test_every_system_has_a_start() -> None:
    params = parse_params(shipped())
    assert params.starts == {**params.students, **params.lattices} and "lattice" in params.starts
    starts = {"teacher": None, "ar": "teacher", "drafter": "ar", "blockwise": None, "nat": "mask_predict",
              "mask_predict": "teacher"}  # also of families that no system needs
    assert {name: params.start_of(name) for name in starts} == starts
    assert parse_params(changed("families.ar.warm_start", False)).start_of("ar") is None
    assert parse_params(changed("families.drafter.start_with.family", "teacher")).start_of("drafter") == "teacher"
    assert [params.family(name).arguments()["masking"] for name in ("nat", "mask_predict")] == ["all", "uniform"]


@pytest.mark.parametrize(("text", "message"), [
    (b"seed: [1", "params.yaml: not valid YAML: "),
    (b"seed: \xff", "params.yaml: not valid YAML: "),
    (b"- seed", "params.yaml: must be a block of keys"),
    (b"", "params.yaml: must be a block of keys"),
])
def test_files_that_are_no_parameters(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "params.yaml").write_bytes(text)
    with pytest.raises(PipelineError, match=message) as caught:
        load_params(tmp_path / "params.yaml")
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"params.yaml: not found; run in the folder that holds params.yaml"):
        load_params(tmp_path / "params.yaml")


def test_a_quantised_decoder_has_an_exact_counterpart_and_a_quantised_reference() -> None:
    params = parse_params(merge(shipped(), {"decoders": {"gad_bfloat16": {
        "algorithm": "gad", "quantization": "bfloat16"}}, "families": {"ar": {"decoders": [
            "greedy_int8", "gad_int8", "beam10_int8", "greedy", "beam5", "beam10"]}}}))
    counterparts = params.counterparts()
    assert [counterparts[name] for name in ("greedy_int8", "beam5_int8", "pair_beam10_int8", "greedy")] == [
        "greedy", "beam5", "beam10", "greedy"]
    assert [params.greedy_of(name) for name in ("gad_int8", "gad", "gad_bfloat16", "ctranslate2_greedy_int8")] == [
        "greedy_int8", "greedy", None, "greedy"]


def test_copies_of_the_source_need_one_vocabulary() -> None:
    content = shipped()
    with pytest.raises(PipelineError, match=r"families\.ar\.decoders: decoder 'iad' copies from .*bpe\.joint"):
        parse_params(merge(content, {"bpe": {"joint": False}}))
