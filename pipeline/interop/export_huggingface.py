"""Export of a left-to-right Transformer to a checkpoint that the transformers library loads without our code.

Two of its architectures compute exactly the same. Both scale embeddings by sqrt(D), number positions from 0, and have
sines in the first half of the columns and cosines in the second:

* Marian is post-norm without a final norm. Source and target may have separate vocabularies.
* Pegasus is the same network pre-norm, with the final norms of encoder and decoder. Its position tables are weights of
  the checkpoint and may be learned. It has one vocabulary size.

Others are similar: BART and mBART also normalise the embeddings, and M2M100's sinusoids have other frequencies. Marian
reads a table of positions from a checkpoint but does not save it again, so learned positions would be lost: post-norm
with learned positions is refused.

The tokenizer is Marian's for both: it runs SentencePiece, so it segments text as ours does. It expects normalised text
(`lines.normalise`) and differs in two cases: text that begins like ">>de<<" is a language code, and
`skip_special_tokens` omits an unknown word, where ours writes "⁇".

The library is needed to load an export, not to make one.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.corpus.bpe import Tokenizer
from pipeline.errors import PipelineError
from pipeline.files import write_json
from pipeline.interop.folder import copy_models
from pipeline.model.checkpoint import write_weights
from pipeline.model.settings import NetworkSettings
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import BOS, EOS, PAD, SPECIALS, UNK

_LAYER = {
    "self_attention.queries_keys_values": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention.output": ("self_attn.out_proj",), "around_self_attention.norm": ("self_attn_layer_norm",),
    "feed_forward.inner": ("fc1",), "feed_forward.outer": ("fc2",), "around_feed_forward.norm": ("final_layer_norm",),
}
_DECODER_LAYER = _LAYER | {
    "cross_attention.queries": ("encoder_attn.q_proj",), "cross_attention.output": ("encoder_attn.out_proj",),
    "around_cross_attention.norm": ("encoder_attn_layer_norm",),
}
_EMBEDDINGS = {
    "source_embedding.weight": ("model.encoder.embed_tokens.weight",),
    "target_embedding.weight": ("model.decoder.embed_tokens.weight",),
    "projection.weight": ("lm_head.weight",),
}
_SHARED = "model.shared.weight"


def correspondence(settings: NetworkSettings) -> dict[str, tuple[str, ...]]:
    """Return, per weight of a Transformer, the weights of Marian or Pegasus that it is the concatenation of.

    Tied matrices are named separately; tables of positions are not included.
    """
    modules: dict[str, tuple[str, ...]] = {}
    for stack, layers, names in (("encoder", settings.encoder_layers, _LAYER),
                                 ("decoder", settings.decoder_layers, _DECODER_LAYER)):
        for index in range(layers):
            modules |= {f"{stack}.{index}.{ours}": tuple(f"model.{stack}.layers.{index}.{name}" for name in theirs)
                        for ours, theirs in names.items()}
        if settings.norm == "pre":
            modules[f"{stack}_norm"] = (f"model.{stack}.layer_norm",)
    modules["source_keys_values"] = tuple(
        f"model.decoder.layers.{index}.encoder_attn.{matrix}"
        for index in range(settings.decoder_layers) for matrix in ("k_proj", "v_proj"))
    return _EMBEDDINGS | {f"{ours}.{part}": tuple(f"{name}.{part}" for name in theirs)
                          for ours, theirs in modules.items() for part in ("weight", "bias")}


def save_model(network: Transformer, folder: Path) -> None:
    """Write `model.safetensors`, `config.json` and `generation_config.json` (greedy search) into an existing folder.

    Raises:
        PipelineError: no architecture of transformers is exactly this one.
    """
    config = _config(network)
    weights = {name: weight.clone(memory_format=torch.contiguous_format)
               for name, weight in _weights(network).items()}
    write_weights(folder / "model.safetensors", weights, {"format": "pt"})
    write_json(folder / "config.json", config)
    # max_length counts the start symbol.
    write_json(folder / "generation_config.json", _IDS | {
        "max_length": network.settings.max_length + 1, "num_beams": 1, "do_sample": False})


def save_tokenizer(tokenizer: Tokenizer, bpe: Path, longest: int, folder: Path) -> None:
    """Write the files of a Marian tokenizer that returns the ids of `tokenizer`, loaded from the folder `bpe`, and EOS.

    `longest` is the most tokens of the model, end symbol included.
    """
    copy_models(tokenizer, bpe, folder)
    ids = [{piece: number for number, piece in enumerate(pieces)}
           for pieces in (tokenizer.source_pieces, tokenizer.target_pieces)]
    write_json(folder / "vocab.json", ids[0])
    if not tokenizer.joint:
        write_json(folder / "target_vocab.json", ids[1])
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "MarianTokenizer", "separate_vocabs": not tokenizer.joint, "model_max_length": longest,
        "pad_token": SPECIALS[PAD], "unk_token": SPECIALS[UNK], "bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS],
        "split_special_tokens": True,  # "</s>" in a text is text
        "clean_up_tokenization_spaces": False})


_IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}


def _config(network: Transformer) -> dict[str, Any]:
    settings = network.settings
    source, target = network.source_embedding.num_embeddings, network.target_embedding.num_embeddings
    config = {
        **_IDS, "forced_eos_token_id": None, "is_encoder_decoder": True, "dtype": "float32", "vocab_size": source,
        "d_model": settings.width, "encoder_layers": settings.encoder_layers, "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads, "decoder_attention_heads": settings.heads,
        "encoder_ffn_dim": settings.feed_forward, "decoder_ffn_dim": settings.feed_forward,
        "activation_function": settings.activation, "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout, "activation_dropout": 0.0, "scale_embedding": True,
        "max_position_embeddings": settings.max_length,
    }
    shared = settings.tied_embeddings == "all"
    if settings.norm == "post":
        if settings.positions == "learned":
            raise PipelineError("network: post-norm with learned positions is not an architecture of transformers "
                                "(Marian computes its positions); export it with `export ctranslate2`")
        return config | {"model_type": "marian", "architectures": ["MarianMTModel"], "decoder_vocab_size": target,
                         "share_encoder_decoder_embeddings": shared,
                         "tie_word_embeddings": settings.tied_embeddings != "none"}
    if source != target:
        raise PipelineError(f"network: pre-norm with {source} source and {target} target pieces is not an architecture "
                            "of transformers (Pegasus has one vocabulary size); export it with `export ctranslate2`")
    return config | {"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"],
                     "tie_word_embeddings": shared}


def _weights(network: Transformer) -> dict[str, Tensor]:
    """Return the weights by the library's names; of those that its configuration ties, only the first."""
    settings, ours = network.settings, network.state_dict()
    theirs = {"final_logits_bias": torch.zeros(1, network.target_embedding.num_embeddings)}
    for name, parts in correspondence(settings).items():
        theirs |= zip(parts, ours[name].chunk(len(parts)), strict=True)
    # Pegasus has a shared matrix even if nothing is tied to it.
    if settings.tied_embeddings == "all" or settings.norm == "pre":
        theirs[_SHARED] = network.source_embedding.weight.detach()
    if settings.tied_embeddings == "all":
        for (name,) in _EMBEDDINGS.values():
            del theirs[name]
    elif settings.tied_embeddings == "target" and settings.norm == "post":
        del theirs["lm_head.weight"]
    # The target's table has a row for an end symbol after the longest target, which no search needs.
    for side, positions in (("encoder", network.source_positions), ("decoder", network.target_positions)):
        theirs[f"model.{side}.embed_positions.weight"] = positions().detach()[:settings.max_length]
    return {name: weight.float() for name, weight in theirs.items()}
