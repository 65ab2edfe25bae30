"""Export of a left-to-right Transformer to CTranslate2, an engine for serving; it supports all our architectures.

The folder also has the vocabularies and the SentencePiece models, so that text is translated by

    pieces = SentencePieceProcessor(model_file="DIR/source.spm").encode(normalised, out_type=str)
    found = ctranslate2.Translator("DIR").translate_batch([pieces], beam_size=1, min_decoding_length=0,
                                                          max_input_length=N, max_decoding_length=N)
    text = SentencePieceProcessor(model_file="DIR/target.spm").decode(found[0].hypotheses[0])

where N, `longest` in the folder's marker, is its number of positions: beyond them CTranslate2 raises an error. By
default it predicts at least one word; our models may predict none.

This file does not import torch, so that a process which only serves CTranslate2 can import it (two OpenMP runtimes in
one process slow each other down).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.extras import missing
from pipeline.model.settings import NetworkSettings

if TYPE_CHECKING:
    from pipeline.model.transformer import Transformer

Weights = Mapping[str, NDArray[np.float32]]


def weights_of(network: "Transformer") -> dict[str, NDArray[np.float32]]:
    """Return copies of all weights, tied ones under each of their names, and of both tables of positions."""
    tensors = network.state_dict() | {"source_positions": network.source_positions(),
                                      "target_positions": network.target_positions()}
    return {name: np.array(weight.detach().cpu().numpy(), dtype=np.float32, order="C")
            for name, weight in tensors.items()}


def specification(weights: Weights, settings: NetworkSettings, source_pieces: list[str],
                  target_pieces: list[str]) -> Any:
    """Return a validated `ctranslate2.specs.TransformerSpec` for the result of `weights_of`.

    Pieces are the names of all ids; CTranslate2's input and output are names.

    Raises:
        PipelineError: ctranslate2 is not installed.
    """
    try:
        from ctranslate2.specs import common_spec, transformer_spec
    except ImportError:
        raise missing("ctranslate2", "export ctranslate2") from None
    activations = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU,
                   "swish": common_spec.Activation.SWISH}
    spec = transformer_spec.TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers), settings.heads, pre_norm=settings.norm == "pre",
        activation=activations[settings.activation])
    for side, stack, embeddings in (("source", spec.encoder, spec.encoder.embeddings[0]),
                                    ("target", spec.decoder, spec.decoder.embeddings)):
        stack.scale_embeddings = True
        embeddings.weight = weights[f"{side}_embedding.weight"]
        stack.position_encodings.encodings = weights[f"{side}_positions"]
    spec.decoder.projection.weight = weights["projection.weight"]
    if settings.norm == "pre":
        _set_norm(spec.encoder.layer_norm, weights, "encoder_norm")
        _set_norm(spec.decoder.layer_norm, weights, "decoder_norm")
    for index, layer in enumerate(spec.encoder.layer):
        _set_common(layer, weights, f"encoder.{index}")
    source_weights = np.split(weights["source_keys_values.weight"], settings.decoder_layers)
    source_biases = np.split(weights["source_keys_values.bias"], settings.decoder_layers)
    for index, layer in enumerate(spec.decoder.layer):
        name = f"decoder.{index}"
        _set_common(layer, weights, name)
        _set_linear(layer.attention.linear[0], weights, f"{name}.cross_attention.queries")
        layer.attention.linear[1].weight = source_weights[index]
        layer.attention.linear[1].bias = source_biases[index]
        _set_linear(layer.attention.linear[2], weights, f"{name}.cross_attention.output")
        _set_norm(layer.attention.layer_norm, weights, f"{name}.around_cross_attention.norm")
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    spec.validate()
    return spec


def save_model(network: "Transformer", source_pieces: list[str], target_pieces: list[str], folder: Path,
               quantization: str = "float32") -> None:
    """Write the model and its vocabularies into an existing folder.

    `quantization` of the matrices is float32, or int8, which rounds each row to 255 levels.

    Raises:
        PipelineError: ctranslate2 is not installed.
    """
    spec = specification(weights_of(network), network.settings, source_pieces, target_pieces)
    spec.config.add_source_eos = True  # so that a source is only the pieces of a text
    spec.optimize(quantization)
    spec.save(str(folder))


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
