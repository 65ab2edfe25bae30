"""Draft and verify on models that are written down: what is accepted of a draft, exactly and relaxed."""

import math
from collections.abc import Sequence

import pytest
import torch
from drafters import Proposals, ScriptedDrafter, told
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import EVERY_ORDER
from scripted import Row, Script, Scripted, logits, random_script
from torch import Tensor

from pipeline.decoding import greedy, iad
from pipeline.decoding.gad import Settings as GadSettings
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.prefix import EXACT, Acceptance
from pipeline.decoding.settings import make_decoder
from pipeline.decoding.verify import verify
from pipeline.errors import PipelineError
from pipeline.families.settings import DraftingSettings
from pipeline.vocabulary import EOS, PAD

pytestmark = pytest.mark.usefixtures("engine")

A, B, C, D = 7, 8, 9, 10
ORDER = EVERY_ORDER["left_to_right"]
RELAXED = Acceptance(beta=3, tau=2.0)
SOURCE = torch.tensor([[A, EOS]])
LIMIT = LengthLimit(0.0, 7)  # eight tokens, an end symbol among them


def reciting(*text: int) -> Script:
    """Predicts a text and then the end, whatever it has been fed; a second best is 2, a third 4 below the best."""
    tokens = (*text, *[EOS] * 9)
    return lambda source, prefix: logits({tokens[len(prefix)]: 9.0, C if tokens[len(prefix)] != C else D: 7.0, 11: 5.0})


def run(script: Script, drafts: Sequence[Row], acceptance: Acceptance = EXACT, limit: LengthLimit = LIMIT) -> tuple[
        Row, list[int], Hypotheses]:
    """The output, end symbol included, and how much of each draft's verdict is accepted."""
    model, remaining = Scripted(ORDER, script), list(drafts)
    drafter = ScriptedDrafter([0], lambda sentence, accepted: remaining.pop(0))
    found = verify(model, drafter, SOURCE, model.encode(SOURCE), limit, acceptance)
    assert found.verification is not None and not remaining
    rounds = found.verification.rounds
    assert found.calls.tolist() == [len(rounds)] == [len(model.fed)] == [len(drafts)]
    output = [token for one in rounds for token in one.verdict[0, :int(one.accepted)].tolist()]
    assert output == found.tokens[0, 0].tolist() + [EOS] * bool(found.ended)
    return tuple(output), [int(one.accepted) for one in rounds], found


# The four patterns: none, some, all of a draft is accepted, and it reaches beyond the end.

PATTERNS: dict[str, tuple[list[Row], list[int]]] = {
    "nothing drafted": ([(), (), (), ()], [1, 1, 1, 1]),
    "none": ([(D, B), (D,), (D, A, A), (D, D)], [1, 1, 1, 1]),
    "some": ([(A, D, B), (D, EOS), (D, EOS)], [2, 1, 1]),
    "some, the right ones after a wrong one": ([(D, B, A, EOS), (B, D), (EOS,)], [1, 2, 1]),
    "all": ([(A, B), (EOS,)], [3, 1]),
    "all, the end too": ([(A, B, A, EOS)], [4]),
    "all but the end": ([(A, B, A)], [4]),
    "beyond the end": ([(A, B, A, EOS, EOS, D)], [4]),
    "the end too soon": ([(A, EOS, B, A), (A, EOS, EOS)], [2, 2]),
    "over the end": ([(A, B, A, D, D)], [4]),
    "padding is no token": ([(PAD, A, B), (B, PAD, A, EOS), (PAD, PAD)], [1, 2, 1]),
}


@pytest.mark.parametrize("acceptance", [EXACT, Acceptance(1, 5.0), Acceptance(9, 0.0), Acceptance(2, 1.9),
                                        Acceptance(12, 1.9)], ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_accepted(pattern: str, acceptance: Acceptance) -> None:
    """The second best token is too far below the best to be accepted by relaxation."""
    drafts, accepted = PATTERNS[pattern]
    output, counts, found = run(reciting(A, B, A), drafts, acceptance)
    assert output == (A, B, A, EOS) and counts == accepted
    each = -math.log1p(math.exp(-2) + math.exp(-4))  # the others are e^-39 of it
    assert found.scores.item() == pytest.approx(4 * each, abs=1e-12)


@pytest.mark.parametrize("acceptance", [EXACT, RELAXED], ids=str)
@pytest.mark.parametrize("draft", [(), (EOS,), (EOS, A, A), (A, B), (PAD, EOS)])
def test_an_end_at_once(draft: Row, acceptance: Acceptance) -> None:
    output, counts, found = run(reciting(), [draft], acceptance)
    assert output == (EOS,) and counts == [1]
    assert found.tokens.shape == (1, 1, 0) and found.lengths.item() == 0 and found.ended.all()


@pytest.mark.parametrize("acceptance", [EXACT, RELAXED], ids=str)
@pytest.mark.parametrize(("drafts", "accepted"), [
    ([(A,) * 9], [8]), ([(A,) * 7], [8]), ([(A,) * 6, ()], [7, 1]), ([(A,) * 3, (A,) * 9], [4, 4]),
    ([(A, A, B), (A,) * 9], [3, 5]), ([(B,) * 9, (A,) * 9], [1, 7])])
def test_the_limit_inside_a_block(drafts: list[Row], accepted: list[int], acceptance: Acceptance) -> None:
    """As many tokens as greedy search, though more of the draft is right; a draft is cut to what there is room for."""
    output, counts, found = run(reciting(*[A] * 20), drafts, acceptance)
    assert output == (A,) * 8 and counts == accepted
    assert not found.ended.any() and found.lengths.item() == 8


# Relaxed.

def forked(source: Row, prefix: Row) -> Tensor:
    """At first A, and B one below it, C and D two below it; each is followed by an A of its own number, and the end."""
    if not prefix:
        return logits({A: 0.0, B: -1.0, C: -2.0, D: -2.0, 11: -2.5, PAD: -0.5, EOS: -3.0})
    return logits({A if len(prefix) <= prefix[0] - A else EOS: 9.0})


@pytest.mark.parametrize(("beta", "tau", "token", "kept"), [
    (2, 0.5, A, True), (2, 0.5, PAD, False), (9, 9.0, PAD, False),
    (3, 1.0, B, True), (3, 0.999, B, False), (2, 1.0, B, False), (9, 1.0, B, True), (3, 1e9, B, True),
    (4, 2.0, C, True), (3, 2.0, C, False), (4, 1.999, C, False),
    (4, 2.0, D, True), (3, 2.0, D, False),  # as good as C: both are at rank 4
    (5, 9.0, 11, False), (6, 9.0, 11, True), (6, 2.5, 11, True), (6, 2.499, 11, False),
    (7, 3.0, EOS, True), (6, 3.0, EOS, False), (1, 9.0, B, False), (9, 0.0, B, False)])
def test_within_the_best_and_the_gap(beta: int, tau: float, token: int, kept: bool) -> None:
    """Equations 8 and 9, their boundaries included; what follows is what follows the draft's token."""
    text = (token if kept else A, *[A] * ((token if kept else A) - A), EOS)
    text = (EOS,) if kept and token == EOS else text
    draft = (token, *text[1:]) if kept else (token, A, A, EOS)
    more = [] if kept else [()]
    output, counts, found = run(forked, [draft, *more], Acceptance(beta, tau), LengthLimit(0.0, 20))
    assert output == text and counts == ([len(text)] if kept else [1, 1])
    first = forked((), ()).log_softmax(1)[0, text[0]].item()
    assert found.scores.item() == pytest.approx(first, abs=1e-7)


def plainly(script: Script, source: Row, drafts: Proposals, acceptance: Acceptance, steps: int) -> tuple[
        Row, list[int], float]:
    """Draft and verify as the paper has it, a token at a time: output, accepted tokens a call, and score."""
    output: Row = ()
    counts, score = [], 0.0
    while len(output) < steps and EOS not in output:
        before = len(output)
        for drafted in [*drafts(0, output)[:LIMIT.longest - before], None]:  # as far as the verifier can read
            scores = script(source, output).log_softmax(1)[0]
            predicted = int(scores.argmax())
            if drafted is not None and acceptance.beta > 1 and acceptance.tau > 0 and drafted != PAD:
                last = scores.sort(descending=True).values[acceptance.beta - 1]
                if scores[drafted] >= last and scores[predicted] - scores[drafted] <= acceptance.tau:
                    predicted = drafted
            output, score = (*output, predicted), score + scores[predicted].item()
            if predicted != drafted or predicted == EOS or len(output) == steps:
                break
        counts.append(len(output) - before)
    return output, counts, score


@given(st.integers(0, 500), st.integers(1, 9), st.sampled_from([0.2, 0.6, 1.0]),
       st.sampled_from([EXACT, *(Acceptance(beta, tau) for beta in (2, 3, 5) for tau in (0.3, 1.5, 9.0))]))
@settings(max_examples=60)
def test_as_the_paper_has_it(seed: int, k: int, wrong: float, acceptance: Acceptance) -> None:
    script = random_script(ORDER, 3, seed, 12)
    model = Scripted(ORDER, script)
    expected = greedy.search(model, SOURCE, LIMIT)
    drafts = told([tuple(expected.tokens[0, 0].tolist())], k, wrong, seed, vocabulary=12)
    output, counts, score = plainly(script, (A, EOS), drafts, acceptance, 8)
    found = verify(model, ScriptedDrafter([0], drafts), SOURCE, model.encode(SOURCE), LIMIT, acceptance)
    assert found.verification is not None and found.verification.exact == acceptance.exact
    words = tuple(token for token in output if token != EOS)
    assert tuple(found.tokens[0, 0].tolist()) == words and bool(found.ended) == (EOS in output)
    assert [int(one.accepted) for one in found.verification.rounds] == counts
    assert found.scores.item() == pytest.approx(score, abs=1e-9)
    if acceptance.exact:
        assert torch.equal(found.tokens, expected.tokens)


# Batches.

def by_source(source: Row, prefix: Row) -> Tensor:
    """A sentence of n pieces has 2 n - 2 words, which tell it apart."""
    word = source[0] if len(prefix) < 2 * len(source) - 2 else EOS
    return logits({A: 8.5, B: 8.0, word: 9.0})


@pytest.mark.parametrize("acceptance", [EXACT, RELAXED], ids=str)
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_rows_advance_and_leave_each_at_its_own_pace(k: int, acceptance: Acceptance) -> None:
    """Far from the limit a sentence has the same calls and drafts in any batch."""
    source = torch.tensor([[A, A, EOS, PAD], [B, EOS, PAD, PAD], [C, C, C, EOS], [EOS, PAD, PAD, PAD]])
    limit, wanted = LengthLimit(0.0, 30), [(A,) * 4, (B,) * 2, (C,) * 6, ()]
    for wrong in (0.0, 0.5, 1.0):
        drafts = told([(*words, EOS) for words in wanted], k, wrong, seed=k, vocabulary=12)
        model = Scripted(ORDER, by_source)
        together = verify(model, ScriptedDrafter([0, 1, 2, 3], drafts), source, model.encode(source), limit, acceptance)
        assert len(model.fed) == int(together.calls.max()) and model.fed == sorted(model.fed, reverse=True)
        assert sum(model.fed) == int(together.calls.sum())
        for row in range(4):
            alone = verify(model, ScriptedDrafter([row], drafts), source[row:row + 1],
                           model.encode(source[row:row + 1]), limit, acceptance)
            n = int(alone.lengths)
            assert torch.equal(together.tokens[row, 0, :n], alone.tokens[0, 0]) and together.lengths[row] == n
            assert together.calls[row] == alone.calls[0] and together.scores[row].item() == alone.scores.item()
        if acceptance.exact:
            assert [tuple(row[:n]) for row, n in zip(together.tokens[:, 0].tolist(), together.lengths[:, 0].tolist(),
                                                     strict=True)] == wanted


# Settings.

@pytest.mark.parametrize(("block", "message"), [
    ({"algorithm": "gad", "block": -1}, "block: -1 must be at least 0"),
    ({"algorithm": "iad", "block": -3}, "block: -3 must be at least 0"),
    ({"algorithm": "gad", "acceptance": {"beta": 0}}, "beta: 0 must be at least 1"),
    ({"algorithm": "gad", "acceptance": {"tau": -0.1}}, "tau: -0.1 must be at least 0"),
    ({"algorithm": "gad", "acceptance": {"tau": math.nan}}, "tau: nan must be finite and at least 0"),
    ({"algorithm": "iad", "shortest": 3, "longest": 2}, "shortest: 3 must not exceed longest, 2"),
    ({"algorithm": "iad", "shortest": 0}, "shortest: 0 must be at least 1"),
])
def test_settings_that_make_no_sense(block: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        make_decoder("mine", block, LIMIT)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("changes", "message"), [
    ({"block": 0}, "block: 0 must be at least 1"), ({"stride": 0}, "stride: 0 must be at least 1"),
    ({"prefix": "half"}, "prefix is 'half'"),
    ({"glancing": (0.5, 1.1)}, r"glancing\[1\]: 1.1 must be at least 0 and at most 1")])
def test_training_settings_that_make_no_sense(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        DraftingSettings("ar", **changes)  # type: ignore[arg-type]


def test_exact_is_the_default() -> None:
    assert GadSettings().acceptance.exact and iad.Settings().acceptance.exact
    assert [Acceptance(beta, tau).exact for beta, tau in ((1, 0.0), (1, 9.0), (5, 0.0), (2, 0.1))] == [
        True, True, True, False]
