"""One set of random weights in three engines: Hugging Face Marian, ours, CTranslate2."""

import torch
from transformers import MarianConfig, MarianMTModel

from pipeline.engine.door import open_engine
from pipeline.interop.export_huggingface import correspondence
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

    Marian's bias of the logits is not copied: it must be zero.
    """
    vocabulary = marian.config.vocab_size
    if bool(marian.final_logits_bias.any()):
        raise ValueError("final_logits_bias is not zero, and it is not copied")
    ours = Transformer(settings, vocabulary, vocabulary, make_order(OrderSettings("left_to_right")))
    theirs = marian.state_dict()
    ours.load_state_dict({name: torch.cat([theirs[part] for part in parts])
                          for name, parts in correspondence(settings).items()})
    opened: Transformer = open_engine(column_major(ours.eval()))  # as a loaded checkpoint is
    return opened
