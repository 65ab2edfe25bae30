"""Presets train what they say: those of papers against the papers' values, and all against what cannot be trained."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from test_params import PRESETS, ROOT, shipped

from pipeline.errors import PipelineError
from pipeline.model.settings import OrderSettings
from pipeline.params import Params, parse_params
from pipeline.systems import TEACHER, check_preset, lay_over

DOCUMENTED = (ROOT / "docs/tasks.md").read_text(encoding="utf-8")


class Values(NamedTuple):
    """What a system is trained with."""

    steps: int
    warmup: int
    learning_rate: float
    side: str = "raw"
    batch_tokens: int = 600
    clip: float = 0.0
    average: tuple[int, str] = (1, "best")
    warm_start: bool = False
    """Of students; the teacher always begins with random weights."""


class Paper(NamedTuple):
    """What a preset reproduces."""

    source: str
    every: Values
    """Those of every system that is not named below."""
    systems: dict[str, Values]


def distilled(values: Values) -> Values:
    return values._replace(side="distilled")


AT_ONCE = ("mask_predict", "nat", "lattice", "drafter", "speculative", "blockwise")
"""Deng and Rush (section 4) and Ge et al. (section 4.2.1) distil for these; so do those who proposed the others."""
ZHANG = Values(300_000, 4_000, 7e-4, batch_tokens=25_000, average=(5, "last"))
IMAMURA = Values(300_000, 45_000, 4e-4, batch_tokens=16_000, clip=5.0, average=(10, "best"))
IWSLT = Values(120_000, 4_000, 5e-4, batch_tokens=4_096)
ROMANIAN = Values(240_000, 10_000, 7e-4, batch_tokens=16_383)
LATTICE = Values(240_000, 4_000, 7e-4, batch_tokens=36_864)
VERIFIER = Values(100_000, 4_000, 1e-3, "distilled", 640_000, 3.0, (10, "last"))
GEC = Values(11_000, 4_000, 3e-4, batch_tokens=81_920)

PAPERS = {
    "wmt14_en_de_base": Paper(
        "Zhang et al. 2020, appendix A: 4K warm-up, 25K target subwords, rate of Vaswani et al. (512^-0.5 * 4000^-0.5 "
        "= 7e-4), the last 5 checkpoints averaged, steps and clipping not stated; Table 1: trained from scratch, and "
        "+KD, of which the speeds of IBDecoder are", ZHANG,
        {name: distilled(ZHANG) for name in ("nat", "lattice", "drafter", "speculative", "blockwise", "interleaved", *(
            f"{order}_distilled" for order in ("ar", "interleaved", "semi_autoregressive", "interleaved_sa",
                                               "multi_directional", "double_token", "mask_predict")))}),
    "wmt14_en_de_big": Paper(
        "Imamura and Sumita 2020, Table 1: warm-up 5 epochs of 4.5M / 500 steps, rates 4e-4 and (Mask-Predict) 1e-4, "
        "300,000 updates, clipped at 5, the 10 best checkpoints averaged; section 4.1: no distillation", IMAMURA,
        {name: distilled(IMAMURA) for name in AT_ONCE} | {"mask_predict": IMAMURA._replace(learning_rate=1e-4)}),
    "iwslt14_de_en": Paper(
        "Deng and Rush 2021, Table 8, last row; appendix A.4: chosen by validation BLEU; clipping and averaging are "
        "not mentioned", IWSLT, {name: distilled(IWSLT) for name in (*AT_ONCE, "lattice_distilled")}),
    "wmt16_ro_en": Paper("Deng and Rush 2021, Table 8, second row: 3 GPUs with 5,461 tokens", ROMANIAN,
                         {name: distilled(ROMANIAN) for name in (*AT_ONCE, "lattice_distilled")}),
    "wmt14_en_de_lattice": Paper(
        "Deng and Rush 2021, Table 8, first row: 3 GPUs with 4,096 tokens, 3 updates accumulated", LATTICE,
        {"lattice_distilled": distilled(LATTICE)}),
    "wmt14_en_de_aggressive": Paper(
        "Ge et al. 2022, Table 13: 8 GPUs with 20,000 (verifier) and 4,096 (drafter) tokens, 4 updates accumulated; "
        "section 4.2.1: both learn from a teacher that is trained on raw data; appendix B.1: the last 10 averaged",
        VERIFIER,
        {"teacher": VERIFIER._replace(side="raw"),
         "drafter": Values(300_000, 10_000, 5e-4, "distilled", 131_072, 5.0, (10, "last"))}),
    "gec_en": Paper(
        "Ge et al. 2022, Table 11: rate 3e-4 to 5e-4, warm-up 4,000 (pretraining 8,000), 4 GPUs with 5,120 tokens, 4 "
        "updates accumulated (pretraining 16); 60 epochs of 1.16M sentences are about 11,000 steps; clipping and "
        "averaging are not mentioned", GEC,
        {"teacher": GEC._replace(steps=20_000, warmup=8_000, side="synthetic", batch_tokens=327_680),
         "ar": GEC._replace(warm_start=True), "ar_scratch": GEC._replace(learning_rate=5e-4)}),
    "wikilarge": Paper("Ge et al. 2022, Table 11, with smaller batches", Values(22_000, 4_000, 3e-4, "raw", 16_384),
                       {}),
    "gigaword": Paper(
        "Zhang et al. 2020, appendix A; steps not stated; Table 6, whose speeds are of +KD",
        ZHANG._replace(steps=100_000), {name: distilled(ZHANG._replace(steps=100_000))
                                        for name in ("interleaved", "ar_distilled", "interleaved_sa_distilled")}),
}
PAPERS["wmt14_en_de_double_token_base"] = PAPERS["wmt14_en_de_big"]


@cache
def params_of(preset: str) -> Params:
    return parse_params(lay_over(shipped(), ROOT / f"presets/{preset}.yaml"))


@pytest.mark.parametrize("preset", PAPERS)
def test_a_paper_s_preset_trains_every_system_as_the_paper_does(preset: str) -> None:
    params, paper = params_of(preset), PAPERS[preset]
    needed = (TEACHER, *params.starts)
    assert paper.systems.keys() <= {*needed}
    for name in needed:
        family = params.family(name)
        expected = paper.systems.get(name, paper.every)
        training, optimisation = family.training, family.optimisation
        assert Values(training.steps, optimisation.warmup_steps, optimisation.learning_rate, family.data.side,
                      family.data.batch_tokens, training.clip, (training.average, training.average_by),
                      expected.warm_start if name == TEACHER else family.warm_start) == expected, (name, paper.source)
        assert family.optimisation.schedule == "inverse_square_root", name


def test_paper_a_trains_both_sizes_alike() -> None:
    base, big = (params_of(f"wmt14_en_de_{name}").family("double_token") for name in ("double_token_base", "big"))
    shapes = [(one.network.width, one.network.heads, one.network.feed_forward, one.network.dropout,
               one.network.norm, one.network.positions) for one in (base, big)]
    assert shapes == [(512, 8, 2048, 0.1, "post", "learned"), (1024, 16, 4096, 0.3, "pre", "learned")]
    assert (base.optimisation, base.training) == (big.optimisation, big.training)
    assert base.training.patience == base.training.average == 10
    assert params_of("wmt14_en_de_big").family("mask_predict").training.patience == 0


@pytest.mark.parametrize("preset", ["wmt14_en_de_big", "wmt14_en_de_double_token_base"])
def test_paper_a_searches_with_ten_beams(preset: str) -> None:
    params = params_of(preset)
    for name in ("ar", "ar_r2l", "double_token", "double_token_l2r", "double_token_r2l"):
        widest = max((params.decoders[one] for one in params.decoders_of(name)), key=lambda one: one.get("beams", 1))
        assert (widest["beams"], widest["length_penalty"]) == (10, {"kind": "average", "alpha": 1.0}), name
    assert [params.decoders[one]["candidates"] for one in params.decoders_of("mask_predict")] == [5, 5]


@pytest.mark.parametrize("preset", ["wmt14_en_de_base", "gigaword"])
def test_paper_b_ranks_with_the_penalty_of_gnmt(preset: str) -> None:
    params = params_of(preset)
    four = {name: block for name, block in params.decoders.items() if name in ("beam4", "beam4_deduplicated")}
    assert [(one["beams"], one["length_penalty"]) for one in four.values()] == 2 * [(4, {"kind": "gnmt", "alpha": 0.6})]
    assert "beam4_deduplicated" in params.decoders_of("interleaved_sa_raw")


def test_paper_b_compares_as_many_words_per_step() -> None:
    params = params_of("wmt14_en_de_base")
    orders = {name: params.family(name).order for name in ("semi_autoregressive4_raw", "interleaved_sa_raw")}
    assert orders == {"semi_autoregressive4_raw": OrderSettings("left_to_right", words=4),
                      "interleaved_sa_raw": OrderSettings("interleaved", words=2)}


def test_paper_c_drafts_whole_blocks_with_an_encoder_of_its_own() -> None:
    params = params_of("wmt14_en_de_aggressive")
    drafter = params.family("drafter")
    assert (drafter.network.encoder_layers, drafter.network.decoder_layers, drafter.network.width) == (6, 6, 512)
    assert drafter.arguments().items() >= {
        "block": 25, "prefix": "bidirectional", "chained": False, "labels": "data"}.items()
    assert params.family("teacher").network.width == 1024
    assert [params.decoders[name]["block"] for name in params.decoders_of("drafter")] == [0, 0, 0]
    analyses = params.analyses.drafting
    assert analyses.blocks == (10, 15, 20, 25, 30)  # Table 6
    assert (analyses.betas, analyses.taus) == ((3, 5), (1, 2, 3, 4, 5))  # Table 7


def test_paper_e_scores_a_lattice_with_one_layer() -> None:
    lattices = ("lattice", "lattice_raw", "lattice_distilled")
    for preset, names in (("iwslt14_de_en", lattices), ("wmt16_ro_en", lattices), ("wmt14_en_de_lattice", lattices),
                          ("wmt14_en_de_base", lattices[:1]), ("wmt14_en_de_big", lattices[:1])):
        layers = [params_of(preset).family(name).network.decoder_layers for name in (*names, "nat")]
        assert layers == [*(1 for _ in names), 6]


def test_paper_e_s_main_benchmark_has_a_network_and_a_vocabulary_of_its_own() -> None:
    params = params_of("wmt14_en_de_lattice")
    network, decay = params.family("lattice_raw").network, params.family("lattice_raw").optimisation.weight_decay
    shape = network.width, network.heads, network.feed_forward, network.encoder_layers, network.dropout
    assert (*shape, decay, params.bpe.vocabulary) == (512, 8, 2048, 6, 0.1, 0.0, 40_000)
    romanian = params_of("wmt16_ro_en").family("lattice_raw")
    assert (romanian.network.dropout, romanian.optimisation.weight_decay) == (0.3, 0.01)


@pytest.mark.parametrize("compared", ["_raw", "_distilled"])
def test_papers_trains_alike_what_findings_compare(compared: str) -> None:
    params = params_of("papers")
    families = [name for name in params.systems if name.endswith(compared) and not name.startswith("mask_predict")]
    assert len(families) >= 6
    assert len({params.family(name).training for name in families}) == 1
    assert {params.starts[name] for name in families} == {TEACHER}
    assert not params.family(families[0]).training.patience  # or some would stop before others


def test_papers_trains_its_rival_no_less() -> None:
    """Mask-Predict, which learns more slowly than what has a generation order."""
    params = params_of("papers")
    raw, distilled = (params.family(f"mask_predict{side}") for side in ("_raw", "_distilled"))
    assert raw.training == distilled.training and raw.optimisation == distilled.optimisation
    assert raw.training.steps >= params.family("interleaved_raw").training.steps and not raw.training.patience


@pytest.mark.parametrize("preset", [path.stem for path in PRESETS])
def test_every_preset_trains_longer_than_it_warms_up_and_is_documented(preset: str) -> None:
    params = params_of(preset)
    for name in (TEACHER, *params.starts) if preset != "smoke" else ():  # which need not learn anything
        family = params.family(name)
        assert family.training.steps > family.optimisation.warmup_steps, name
    assert f"`{preset}`" in DOCUMENTED


@pytest.mark.parametrize("preset", ["wikilarge", "gigaword", "gec_en", "iwslt14_de_en"])
def test_the_user_s_files_are_in_the_repository_s_data(preset: str) -> None:
    corpus = params_of(preset).corpus
    folders = {Path(ROOT, "profiles", preset, path).parent for path in corpus.reader.inputs(corpus.block)}
    assert {path.resolve() for path in folders} == {Path(ROOT, "data", preset.removesuffix("_de_en")).resolve()}


@pytest.mark.parametrize(("preset", "message"), [
    ("systems: [teacher, ar, interleved]", "systems: family 'interleved' is unknown; did you mean interleaved"),
    ("families: {interleved: {training: {steps: 5}}}",
     "families.interleved.order: is missing; a family of kind ordered must name it"),
    ("families: {ar: {start: [teacher]}}", r"families.ar.start is \['teacher'\]; it must be of type str"),
    ("families: {teacher: {data: {side: both}}}", "families.teacher.data.side is 'both', .* set it to raw"),
    ("distillation: {sentences: 9}", "families.ar.data.side is 'both', but distillation.sentences .* only 9 sentences"),
    ("families: {ar: {data: {side: synthetic}}}", "families.ar.data.side is 'synthetic', .* set corpus.noise"),
    ("evaluation: {metrics: [edits, errant]}", "edits and errant both give precision, .*; choose one"),
    ("evaluation: {metrics: [errant]}", "'errant' knows only English .*target_language is 'de'; choose 'edits'"),
    ("corpus: {target_language: zh_TW}", "bleu_tokenizer: '13a' finds words by spaces, .* is 'zh_TW'; set it to zh"),
    ("corpus: {target_language: th}\nevaluation: {bleu_tokenizer: intl}", "'intl' finds words .* 'th'; set it to char"),
    ("corpus: {target_language: ja}", r"set it to char, or to ja-mecab after pip install 'sacrebleu\[ja\]'"),
])
def test_a_preset_that_cannot_be_trained_is_one_line(tmp_path: Path, preset: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(preset, encoding="utf-8")
    with pytest.raises(PipelineError, match=f"^{tmp_path}/mine.yaml: .*{message}") as caught:
        check_preset(shipped(), tmp_path / "mine.yaml", parse_params)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("presets", "message"), [
    ({"mine": "sytems: [teacher]"}, r"mine.yaml: sytems is unknown; did you mean systems\?$"),
    ({"mine": "corpus: {filters: {min_wrods: 3}}"}, "mine.yaml: corpus.filters.min_wrods is unknown; did you mean"),
    ({"mine": "extends: base", "base": "sytems: [teacher]"}, "base.yaml, extended by {}/mine.yaml: sytems is unknown"),
    ({"mine": "extends: middle", "middle": "extends: base", "base": "seed: one"},
     "base.yaml, extended by {0}/middle.yaml, extended by {0}/mine.yaml: seed is 'one'"),
    ({"mine": "extends: base\nseed: one", "base": "seed: 2"}, "mine.yaml: seed is 'one'"),
    ({"mine": "extends: base\nfamilies: {mine: {order: {name: left_to_right}}}",
      "base": "systems: [teacher, interleavd]"},
     "base.yaml, extended by {}/mine.yaml: systems: family 'interleavd' is unknown; .*, mine$"),
    ({"mine": "extends: [base, rest]\nsytems: []", "base": "network: {heads: 5}", "rest": "network: {width: 160}"},
     "mine.yaml: sytems is unknown"),
])
def test_the_file_of_a_mistake_is_named(tmp_path: Path, presets: dict[str, str], message: str) -> None:
    """With those that extend it; a preset may be one that only others complete."""
    for name, text in presets.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PipelineError, match=f"^{tmp_path}/{message.format(tmp_path)}"):
        check_preset(shipped(), tmp_path / "mine.yaml", parse_params)


def test_a_mistake_of_params_yaml_is_not_one_of_a_preset(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("seed: 2", encoding="utf-8")
    with pytest.raises(PipelineError, match=r"^params.yaml: sytems is unknown"):
        check_preset({**shipped(), "sytems": []}, tmp_path / "mine.yaml", parse_params)


@pytest.mark.parametrize("tokenizer", ["zh", "char", "none"])
def test_a_language_without_spaces_has_a_tokenizer_of_its_own(tmp_path: Path, tokenizer: str) -> None:
    (tmp_path / "mine.yaml").write_text(f"corpus: {{target_language: zh}}\nevaluation: {{bleu_tokenizer: {tokenizer}}}",
                                        encoding="utf-8")
    assert parse_params(lay_over(shipped(), tmp_path / "mine.yaml")).evaluation.bleu_tokenizer == tokenizer


def test_data_of_systems_that_are_not_trained_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("distillation: {sentences: 9}\nfamilies: {ar: {data: {side: raw}}}\n"
                                        "systems: [teacher, ar]", encoding="utf-8")
    assert parse_params(lay_over(shipped(), tmp_path / "mine.yaml")).family("nat").data.side == "distilled"
