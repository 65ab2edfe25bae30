"""CTranslate2 in a process of its own: two OpenMP runtimes in one process slow each other down.

    python -m benchmarks.ctranslate2_worker WEIGHTS.safetensors NETWORK WORKERS THREADS TYPE

NETWORK is JSON, the fields of `NetworkSettings`; WORKERS translate a part of the batch each, with so many THREADS; TYPE
is CTranslate2's `compute_type`. It reads a JSON line per request, {"sources": rows of ids, "beams": K, "length": T},
and answers with a JSON line, {"seconds": of the translation alone, "tokens": rows of ids}. It ends with its input. No
torch in here.
"""

import json
import sys
import tempfile
import time

from safetensors.numpy import load_file

from pipeline.model.settings import NetworkSettings
from pipeline.vocabulary import SPECIALS

sys.modules["torch"] = None  # type: ignore[assignment]  # CTranslate2 would import it for its converters
import ctranslate2  # noqa: E402

from pipeline.interop.export_ctranslate2 import specification  # noqa: E402


def vocabulary(size: int) -> list[str]:
    """A name for every id; CTranslate2 takes and gives names."""
    return [*SPECIALS, *map(str, range(len(SPECIALS), size))]


def serve(path: str, settings: NetworkSettings, workers: int, threads: int, compute_type: str) -> None:
    """Answer requests until the input ends."""
    weights = load_file(path)
    names = vocabulary(len(weights["projection.weight"]))
    spec = specification(weights, settings, names, names)
    ids = {name: index for index, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        spec.optimize()
        spec.save(folder)
        translator = ctranslate2.Translator(folder, device="cpu", compute_type=compute_type,
                                            inter_threads=workers, intra_threads=threads)
    for line in sys.stdin:
        request = json.loads(line)
        sources = [[names[index] for index in source] for source in request["sources"]]
        start = time.perf_counter()
        results = translator.translate_batch(
            sources, beam_size=request["beams"], max_decoding_length=request["length"],
            max_batch_size=-(-len(sources) // workers))
        seconds = time.perf_counter() - start
        tokens = [[ids[name] for name in result.hypotheses[0]] for result in results]
        print(json.dumps({"seconds": seconds, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], NetworkSettings(**json.loads(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
