"""Export of a trained family of any kind to a model folder (`model_folder`)."""

import shutil
from pathlib import Path
from typing import Any

from pipeline import __version__, layout
from pipeline.checksums import file_digest
from pipeline.corpus.bpe import JOINT_MODELS, SEPARATE_MODELS, Tokenizer
from pipeline.interop.cards import model_card
from pipeline.interop.folder import check_replaceable, export_folder
from pipeline.interop.model_folder import CARD, ModelSettings, describe
from pipeline.model.checkpoint import CONFIG, WEIGHTS, load_checkpoint
from pipeline.params import Params


def export_model(output: Path, params: Params, family: str, licence: str) -> None:
    """Write a trained family of the current folder as a model folder.

    Args:
        output: absent, or an earlier export.
        params: of the current folder.
        family: whose decoders the folder has; one that drafts has its verifier in its checkpoint.
        licence: for the card, a name of the hub.

    Raises:
        PipelineError: `output` is not an earlier export or cannot be written; the checkpoint is missing or damaged; a
            decoder of the family does not suit its vocabulary.
    """
    check_replaceable(output)  # before a model is loaded
    tokenizer = Tokenizer.load(layout.BPE)
    checkpoint, corpus = layout.checkpoint(family), params.corpus
    network, config = load_checkpoint(checkpoint, tokenizer.digest, params.family(family).order)
    decoders = {name: params.decoder(name, joint=tokenizer.joint) for name in params.decoders_of(family)}
    description = dict[str, Any]()  # completed before it is written
    with export_folder(output, description) as folder:
        for name in (CONFIG, WEIGHTS):
            shutil.copyfile(checkpoint / name, folder / name)
        network.save_tables(folder)
        for name in ("meta.json", *(JOINT_MODELS if tokenizer.joint else SEPARATE_MODELS)):
            shutil.copyfile(layout.BPE / name, folder / name)
        files = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
        settings = ModelSettings(family, __version__, corpus.source_language, corpus.target_language,
                                 corpus.filters.unicode, params.limit, decoders, files)
        description |= describe(settings)
        card = model_card(params, settings, network, config["training"], licence)
        (folder / CARD).write_text(card, encoding="utf-8")
