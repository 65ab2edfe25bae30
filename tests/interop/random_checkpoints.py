"""Tiny random checkpoints of every architecture, made from nothing."""

import copy
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

from pipeline.interop import transplant
from pipeline.interop.network import Renumbered, Symbols

SEEDS = {"marian": 33, "marian_separate": 3, "pegasus": 4, "bart": 15, "mbart": 38, "m2m_100": 18, "t5": 0,
         "t5_gated": 26, "marian_own": 323, "marian_separate_own": 4, "pegasus_own": 4, "m2m_100_own": 1}
"""Of weights with which some of eight searches end and most others do not repeat one word."""
KINDS = tuple(SEEDS)
"""Architectures; `_own` are those that our layers compute."""
ROWS = 40
LONGEST = 48
LANGUAGES = {"mbart": ("en_XX", "de_DE"), "m2m_100": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}
SENTENCES = [f"The {colour} {animal} {verb} the {thing} {place} ." for colour in ("red", "pale", "tiny")
             for animal in ("otter", "raven", "snail") for verb in ("hides", "counts", "paints")
             for thing in ("lantern", "teapot") for place in ("near the river", "above us", "today")]


def random_network(kind: str, rows: int = ROWS, *, tied: bool = False, changes: dict[str, Any] | None = None,
                   **settings: Any) -> Any:
    """A network in float64 whose searches end now and then: its logits are sharp, the end symbol's most of all.

    Args:
        kind: one of KINDS.
        rows: of the embedding.
        tied: whether the embedding is the output's matrix too. Random weights then repeat one word for ever.
        changes: of its configuration.
        settings: of its generation.
    """
    torch.manual_seed(SEEDS[kind])
    pad, end, start = (0, 1, 0) if kind.startswith("t5") else (1, 2, 1 if kind.startswith(("marian", "pegasus")) else 2)
    special = {"vocab_size": rows, "d_model": 16, "tie_word_embeddings": tied, "pad_token_id": pad,
               "eos_token_id": end, "decoder_start_token_id": start}
    if kind.startswith("t5"):
        gated = {"feed_forward_proj": "gated-gelu"} if kind == "t5_gated" else {}
        network = transformers.T5ForConditionalGeneration(transformers.T5Config(
            **special, d_kv=12, d_ff=32, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
            relative_attention_max_distance=12, n_positions=LONGEST, **gated))
    else:
        names = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration",
                 "bart": "BartForConditionalGeneration", "mbart": "MBartForConditionalGeneration",
                 "m2m_100": "M2M100ForConditionalGeneration"}
        own = {"encoder_attention_heads": 4, "activation_function": "relu"} if kind.endswith("_own") else {}
        kind = kind.removesuffix("_own")
        name = names[kind.removesuffix("_separate")]
        if kind == "marian_separate":
            special |= {"decoder_vocab_size": rows - 5, "share_encoder_decoder_embeddings": False}
        network = getattr(transformers, name)(getattr(transformers, name).config_class(
            **special, bos_token_id=0, encoder_layers=1, decoder_layers=2, decoder_attention_heads=4,
            encoder_ffn_dim=32, max_position_embeddings=LONGEST, forced_eos_token_id=None, **{
                "encoder_attention_heads": 2, "decoder_ffn_dim": 32, "scale_embedding": True} | own | (changes or {})))
    with torch.no_grad():
        for parameter_name, parameter in network.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            elif parameter.requires_grad:
                embeds = "embed_tokens" in parameter_name or "shared" in parameter_name
                parameter.normal_(std=0.3 if embeds else 0.6)
        network.get_output_embeddings().weight[end] *= 1.6
    network.generation_config = transformers.GenerationConfig(
        pad_token_id=pad, eos_token_id=end, decoder_start_token_id=start, bad_words_ids=[[pad]], **settings)
    return network.double().eval()


def save(folder: Path, kind: str, **settings: Any) -> Path:
    """A checkpoint folder with a tokenizer, whose ids fill the embedding."""
    folder.mkdir(parents=True)
    tokenizer = _tokenizer(folder, kind)
    rows = 1 + max(tokenizer(SENTENCES[0])["input_ids"] + list(tokenizer.get_vocab().values())
                   + list(getattr(tokenizer, "lang_code_to_id", {}).values()))
    network = random_network("m2m_100" if kind == "nllb" else kind, rows, **settings)
    if kind == "t5":
        network.config.task_specific_params = {"translation_en_to_de": {"prefix": "translate English to German: "}}
    network.float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(folder: Path, kind: str) -> Any:
    model = folder / "learned"
    with open(folder / "sentences", "w", encoding="utf-8") as file:
        file.writelines(f"{sentence}\n" for sentence in SENTENCES)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "sentences"), model_prefix=str(model), vocab_size=60, minloglevel=2,
        hard_vocab_limit=False)
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
    scored = [(processor.id_to_piece(token), processor.get_score(token)) for token in range(3, len(processor))]
    pieces = [piece for piece, _ in scored]
    if kind == "t5":
        return transformers.T5Tokenizer(vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *scored], extra_ids=0)
    if kind == "mbart":
        return transformers.MBart50Tokenizer(vocab=[("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *scored])
    letters = sorted({letter for sentence in SENTENCES for letter in sentence.replace(" ", "")})
    if kind == "nllb":
        vocabulary = {piece: token for token, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁", *letters])}
        return transformers.NllbTokenizer(vocab=vocabulary, merges=[])
    if kind == "bart":
        vocabulary = {piece: token for token, piece in enumerate(
            ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *letters])}
        return transformers.BartTokenizer(vocab=vocabulary, merges=[])
    vocabulary = {piece: token for token, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
    (folder / "pieces.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    files = (f"{model}.model", f"{model}.model", str(folder / "pieces.json"))
    if kind == "m2m_100":
        return transformers.M2M100Tokenizer(files[2], files[0])
    return transformers.MarianTokenizer(*files)


def model_of(network: Any, **symbols: Any) -> Renumbered:
    """A copy of a network (which is taken apart) as a model that can be searched."""
    generation = network.generation_config
    special = Symbols(generation.pad_token_id, generation.decoder_start_token_id, generation.eos_token_id, **symbols)
    return transplant.model_of(copy.deepcopy(network), special, LONGEST).double()
