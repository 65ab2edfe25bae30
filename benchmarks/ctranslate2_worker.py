"""CTranslate2 in a process of its own: two OpenMP runtimes in one process slow each other down.

    python -m benchmarks.ctranslate2_worker WEIGHTS.safetensors NETWORK THREADS TYPE

NETWORK is JSON, the fields of `NetworkSettings`; TYPE is CTranslate2's `compute_type`. It reads a JSON line per
request, {"source": ids, "beams": K, "length": T}, and answers with a JSON line, {"seconds": of the translation alone,
"tokens": ids}. It ends with its input. No torch in here.
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


def serve(path: str, settings: NetworkSettings, threads: int, compute_type: str) -> None:
    """Answer requests until the input ends."""
    weights = load_file(path)
    names = vocabulary(len(weights["projection.weight"]))
    spec = specification(weights, settings, names, names)
    ids = {name: index for index, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        spec.optimize()
        spec.save(folder)
        translator = ctranslate2.Translator(folder, device="cpu", compute_type=compute_type,
                                            inter_threads=1, intra_threads=threads)
    for line in sys.stdin:
        request = json.loads(line)
        source = [[names[index] for index in request["source"]]]
        start = time.perf_counter()
        result = translator.translate_batch(
            source, beam_size=request["beams"], max_decoding_length=request["length"])
        seconds = time.perf_counter() - start
        tokens = [ids[name] for name in result[0].hypotheses[0]]
        print(json.dumps({"seconds": seconds, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], NetworkSettings(**json.loads(sys.argv[2])), int(sys.argv[3]), sys.argv[4])
