"""The links of one sentence pair as text: one line per target word, with the source words that it is linked to."""

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.links import Links


def draw(bitext: Bitext, links: Links, pair: int, source_words: list[str], target_words: list[str]) -> str:
    """Return the lines of a pair, numbered from 0: target word, arrow, and source words in their order or `-`."""
    source = [source_words[word] for word in bitext.source.part(pair, pair + 1).ids.tolist()]
    target = [target_words[word] for word in bitext.target.part(pair, pair + 1).ids.tolist()]
    linked: list[list[int]] = [[] for _ in target]
    for s, t in zip(*(side[links.offsets[pair]:links.offsets[pair + 1]].tolist() for side in links[1:]), strict=True):
        linked[t].append(s)
    width = max(map(len, target), default=0)
    return "\n".join(f"{word:<{width}} <- {' '.join(source[s] for s in sorted(heads)) or '-'}"
                     for word, heads in zip(target, linked, strict=True))
