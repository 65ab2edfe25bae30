"""How many gold words do the candidates of their position hold? (Figure 1 of the paper.)

At the gold length, without search, for three methods of choosing K candidates: the position-aware count model; the
shared vocabulary of L'Hostis et al. (2016), K words for each source word; and the K best words of a non-autoregressive
network that sees nothing of the target. K has a different meaning in each, so recall is also plotted against the number
of different words among which a position can choose.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

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
Curves = dict[str, dict[str, list[float]]]
"""The `recall` of each method and its mean number of `words` at each K."""


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
    return recall(golds, sizes, context.lattice, _shared_vocabulary(run, sizes[-1]), context.nat)


def _shared_vocabulary(run: FinishedRun, k: int) -> SharedVocabulary:
    """Counted from the links from which the lattice's own count model was counted."""
    side = run.params.family(run.params.analyses.lattice).data.side
    names = layout.TRAINING_SIDES if side == "both" else (side,)
    aligned = [read_aligned(layout.TRAINING_SIDES[name], layout.ALIGNMENT / f"{name}.safetensors", run.tokenizer)[0]
               for name in names]
    return SharedVocabulary.from_links(aligned, k, run.tokenizer.source_size, run.tokenizer.target_size)


def recall(golds: Mapping[str, tuple[Sequence[Sentences], int]], sizes: Sequence[int], lattice: LatticeTransformer,
           shared: SharedVocabulary, nat: MaskedTransformer | None) -> Finding:
    """Measure recall at every K.

    Args:
        golds: by name, batches of sentences, and how many sentences are not in them.
        sizes: the values of K.
        lattice: has the count model.
        shared: of at least the largest K.
        nat: None where there is no such network.
    """
    methods: dict[str, Method] = {
        "position_aware": lambda sentences: by_position(lattice, sentences, sizes),
        "shared": lambda sentences: by_sentence(shared, sentences, sizes)}
    if nat is not None:
        methods["nat"] = lambda sentences: by_network(nat, sentences, sizes)
    metric, curves = {}, {}
    for gold, (batches, left_out) in golds.items():
        curves[gold] = measure_recall(batches, sizes, methods)
        by_size = {name: {what: dict(zip(map(str, sizes), values, strict=True)) for what, values in curve.items()}
                   for name, curve in curves[gold].items()}
        metric[gold] = {"sentences": sum(len(batch.source) for batch in batches), "sentences_left_out": left_out,
                        "words": sum(int((batch.target != PAD).sum()) for batch in batches), **by_size}
    return Finding(metric, _draw(curves, sizes))


def measure_recall(batches: Sequence[Sentences], sizes: Sequence[int], methods: Mapping[str, Method]) -> Curves:
    """The share of gold words whose rank is below K, and the mean number of words to choose from."""
    ranks, offered = defaultdict(list), defaultdict(list)
    for sentences in batches:
        present = (sentences.target != PAD).cpu()
        for name, method in methods.items():
            rank, words = method(sentences)
            ranks[name].append(rank.cpu()[present].numpy())
            offered[name].append(words.cpu().expand(*present.shape, -1)[present].numpy())
    return {name: {"recall": (np.concatenate(ranks[name])[:, None] < np.array(sizes)).mean(0).tolist(),
                   "words": np.concatenate(offered[name]).mean(0).tolist()} for name in methods if ranks[name]}


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
                values = [100 * share for share in curves[gold][name]["recall"]]
                chart.curve(by_k, sizes, values, colour, label=label if style == "-" else "", style=style)
                chart.curve(by_words, curves[gold][name]["words"], values, colour, style=style)
    chart.powers_of_two(by_k, sizes)
    most = max((curve["words"][-1] for found in curves.values() for curve in found.values()), default=1.0)
    chart.powers_of_two(by_words, [2.0 ** power for power in range(0, int(np.log2(most)) + 2, 2)])
    chart.name_axes(by_k, "K (shared vocabulary: per source word)", "gold words among the candidates, %",
                    "gold: " + ", ".join(f"{gold} ({_STYLES[style]})" for gold, style in styles.items()))
    chart.name_axes(by_words, "different words to choose from per position, mean", "")
    by_words.sharey(by_k)
    chart.add_legend(figure, len(METHODS))
    return figure
