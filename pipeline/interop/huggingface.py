"""A checkpoint of the transformers library, in a folder or on the Hugging Face Hub: checked, then loaded.

Only data is read: weights from safetensors; nothing is unpickled, and no code of the repository is run.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError
from pipeline.extras import missing

if TYPE_CHECKING:
    from pipeline.interop.network import Renumbered, Symbols
    from pipeline.interop.text import HuggingFaceText

PREFIX = "hf:"
"""The prefix of such a model's name on the command line."""

ARCHITECTURES = {"marian": "Marian", "pegasus": "Pegasus", "bart": "BART", "mbart": "mBART-50",
                 "m2m_100": "M2M100 and NLLB", "t5": "T5"}
"""The `model_type` of a config.json, and the usual name."""

_FILES = ["*.json", "model*.safetensors", "*.model", "*.spm", "*.txt"]
"""The files that are fetched from a repository."""

_IGNORED = {"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1.0,
            "encoder_repetition_penalty": 1.0, "min_length": 0, "min_new_tokens": 0, "sequence_bias": None,
            "exponential_decay_length_penalty": None}
"""Settings of generation that change greedy search and are ignored here, and their neutral values."""

_LANGUAGE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""The form of a language's symbol, en_XX of mBART-50 or deu_Latn of NLLB; M2M100 has a list."""


@dataclass(frozen=True)
class HuggingFaceCheckpoint:
    """A model with its tokenizer."""

    folder: Path
    network: "Renumbered"
    text: "HuggingFaceText"
    longest: int
    """Most tokens of a source or a target, end symbol included."""
    notes: list[str]
    """Notes for the user."""


def open_checkpoint(name: str, source_language: str | None = None,
                    target_language: str | None = None) -> HuggingFaceCheckpoint:
    """Load a checkpoint in float32, in evaluation mode on the CPU.

    Args:
        name: a folder, or a repository of the Hub, which is fetched, or found in the cache if there is no network.
        source_language, target_language: the checkpoint's names; required if it has several languages.

    Raises:
        PipelineError: transformers is not installed; there is no such checkpoint; it has another architecture, is not
            in safetensors, is damaged or inconsistent; a language is missing, unknown or not allowed.
    """
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise missing("transformers", f"{PREFIX}{name}") from None
    from pipeline.interop.network import inverse, renumber
    from pipeline.interop.text import HuggingFaceText
    from pipeline.interop.transplant import model_of

    folder = _folder(name)
    config, tokenizer, network = _load(folder)
    generation = network.generation_config
    first, prefix = _set_languages(folder, tokenizer, config, generation, source_language, target_language)
    symbols = _symbols(folder, generation, first)
    rows = network.get_encoder().get_input_embeddings().num_embeddings
    highest = max(tokenizer.get_vocab().values())
    if highest >= rows:
        raise PipelineError(f"{folder}: its tokenizer has the id {highest}, but its embedding only {rows} rows; they "
                            "belong to different checkpoints")
    if tokenizer(prefix + "a")["input_ids"][-1:] != [symbols.end] or tokenizer.pad_token_id != symbols.pad:
        raise PipelineError(f"{folder}: its tokenizer does not end a sentence with the end symbol {symbols.end}, or "
                            f"pads with another one than {symbols.pad}; it belongs to a different checkpoint, or to a "
                            "format that is not supported")
    longest: int = getattr(config, "max_position_embeddings", 0) or getattr(config, "n_positions", 512)
    model = model_of(network, symbols, longest)
    source_ids = renumber(rows, symbols)
    text = HuggingFaceText(tokenizer, model.target_ids.tolist(), inverse(source_ids).tolist(), prefix,
                           _languages(tokenizer).values(), not getattr(tokenizer, "separate_vocabs", False), first)
    return HuggingFaceCheckpoint(folder, model, text, longest, _notes(generation))


def _load(folder: Path) -> tuple[Any, Any, Any]:
    """Return the configuration, tokenizer and network of a folder, in the library's classes."""
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    local = {"local_files_only": True, "trust_remote_code": False}
    with _explained(folder, "its configuration"):
        config = transformers.AutoConfig.from_pretrained(folder, **local)
    if config.model_type not in ARCHITECTURES:
        raise PipelineError(f"{folder}: a model of type {config.model_type!r}; supported are the encoder-decoders "
                            f"{', '.join(ARCHITECTURES.values())}")
    if not list(folder.glob("*.safetensors")):
        raise PipelineError(f"{folder}: has no weights in safetensors, and no others are read, for they can hold code; "
                            "convert them, or choose a revision that has them")
    with _explained(folder, "its tokenizer"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian's recommends a package that is not needed
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
    with _explained(folder, "its weights"):
        network, loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype="float32", use_safetensors=True, output_loading_info=True, **local)
    absent = sorted(loaded["missing_keys"])
    if absent:
        raise PipelineError(f"{folder}: its weights lack {absent[0]} ({len(absent)} such); choose a complete "
                            "checkpoint for translation")
    return config, tokenizer, network


def _folder(name: str) -> Path:
    """Return the folder of a checkpoint: the one of that name, or the Hub's, or the cached one."""
    if name and Path(name).is_dir():
        return Path(name)
    from huggingface_hub import HfApi, snapshot_download
    try:
        HfApi().model_info(name, timeout=10)  # fails at once, where a download makes many attempts
        return Path(snapshot_download(name, allow_patterns=_FILES))
    except Exception as error:  # the library's exceptions have no common base class
        reason = error
    try:
        return Path(snapshot_download(name, allow_patterns=_FILES, local_files_only=True))
    except (OSError, ValueError):
        raise PipelineError(f"{PREFIX}{name}: no such folder, and no such repository can be fetched "
                            f"({_one_line(reason)}); check the name and the network") from None


@contextmanager
def _explained(folder: Path, what: str) -> Iterator[None]:
    """Turn any error of the library while it reads files into one that names them."""
    try:
        yield
    except Exception as error:  # the exceptions for damaged files are not documented
        raise PipelineError(f"{folder}: {what} cannot be read ({_one_line(error)}); it is incomplete or damaged, or "
                            "this version of transformers does not know it") from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def _set_languages(folder: Path, tokenizer: Any, config: Any, generation: Any, source: str | None,
                   target: str | None) -> tuple[int | None, str]:
    """Set the tokenizer's source language; return the first token of every translation, if any, and a source prefix."""
    if config.model_type == "t5":
        return generation.forced_bos_token_id, _task(folder, config, source, target)
    languages = _languages(tokenizer)
    given = {"--source-language": source, "--target-language": target}
    if not languages:
        for option, language in given.items():
            if language is not None:
                raise PipelineError(f"{option}: {folder} has no languages to choose from; leave it out")
        return generation.forced_bos_token_id, ""
    if target is None and generation.forced_bos_token_id is not None:
        del given["--target-language"]  # it translates many languages into one
    for option, language in given.items():
        if language not in languages:
            fault = "is missing" if language is None else f"{language!r} is unknown"
            raise PipelineError(f"{option}: {fault}; {folder} has {', '.join(languages)}")
    tokenizer.tgt_lang = target or source  # without one, some read no target; the language's symbol is not asked for
    tokenizer.src_lang = source
    return generation.forced_bos_token_id if target is None else languages[target], ""


def _languages(tokenizer: Any) -> Mapping[str, int]:
    """Return a multilingual tokenizer's languages and their symbols."""
    if not hasattr(tokenizer, "src_lang"):
        return {}
    listed = getattr(tokenizer, "lang_code_to_id", None)
    known = tokenizer.get_vocab() if listed is None else listed
    return {code: token for code, token in sorted(known.items())
            if token != tokenizer.unk_token_id and (listed is not None or _LANGUAGE.fullmatch(code))}


def _task(folder: Path, config: Any, source: str | None, target: str | None) -> str:
    """Return the prefix that tells a T5 its task; without languages, the input contains it."""
    if source is None and target is None:
        return ""
    tasks = getattr(config, "task_specific_params", None) or {}
    prefixes = {task: block["prefix"] for task, block in tasks.items() if "prefix" in block}
    task = f"translation_{source}_to_{target}"
    if task not in prefixes:
        raise PipelineError(f"--source-language, --target-language: {folder} has no task {task}; it has "
                            f"{', '.join(prefixes) or 'none'}. Leave both out and write the prefix into the lines")
    return prefixes[task]


def _symbols(folder: Path, generation: Any, first: int | None) -> "Symbols":
    from pipeline.interop.network import Symbols
    start = generation.decoder_start_token_id
    if start is None:
        start = generation.bos_token_id
    ends = generation.eos_token_id
    end = ends[0] if isinstance(ends, list) and len(ends) == 1 else ends
    pad = generation.pad_token_id
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(pad, int)) or pad == end:
        raise PipelineError(f"{folder}: decoder_start_token_id {start}, eos_token_id {ends} and pad_token_id {pad} "
                            "must be one number each, and the last two differ; correct its generation_config.json")
    single = [words[0] for words in generation.bad_words_ids or () if len(words) == 1]
    return Symbols(pad, start, end, first, tuple(sorted({*single, *(generation.suppress_tokens or ())})),
                   tuple(generation.begin_suppress_tokens or ()))


def _notes(generation: Any) -> list[str]:
    """List the settings of generation that are ignored."""
    notes = []
    for name, neutral in _IGNORED.items():
        value = getattr(generation, name, None)
        if value not in (None, neutral):
            notes.append(f"generation_config.json: {name} {value} is ignored")
    if any(len(words) > 1 for words in generation.bad_words_ids or ()):
        notes.append("generation_config.json: bad_words_ids of several tokens are ignored")
    return notes
