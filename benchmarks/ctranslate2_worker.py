"""CTranslate2 in a process of its own: two OpenMP runtimes in one process slow each other down.

    python -m benchmarks.ctranslate2_worker WEIGHTS.safetensors HEADS THREADS

It reads a JSON line a request, {"source": ids, "beams": K, "length": T}, and answers with a JSON line,
{"seconds": of the translation alone, "tokens": ids}. It ends with its input. No torch in here.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from pipeline.vocabulary import SPECIALS

sys.modules["torch"] = None  # type: ignore[assignment]  # CTranslate2 would import it for its converters
import ctranslate2  # type: ignore[import-untyped]  # noqa: E402
from ctranslate2.specs import common_spec, transformer_spec  # type: ignore[import-untyped]  # noqa: E402

Weights = Mapping[str, NDArray[np.float32]]


def specification(weights: Weights, heads: int) -> Any:
    """The model of a post-norm, left-to-right `pipeline.model.transformer.Transformer` with relu.

    Args:
        weights: its tensors; `source_positions` and `target_positions` are its position tables.
    """
    layers = [1 + max(int(name.split(".")[1]) for name in weights if name.startswith(f"{stack}."))
              for stack in ("encoder", "decoder")]
    spec = transformer_spec.TransformerSpec.from_config(
        (layers[0], layers[1]), heads, pre_norm=False, activation=common_spec.Activation.RELU)
    for side, stack, embeddings in (("source", spec.encoder, spec.encoder.embeddings[0]),
                                    ("target", spec.decoder, spec.decoder.embeddings)):
        stack.scale_embeddings = True
        embeddings.weight = weights[f"{side}_embedding.weight"]
        stack.position_encodings.encodings = weights[f"{side}_positions"]
    spec.decoder.projection.weight = weights["projection.weight"]
    for index, layer in enumerate(spec.encoder.layer):
        _set_common(layer, weights, f"encoder.{index}")
    source_weights = np.split(weights["source_keys_values.weight"], layers[1])
    source_biases = np.split(weights["source_keys_values.bias"], layers[1])
    for index, layer in enumerate(spec.decoder.layer):
        name = f"decoder.{index}"
        _set_common(layer, weights, name)
        _set_linear(layer.attention.linear[0], weights, f"{name}.cross_attention.queries")
        layer.attention.linear[1].weight = source_weights[index]
        layer.attention.linear[1].bias = source_biases[index]
        _set_linear(layer.attention.linear[2], weights, f"{name}.cross_attention.output")
        _set_norm(layer.attention.layer_norm, weights, f"{name}.around_cross_attention.norm")
    names = vocabulary(len(weights["projection.weight"]))
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    return spec


def vocabulary(size: int) -> list[str]:
    """A name for every id; CTranslate2 takes and gives names."""
    return [*SPECIALS, *map(str, range(len(SPECIALS), size))]


def _set_common(layer: Any, weights: Weights, name: str) -> None:
    _set_linear(layer.self_attention.linear[0], weights, f"{name}.self_attention.queries_keys_values")
    _set_linear(layer.self_attention.linear[1], weights, f"{name}.self_attention.output")
    _set_norm(layer.self_attention.layer_norm, weights, f"{name}.around_self_attention.norm")
    _set_linear(layer.ffn.linear_0, weights, f"{name}.feed_forward.inner")
    _set_linear(layer.ffn.linear_1, weights, f"{name}.feed_forward.outer")
    _set_norm(layer.ffn.layer_norm, weights, f"{name}.around_feed_forward.norm")


def _set_linear(linear: Any, weights: Weights, name: str) -> None:
    linear.weight, linear.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _set_norm(norm: Any, weights: Weights, name: str) -> None:
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def serve(weights: str, heads: int, threads: int) -> None:
    """Answer requests until the input ends."""
    spec = specification(load_file(weights), heads)
    names = vocabulary(len(spec.decoder.projection.weight))
    ids = {name: index for index, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.optimize()
        spec.save(folder)
        translator = ctranslate2.Translator(folder, device="cpu", compute_type="float32", inter_threads=1,
                                            intra_threads=threads)
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
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
