"""One set of random weights in three engines: Hugging Face Marian, ours, CTranslate2."""

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from pipeline.model.checkpoint import column_major
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, PAD


def random_marian(settings: NetworkSettings, vocabulary: int, seed: int, spread: float = 0.02) -> MarianMTModel:
    """A Marian model that computes what a post-norm `Transformer` of these settings computes.

    The three vocabulary matrices are not tied: a tied model with random weights soon repeats one word for ever, which
    would make equal outputs too easy. A step reads and multiplies the same numbers either way.

    Args:
        settings: post-norm, with `tied_embeddings` none.
        spread: standard deviation of the matrices and biases, and of the norms' scales around 1.
    """
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(
        vocab_size=vocabulary, d_model=settings.width, max_position_embeddings=settings.max_length,
        encoder_layers=settings.encoder_layers, decoder_layers=settings.decoder_layers,
        encoder_attention_heads=settings.heads, decoder_attention_heads=settings.heads,
        encoder_ffn_dim=settings.feed_forward, decoder_ffn_dim=settings.feed_forward,
        tie_word_embeddings=False, activation_function=settings.activation, scale_embedding=True, init_std=spread,
        pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name and parameter.dim() == 1:  # biases and norms: not 0 and 1 either
                parameter.add_(torch.randn_like(parameter) * spread)
            if name.endswith(("embed_tokens.weight", "lm_head.weight")):
                parameter.normal_(std=settings.width**-0.5)
    return model.eval()


def transformer_of(marian: MarianMTModel, settings: NetworkSettings) -> Transformer:
    """Our Transformer with Marian's weights.

    Marian has a bias on the logits, ours has none: it must be zero.
    """
    vocabulary = marian.config.vocab_size
    if bool(marian.final_logits_bias.any()):
        raise ValueError("final_logits_bias is not zero: this Transformer has no place for it")
    ours = Transformer(settings, vocabulary, vocabulary, make_order(OrderSettings("left_to_right")))
    theirs = marian.model.state_dict()
    weights: dict[str, Tensor] = {
        "source_embedding.weight": theirs["encoder.embed_tokens.weight"],
        "target_embedding.weight": theirs["decoder.embed_tokens.weight"],
        "projection.weight": marian.lm_head.weight.detach()}
    for stack, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        for index in range(layers):
            layer = f"{stack}.layers.{index}."
            named = {name.removeprefix(layer): weight for name, weight in theirs.items() if name.startswith(layer)}
            weights |= {f"{stack}.{index}.{name}": weight for name, weight in _layer(named).items()}
    for part in ("weight", "bias"):
        weights[f"source_keys_values.{part}"] = torch.cat([
            theirs[f"decoder.layers.{index}.encoder_attn.{matrix}.{part}"]
            for index in range(settings.decoder_layers) for matrix in ("k_proj", "v_proj")])
    ours.load_state_dict(weights)
    return column_major(ours.eval())  # as a loaded checkpoint is


_LAYER = {
    "self_attention.output": "self_attn.out_proj", "around_self_attention.norm": "self_attn_layer_norm",
    "feed_forward.inner": "fc1", "feed_forward.outer": "fc2", "around_feed_forward.norm": "final_layer_norm",
}
_DECODER_LAYER = {
    "cross_attention.queries": "encoder_attn.q_proj", "cross_attention.output": "encoder_attn.out_proj",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
}


def _layer(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One encoder or decoder layer, but for the keys and values of the source."""
    names = _LAYER | (_DECODER_LAYER if "encoder_attn.q_proj.weight" in theirs else {})
    ours = {}
    for part in ("weight", "bias"):
        ours[f"self_attention.queries_keys_values.{part}"] = torch.cat([
            theirs[f"self_attn.{matrix}.{part}"] for matrix in ("q_proj", "k_proj", "v_proj")])
        ours |= {f"{mine}.{part}": theirs[f"{name}.{part}"] for mine, name in names.items()}
    return ours
