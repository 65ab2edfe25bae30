"""How many gold words do the candidates of their position hold? (Figure 1 of the paper.)

At the gold length, without search, for three methods of choosing K candidates: the position-aware count model; the
shared vocabulary of L'Hostis et al. (2016), K words for each source word; and the K best words of a non-autoregressive
network that sees nothing of the target. K has a different meaning in each, so recall is also plotted against the number
of different words among which a position can choose.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pipeline import layout
from pipeline.alignment.build import read_aligned
from pipeline.corpus.pairs import Ids
from pipeline.engine.door import open_engine
from pipeline.evaluation.analyses import chart
from pipeline.evaluation.analyses.finding import Finding
from pipeline.evaluation.analyses.finished_run import FinishedRun
from pipeline.evaluation.analyses.lattice.context import ROWS, LatticeContext
from pipeline.evaluation.analyses.lattice.shared_vocabulary import SharedVocabulary
from pipeline.evaluation.analyses.sentences import Sentences, make_batches
from pipeline.evaluation.bootstrap import Estimate, Floats, interval, resample
from pipeline.evaluation.reference import REFERENCE_DECODERS
from pipeline.evaluation.rows import read_lines, texts_of
from pipeline.model.lattice import LatticeTransformer
from pipeline.model.masked import MaskedTransformer
from pipeline.systems import TEACHER
from pipeline.vocabulary import BOS, EOD, EOS, LENGTH, MASK, PAD

METHODS = {"position_aware": "position-aware counts", "shared": "shared vocabulary", "nat": "NAT"}
"""Methods of choosing candidates, and their names in the picture."""
_STYLES = {"-": "solid", "--": "dashed", ":": "dotted"}

Ranked = tuple[Tensor, Tensor]
"""(B, N) ranks of the gold words from 0, and (B, N, sizes) how many words their position can choose from."""
Method = Callable[[Sentences], Ranked]


@dataclass(frozen=True)
class Counted:
    """What a method offered for the gold words of N sentences, at each of S values of K."""

    hits: Floats
    """(N, S) gold words among the candidates."""
    offered: Floats
    """(N, S) candidates, summed over the positions."""
    words: Floats
    """(N,) gold words, of which there is one per position."""

    def recall(self) -> Floats:
        """(S,) share of the gold words."""
        return self.hits.sum(0) / self.words.sum()

    def choice(self) -> Floats:
        """(S,) mean number of words that a position can choose from."""
        return self.offered.sum(0) / self.words.sum()


Curves = dict[str, Counted]
"""By method."""


def ask(context: LatticeContext) -> Finding:
    """On the test references, and on the translations of a teacher that is a system (the paper's distilled data)."""
    if context.lattice is None:
        return context.not_measured()
    run, test, teacher = context.run, context.run.pairs("test"), (TEACHER, REFERENCE_DECODERS[0])
    texts: dict[str, list[tuple[Ids, Ids]]] = {"references": test}
    if TEACHER in run.params.systems and teacher[1] in run.params.decoders_of(TEACHER):
        targets = run.tokenizer.encode_target(texts_of(read_lines(layout.HYPOTHESES, [teacher], len(test)))[teacher])
        texts["teacher"] = [(source, target) for (source, _), target in zip(test, targets, strict=True)]
    longest = min(network.settings.max_length for network in (context.lattice, context.nat) if network is not None)
    golds = {name: make_batches(pairs, rows=ROWS, longest=longest, device=run.device) for name, pairs in texts.items()}
    sizes = sorted(run.params.analyses.candidates)
    return recall(golds, sizes, context.lattice, _shared_vocabulary(run, sizes[-1]), context.nat,
                  samples=run.params.evaluation.bootstrap_samples)


def _shared_vocabulary(run: FinishedRun, k: int) -> SharedVocabulary:
    """Counted from the links from which the lattice's own count model was counted."""
    side = run.params.family(run.params.analyses.lattice).data.side
    names = layout.TRAINING_SIDES if side == "both" else (side,)
    aligned = [read_aligned(layout.TRAINING_SIDES[name], layout.ALIGNMENT / f"{name}.safetensors", run.tokenizer)[0]
               for name in names]
    return SharedVocabulary.from_links(aligned, k, run.tokenizer.source_size, run.tokenizer.target_size)


def recall(golds: Mapping[str, tuple[Sequence[Sentences], int]], sizes: Sequence[int], lattice: LatticeTransformer,
           shared: SharedVocabulary, nat: MaskedTransformer | None, *, samples: int) -> Finding:
    """Measure recall at every K, and what the position-aware counts gain over as many shared words.

    Args:
        golds: by name, batches of sentences, and how many sentences are not in them.
        sizes: the values of K.
        lattice: has the count model.
        shared: of at least the largest K.
        nat: None where there is no such network.
        samples: resamples of the bootstrap.
    """
    methods: dict[str, Method] = {
        "position_aware": lambda sentences: by_position(lattice, sentences, sizes),
        "shared": lambda sentences: by_sentence(shared, sentences, sizes)}
    if nat is not None:
        methods["nat"] = lambda sentences: by_network(nat, sentences, sizes)
    metric, curves = {}, {}
    for gold, (batches, left_out) in golds.items():
        curves[gold] = measure_recall(batches, sizes, methods)
        found = curves[gold]
        by_size = {name: {what: dict(zip(map(str, sizes), values.tolist(), strict=True))
                          for what, values in (("recall", one.recall()), ("words", one.choice()))}
                   for name, one in found.items()}
        metric[gold] = {"sentences": sum(len(batch.source) for batch in batches), "sentences_left_out": left_out,
                        "words": sum(int((batch.target != PAD).sum()) for batch in batches), **by_size}
        if found:
            metric[gold]["gain_over_shared"] = {f"{words:.0f}": gain.named("recall") for words, gain in gains(
                found["position_aware"], found["shared"], samples).items()}
    return Finding(metric, _draw(curves, sizes))


def gains(mine: Counted, theirs: Counted, samples: int) -> dict[float, Estimate]:
    """How much more one method recalls than another one that offers as many words, by their number.

    The other method's recall is interpolated between its values of K, on a logarithmic axis. Numbers of words that it
    does not span are left out.

    Args:
        mine, theirs: of the same sentences.
        samples: resamples of the bootstrap.
    """
    times, words = resample(len(mine.words), samples), mine.choice()
    within = (words >= theirs.choice()[0]) & (words <= theirs.choice()[-1])
    resampled = [times @ one.hits / (times @ one.words)[:, None] for one in (mine, theirs)]

    def over(own: Floats, other: Floats) -> Floats:
        return own - np.interp(np.log(words), np.log(theirs.choice()), other)

    found = over(mine.recall(), theirs.recall())
    spread = np.array([over(*both) for both in zip(*resampled, strict=True)])
    return {float(words[at]): Estimate(float(found[at]), *interval(spread[:, at], len(mine.words)))
            for at in np.flatnonzero(within)}


def measure_recall(batches: Sequence[Sentences], sizes: Sequence[int], methods: Mapping[str, Method]) -> Curves:
    """Count, per sentence, the gold words whose rank is below K, and the words to choose from."""
    hits, offered, words = defaultdict(list), defaultdict(list), list[Floats]()
    for sentences in batches:
        present = (sentences.target != PAD).cpu()
        words.append(present.sum(1).double().numpy())
        for name, method in methods.items():
            rank, choice = (one.cpu() for one in method(sentences))
            inside = (rank.unsqueeze(2) < torch.tensor(sizes)) & present.unsqueeze(2)
            hits[name].append(inside.sum(1).double().numpy())
            offered[name].append((choice * present.unsqueeze(2)).sum(1).double().numpy())
    return {name: Counted(np.concatenate(hits[name]), np.concatenate(offered[name]), np.concatenate(words))
            for name in methods if hits[name]}


def by_position(lattice: LatticeTransformer, sentences: Sentences, sizes: Sequence[int]) -> Ranked:
    """The candidates of the count model for each position."""
    words, _ = lattice.candidates(sentences.source, sentences.target.shape[1], max(sizes))
    same = words == sentences.target.unsqueeze(2)
    ranks = torch.where(same.any(2), same.byte().argmax(2), max(sizes))
    there = (words != PAD).sum(2, keepdim=True)
    return ranks, there.clamp(max=torch.tensor(sizes, device=there.device))


def by_sentence(shared: SharedVocabulary, sentences: Sentences, sizes: Sequence[int]) -> Ranked:
    """The vocabulary that all positions of a sentence share."""
    ranks, offered = shared.ranks(sentences.source.cpu().numpy(), sentences.target.cpu().numpy(), sizes)
    return torch.from_numpy(ranks), torch.from_numpy(offered).unsqueeze(1)


@torch.inference_mode()
def by_network(nat: MaskedTransformer, sentences: Sentences, sizes: Sequence[int]) -> Ranked:
    """The best words of a network that knows the length and no word; the lower id where two are equally probable."""
    target, nat = sentences.target, open_engine(nat)
    state = nat.start(nat.encode(sentences.source), capacity=target.shape[1])
    logits = nat.step(target.masked_fill(target != PAD, MASK), state)
    logits = logits.index_fill(2, torch.tensor([PAD, BOS, EOS, MASK, EOD, LENGTH], device=target.device), -torch.inf)
    own, ids = logits.gather(2, target.unsqueeze(2)), torch.arange(logits.shape[2], device=target.device)
    before = (logits > own) | (logits == own) & (ids < target.unsqueeze(2))
    there = (logits > -torch.inf).sum(2, keepdim=True)
    return before.sum(2), there.clamp(max=torch.tensor(sizes, device=there.device))


def _draw(curves: Mapping[str, Curves], sizes: Sequence[int]) -> Figure:
    figure, (by_k, by_words) = chart.new_picture(2)
    styles = dict(zip(curves, _STYLES, strict=False))
    for gold, style in styles.items():
        for (name, label), colour in chart.coloured(METHODS.items()):
            if name in curves[gold]:
                values = (100 * curves[gold][name].recall()).tolist()
                chart.curve(by_k, sizes, values, colour, label=label if style == "-" else "", style=style)
                chart.curve(by_words, curves[gold][name].choice().tolist(), values, colour, style=style)
    chart.powers_of_two(by_k, sizes)
    most = max((float(curve.choice()[-1]) for found in curves.values() for curve in found.values()), default=1.0)
    chart.powers_of_two(by_words, [2.0 ** power for power in range(0, int(np.log2(most)) + 2, 2)])
    chart.name_axes(by_k, "K (shared vocabulary: per source word)", "gold words among the candidates, %",
                    "gold: " + ", ".join(f"{gold} ({_STYLES[style]})" for gold, style in styles.items()))
    chart.name_axes(by_words, "different words to choose from per position, mean", "")
    by_words.sharey(by_k)
    chart.add_legend(figure, len(METHODS))
    return figure
