"""The page of the papers' findings: each part with its verdict and, if open, the sentences that would decide it."""

import pytest

from docs import findings
from pipeline.evaluation.claims.findings import FINDINGS


def test_an_open_part_has_the_sentences_that_would_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [{"claim": "a beats b", "verdict": "undecided", "why": "Margin 0.10.",
              "figures": {"sentences_to_decide": 8442}},
             {"claim": "a beats c", "verdict": "true", "why": "Margin 2.00.", "figures": {}},
             {"claim": "a is quicker", "verdict": "undecided", "why": "By 1.01.", "figures": {"rounds_to_decide": 70}}]
    one = {"finding": 2, "verdict": "undecided", "statement": FINDINGS[2].statement, "parts": parts}
    older = {"finding": 3, "verdict": "true", "statement": "Something else", "parts": []}
    monkeypatch.setattr(findings, "LEDGERS", {"a run": "reports/a_run"})
    monkeypatch.setattr(findings, "read", lambda _: [
        one, older, {"finding": 1, "verdict": "not measured", "parts": []}])
    findings._found.cache_clear()
    page = findings.page()
    findings._found.cache_clear()
    assert "## 2\n" in page and "## 1\n" not in page
    assert ("- `a run`: undecided\n  - a beats b: undecided. Margin 0.10. About 8,400 sentences would decide it.\n"
            "  - a beats c: true. Margin 2.00.\n"
            "  - a is quicker: undecided. By 1.01. About 70 rounds would decide it.\n") in page
    assert "- `a run`: true †\n" in page
