"""CTranslate2 in a process of its own: two OpenMP runtimes in one process slow each other down.

It reads JSON, a list of {"folder": path, "sources": pieces, "targets": pieces, "length": T}, and writes a list of
{"words": pieces of greedy search, "scores": their summed log-probabilities, "forced": those of the targets' words}.
"""

import json
import sys
from typing import Any

import ctranslate2


def answer(request: dict[str, Any]) -> dict[str, Any]:
    # In float32, also with int8 weights: what is compared is our export. CTranslate2's own products of bytes saturate
    # on processors without VNNI, where some of these random networks then predict other words.
    translator = ctranslate2.Translator(request["folder"], device="cpu", intra_threads=1, compute_type="float32")
    found = translator.translate_batch(request["sources"], beam_size=1, min_decoding_length=0,
                                       max_decoding_length=request["length"], length_penalty=0, return_scores=True)
    forced = translator.score_batch(request["sources"], request["targets"])
    return {"words": [one.hypotheses[0] for one in found], "scores": [one.scores[0] for one in found],
            "forced": [one.log_probs for one in forced]}


if __name__ == "__main__":
    json.dump([answer(request) for request in json.load(sys.stdin)], sys.stdout)
