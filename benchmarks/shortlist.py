"""Speed and BLEU of search with a vocabulary shortlist: `python -m benchmarks.shortlist --family ar` in a run's folder.

All contestants take turns over a split, one sentence at a time; the minimum of processor time counts. Settings are
chosen on the validation split, and reported on the test split.
"""

import argparse
import time
from itertools import product

import numpy as np
import sacrebleu
import torch

from benchmarks.clock import in_turns
from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.count_model.model import CountModel
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding.settings import make_decoder
from pipeline.params import load_params
from pipeline.text_model import open_family


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", required=True)
    parser.add_argument("--decoder", action="append", help="default: greedy and beam5")
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    parser.add_argument("--candidates", type=int, nargs="*", default=[10, 40])
    parser.add_argument("--frequent", type=int, nargs="*", default=[50])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--lines", type=int, help="the first ones of the split (default: all)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    params = load_params()
    model = open_family(params, arguments.family)
    counts = CountModel.open(layout.counts("both"), Tokenizer.load(layout.BPE).digest)
    lists = {f"{n} candidates, {common} frequent": Shortlist(counts, n, common)
             for n, common in product(arguments.candidates, arguments.frequent)}
    sources, references = (layout.read_corpus(layout.CORPUS / f"{arguments.split}.{side}")[:arguments.lines]
                           for side in ("source", "target"))
    batches = [pad_sources([ids], model.longest) for ids in model.encode(sources)]
    sizes = {name: np.mean([len(one(batch[0].numpy())) for batch in batches]) for name, one in lists.items()}
    limit = params.length_limit(model.longest)
    for decoder in arguments.decoder or ["greedy", "beam5"]:
        searches = {name: make_decoder(decoder, params.decoder(decoder), limit, shortlist)
                    for name, shortlist in {"whole vocabulary": None, **lists}.items()}
        seconds, texts = {name: np.full(len(batches), np.inf) for name in searches}, {}
        for _, name in in_turns(searches, arguments.turns):
            found = []
            for row, batch in enumerate(batches):
                began = time.thread_time()
                found.append(searches[name](model.network, batch))
                seconds[name][row] = min(seconds[name][row], time.thread_time() - began)
            texts[name] = model.text.decode_targets(one.best_words()[0] for one in found)
        whole = texts["whole vocabulary"]
        for name in searches:
            translations = texts[name]
            same = sum(one == other for one, other in zip(translations, whole, strict=True)) / len(whole)
            print(f"{decoder}, {name}: {sizes.get(name, model.network.vocabularies[1]):.0f} pieces, "
                  f"{1000 * seconds[name].mean():.3f} ms, "
                  f"BLEU {sacrebleu.corpus_bleu(translations, [references]).score:.2f}, "
                  f"{same:.1%} of lines the same")


if __name__ == "__main__":
    main()
