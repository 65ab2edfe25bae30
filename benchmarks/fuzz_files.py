"""Small sound files of every kind that the pipeline reads: what `benchmarks.fuzz` starts from."""

import gzip
import io
import json
import struct
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow
import torch
import zstandard
from pyarrow import parquet

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.build import FORMAT
from pipeline.alignment.counting import Aligned, count
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Pairs
from pipeline.corpus.settings import BpeSettings
from pipeline.count_model.arrays import write_arrays
from pipeline.interop import model_folder
from pipeline.interop.folder import MARKER
from pipeline.model.checkpoint import save_checkpoint, unique_weights
from pipeline.model.orders import make_order
from pipeline.model.settings import NetworkSettings, OrderSettings, VocabularySettings
from pipeline.model.transformer import Transformer
from pipeline.params import LimitSettings
from pipeline.train_bpe import train_bpe

LINES = ["The red otter counts 3 lamps .", "A moth, {name}, hides above the ladder.", "", "No lamp is red."]
TRANSLATIONS = ["Der rote Otter zählt 3 Lampen .", "Eine Motte, {name}, sitzt auf der Leiter.", "", "Keine ist rot."]
CATALOGUE = r'''# Ours
msgid ""
msgstr "Plural-Forms: nplurals=2; plural=n != 1;\n"

#, fuzzy
msgctxt "door"
msgid "Open"
msgstr "Offen"

msgid "one lamp"
msgid_plural "%d \"lamps\"\n"
"of ours"
msgstr[0] "eine Lampe"
msgstr[1] "%d Lampen"

msgid "Close {name}"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
'''
MEMORY = '''<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx [<!ENTITY firm "Otter &#38;amp; Co">]>
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en"><seg>Red <ph x="1">{0}</ph>lamp of &firm;</seg></tuv>
<tuv xml:lang="de-DE"><seg>Rote Lampe</seg></tuv></tu>
<tu><tuv lang="EN"><seg>Only <hi>here</hi></seg></tuv></tu></body></tmx>
'''
EDITS = '''S The otter count lamp .
A 2 3|||R:VERB|||counts|||REQUIRED|||-NONE-|||0
A 3 4|||R:NOUN|||lamps||the lamps|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S Nobody knows
'''
REQUEST = {"text": ["The red otter", "a moth"], "model": "ar", "decoder": "greedy"}
PRESET = {"extends": "smoke", "seed": 3, "corpus": {"source": "tsv", "tsv": {"train": "a", "test": None}}}
HYPOTHESIS = {"index": 0, "hypothesis": "Die Lampe", "tokens": 2, "calls": 3, "ended": True}


def text(lines: list[str]) -> bytes:
    """Lines of UTF-8."""
    return "".join(line + "\n" for line in lines).encode()


def packed(content: bytes) -> tuple[bytes, bytes]:
    """A content as .gz and as .zst."""
    return gzip.compress(content, mtime=0), zstandard.ZstdCompressor().compress(content)


def compiled_catalogue(pairs: dict[str, str]) -> bytes:
    """A .mo file."""
    texts = [one.encode() + b"\0" for one in (*pairs, *pairs.values())]
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    table, at = b"", 28 + 16 * len(pairs)
    for one in texts:
        table += struct.pack("<2I", len(one) - 1, at)
        at += len(one)
    return head + table + b"".join(texts)


def archive(members: dict[str, bytes]) -> bytes:
    """A wheel with some members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in members.items():
            wheel.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def wheel_of_strings() -> bytes:
    """A wheel as `home_assistant` reads it."""
    return archive({f"homeassistant/components/lamp/translations/{language}.json": json.dumps(
        {"title": word, "more": {"a": word, "b": 3}}).encode() for language, word in (("en", "Lamp"), ("de", "Lampe"))})


def wheel_of_corrections() -> bytes:
    """A wheel as `ua_gec` reads it."""
    folder = "ua_gec/data/gec-only/train"
    return archive({f"{folder}/source-sentences/1.src.txt": b"one lamp\ntwo\n",
                    f"{folder}/target-sentences/1.a1.txt": b"a lamp\ntwo\n"})


def table() -> bytes:
    """A Parquet file of both languages."""
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"en": LINES, "de": [*TRANSLATIONS[:3], None]}), file)
    return file.getvalue()


def write_run(folder: Path) -> None:
    """Write what a run leaves, all of it tiny: `bpe`, `model` (a model folder), `links`, `counts` and `work`."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (corpus / f"{split}.source").write_bytes(text([line for line in LINES if line]))
        (corpus / f"{split}.target").write_bytes(text([line for line in TRANSLATIONS if line]))
    train_bpe(BpeSettings(vocabulary=60, joint=True, max_length=60), corpus, folder / "bpe", folder / "bpe.json")
    tokenizer = Tokenizer.load(folder / "bpe")
    _write_model(folder / "model", folder / "bpe", tokenizer)
    bitext = Bitext.from_pairs(Pairs.open(folder / "bpe/train.pairs"))
    heads = np.zeros(len(bitext.target.ids), np.int32)
    links = folder / "links"
    links.mkdir()
    (links / "train.pairs").write_bytes((folder / "bpe/train.pairs").read_bytes())
    write_arrays(links / "raw.safetensors", {"heads": heads}, {
        "format": FORMAT, "digest": tokenizer.digest, "pairs": str(bitext.pairs), "tension": "4.0",
        "null_probability": "0.08"})
    counts = count([Aligned(bitext, heads)], top=4, target_vocabulary=tokenizer.target_size,
                   copies=np.full(tokenizer.source_size, -1, np.int32), digest=tokenizer.digest, tension=4.0,
                   null_probability=0.08)
    counts.save(folder / "counts/raw.safetensors")
    (folder / "work").mkdir()
    torch.save({"state_dict": {"a": torch.ones(2, 2)}, "curve": {"metrics.csv": "step\n1\n"}},
               folder / "work/resume.ckpt")


def _write_model(folder: Path, bpe: Path, tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    network = Transformer(NetworkSettings(width=8, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=1,
                                          max_length=64), tokenizer.source_size, tokenizer.target_size,
                          make_order(OrderSettings("left_to_right")))
    save_checkpoint(folder, network, VocabularySettings(tokenizer.source_size, tokenizer.target_size, tokenizer.digest),
                    unique_weights(network), {"steps": 1})
    for name in ("joint.model", "meta.json"):
        (folder / name).write_bytes((bpe / name).read_bytes())
    names = sorted(path.name for path in folder.iterdir())
    settings = model_folder.ModelSettings(
        "ar", "0", "en", "de", "NFC", LimitSettings(), {"greedy": {"algorithm": "greedy"}},
        {name: model_folder.file_digest(folder / name) for name in names})
    (folder / model_folder.CARD).write_text("# ar\n")
    (folder / MARKER).write_text(json.dumps({"format": model_folder.FORMAT, **asdict(settings)}))
