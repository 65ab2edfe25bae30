"""Acceptance against block, beta, tau and size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from drafters import drafter
from sentences import sources

from pipeline.analysis_settings import DraftAnalysesSettings
from pipeline.decoding import gad, greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import Acceptance
from pipeline.errors import PipelineError
from pipeline.evaluation.analyses.drafting.draft_acceptance import Validation, draft_acceptance
from pipeline.evaluation.analyses.drafting.draft_sizes import Size, draft_sizes, drafter_size
from pipeline.evaluation.analyses.measured import Measured, Measurements
from pipeline.evaluation.speed import Contestant
from pipeline.model.drafter import make_drafter
from pipeline.model.settings import NetworkSettings
from pipeline.model.transformer import Transformer

LIMIT = LengthLimit(ratio=2.0, extra=5, longest=20)


def test_every_setting_is_tried_once_and_its_tokens_are_counted(tiny: Callable[..., Transformer]) -> None:
    verifier = tiny()
    model = drafter(verifier, block=4)
    batches, asked = [sources(7, 6, 5), sources(4, 2)], []

    def search_with(settings: gad.Settings) -> Any:
        asked.append(settings)
        return lambda source: gad.search(model, source, LIMIT, settings)

    baseline = Contestant("ar", "beam5", lambda source: greedy.search(verifier, source, LIMIT))
    finding = draft_acceptance(search_with, 4, Validation(batches, lambda found: float(len(found)), [sources(3)]),
                               baseline, blocks=[1, 8], betas=[1, 3], taus=[0.5, 9.0], repetitions=1, warmup=0,
                               device=torch.device("cpu"))
    assert len(asked) == len(set(asked)) == 3 + 4
    assert set(finding.metric["exact"]) == {"block1", "block4", "block8"}
    assert set(finding.metric["relaxed"]) == {f"beta{b}_tau{t}" for b in (1, 3) for t in ("0.5", "9")}
    tried = {("exact", f"block{k}"): gad.Settings(k) for k in (1, 4, 8)}
    tried |= {("relaxed", f"beta{beta}_tau{tau:g}"): gad.Settings(4, Acceptance(beta, tau))
              for beta in (1, 3) for tau in (0.5, 9.0)}
    for (table, name), settings in tried.items():
        found = [gad.search(model, batch, LIMIT, settings).verification for batch in batches]
        rounds = [row for one in found if one is not None for row in one.rounds]
        calls = sum(len(row.sentences) for row in rounds)
        figures = finding.metric[table][name]
        assert figures["accepted_per_call"] == pytest.approx(sum(int(row.accepted.sum()) for row in rounds) / calls)
        assert figures["calls"] == calls / 5 and figures["bleu"] == 2


@pytest.mark.parametrize(("block", "message"), [
    ({"sentences": 0}, "sentences: 0 must be at least 1"),
    ({"repetitions": -1}, "repetitions: -1 must be at least 1"),
    ({"blocks": ()}, r"blocks: \(\) must have at least one entry"),
    ({"betas": (3, 0)}, r"betas\[1\]: 0 must be at least 1"),
    ({"taus": (1.0, -0.1)}, r"taus\[1\]: -0\.1 must be at least 0"),
    ({"taus": (float("nan"),)}, r"taus\[0\]: nan must be finite"),
])
def test_impossible_draft_settings(block: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message) as refused:
        DraftAnalysesSettings(**block)
    assert "\n" not in str(refused.value)


def test_the_size_of_a_drafter_is_its_own(tiny: Callable[..., Transformer]) -> None:
    verifier = tiny()
    settings = NetworkSettings(width=16, heads=2, feed_forward=8, encoder_layers=0, decoder_layers=1, max_length=48,
                               tied_embeddings="all")
    alone = make_drafter(settings, 20, 20, 4, "causal", False)
    own = sum(parameter.numel() for parameter in alone.parameters())
    alone.attach_verifier(verifier)
    assert drafter_size(alone) == Size(own, 0, 1, 16)


def test_sizes_rise_and_what_drafts_nothing_is_left_out() -> None:
    def measured(accepted: float | None) -> Measured:
        return Measured(25.0, 10.0, 2.0, (1.9, 2.1), accepted)

    measurements = Measurements("long", {("large", "gad"): measured(3.0), ("small", "gad"): measured(2.0),
                                         ("small", "draft"): measured(None), ("other", "gad"): measured(9.0)})
    finding = draft_sizes(measurements, {"large": Size(900, 1, 2, 32), "small": Size(100, 0, 1, 16)})
    figures = {"bleu": 25.0, "milliseconds": 10.0, "speedup_vs_beam5": 2.0}
    assert finding.metric == {
        "sentences": "long",
        "small": {"parameters": 100, "encoder_layers": 0, "decoder_layers": 1, "width": 16,
                  "gad": {"accepted_per_call": 2.0, **figures}},
        "large": {"parameters": 900, "encoder_layers": 1, "decoder_layers": 2, "width": 32,
                  "gad": {"accepted_per_call": 3.0, **figures}}}
    assert list(finding.metric) == ["sentences", "small", "large"]
    for sizes in ({}, {"small": Size(100, 0, 1, 16)}):
        assert "fewer than two sizes" in draft_sizes(measurements, sizes).metric["not_measured"]
