"""Every reader of files, and of requests, that a user feeds: what `benchmarks.fuzz` gives to each."""

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from benchmarks import fuzz_files as files
from pipeline.alignment.bitext import Bitext, Side
from pipeline.alignment.build import read_aligned as read_links
from pipeline.alignment.pharaoh import read_heads
from pipeline.checksums import file_digest
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Pairs
from pipeline.count_model.model import CountModel
from pipeline.documents import po as po_documents
from pipeline.documents import tmx as tmx_documents
from pipeline.documents.plain import read_columns as read_prefixes
from pipeline.documents.segments import Segment
from pipeline.evaluation.quality import read_hypotheses
from pipeline.glossary import Glossary
from pipeline.interop.folder import MARKER
from pipeline.interop.model_folder import DIGEST, digest_of_entries
from pipeline.lines import normalise, read_aligned, read_lines
from pipeline.params import load_params
from pipeline.service.limits import Limits
from pipeline.service.requests import parse
from pipeline.sources.readers import home_assistant, m2, parquet, po, tmx, tsv, ua_gec, wheels
from pipeline.strict_yaml import read_yaml
from pipeline.systems import lay_over
from pipeline.text_model import open_folder
from pipeline.training.resume import read_state

ROOT = Path(__file__).parents[1]
Inputs = st.SearchStrategy[bytes]


class Places:
    """Where a reader finds the sound files of a run, and where it may write."""

    def __init__(self, run: Path, scratch: Path) -> None:
        self.run, self.scratch = run, scratch

    def file(self, name: str, content: bytes) -> Path:
        """A file with this content."""
        path = self.scratch / name
        path.write_bytes(content)
        return path

    def folder(self, part: str, name: str, content: bytes) -> Path:
        """A copy of a folder of the run in which one file has this content."""
        folder = self.scratch / part
        if not folder.exists():
            shutil.copytree(self.run / part, folder)
        (folder / name).write_bytes(content)
        return folder


@dataclass(frozen=True)
class Reader:
    """One of them."""

    read: Callable[[bytes, Places], object]
    """Give it a content."""
    seeds: Callable[[Path], Sequence[bytes]]
    """Sound contents, from the folder of a run."""
    code: tuple[str, ...]
    """The files whose lines are counted."""
    words: tuple[str, ...] = ()
    """What such a content is made of; empty: it is binary."""
    is_json: bool = False
    """Whether the sound contents are JSON, which is also YAML."""

    def structured(self, run: Path) -> Inputs:
        """Inputs that have something of the form that the reader expects."""
        seeds = self.seeds(run)
        if self.is_json:
            return st.one_of(_edited_values(json.loads(seeds[0])).map(lambda value: json.dumps(value).encode()),
                             _written((*_JSON, *self.words)))
        return st.one_of(_written(self.words), _spliced(seeds, self.words)) if self.words else _edited_bytes(seeds)


# What Hypothesis makes.

_TEXT = st.text(max_size=12).map(lambda one: one.encode("utf-8", "surrogatepass"))
_ODD = st.sampled_from([b"\xef\xbb\xbf", b"\0", b"\r", b"\r\n", b"\n", b"\x85", "\u2028\x0c\x1b[31m".encode(),
                        b"\xed\xa0\x80", b"\xff\xfe", b"\xc3", b"\t"])
_LONG = st.sampled_from([b"9", b"a", b"["]).map(lambda one: 5000 * one)
_NUMBERS = st.sampled_from([0, 1, -1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])


def _written(words: Sequence[str]) -> Inputs:
    """Words of a format, with other text between them."""
    return st.lists(st.one_of(st.sampled_from([word.encode() for word in words]), _TEXT, _ODD, _LONG),
                    max_size=30).map(b"".join)


@st.composite
def _spliced(draw: st.DrawFn, seeds: Sequence[bytes], words: Sequence[str]) -> bytes:
    """A sound content into which words were put, or from which a part was cut."""
    content = bytearray(draw(st.sampled_from(list(seeds))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(content)))
        if draw(st.booleans()):
            content[at:at] = draw(st.one_of(st.sampled_from([word.encode() for word in words]), _TEXT, _ODD, _LONG))
        else:
            del content[at:at + draw(st.integers(1, 20))]
    return bytes(content)


@st.composite
def _edited_bytes(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A sound content of which numbers were replaced, and bytes changed, inserted or cut off."""
    content = bytearray(draw(st.sampled_from(list(seeds))))
    for _ in range(draw(st.integers(0, 4))):
        # Most of what decides is in the header.
        at = draw(st.one_of(st.integers(0, min(80, len(content))), st.integers(0, len(content))))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            width = draw(st.sampled_from([1, 2, 4, 8]))
            at -= at % width
            content[at:at + width] = (draw(_NUMBERS) % 2**(8 * width)).to_bytes(width, "little")
        elif kind == 1:
            content[at:at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == 2:
            content[at:at] = draw(st.binary(max_size=8))
        else:
            del content[at:]
    return bytes(content)


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _NUMBERS, st.floats(), st.text(max_size=8),
              st.sampled_from(["../x", "/etc/passwd", "greedy", "left_to_right", "1e9"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=5)


@st.composite
def _edited_values(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    """A value of which one part was replaced, removed or renamed."""
    if not (isinstance(value, (dict, list)) and value) or draw(st.integers(0, 5)) == 0:
        return draw(_VALUES)
    parts = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    key = draw(st.sampled_from(list(parts)))
    if draw(st.integers(0, 9)) == 0:
        del parts[key]
    else:
        parts[key] = draw(_edited_values(parts[key], depth + 1))
    return parts if isinstance(value, dict) else list(parts.values())


# The readers.

def _all(found: Any) -> int:
    return sum(1 for _ in found)


def _lines(content: bytes, places: Places) -> None:
    for ending in ("txt", "gz", "zst"):
        if ending == "txt" or content[:2] in (b"\x1f\x8b", b"\x28\xb5"):
            for line in read_lines(places.file(f"a.{ending}", content)):
                normalise(line, "NFKC")


def _aligned(content: bytes, places: Places) -> None:
    half = len(content) // 2
    _all(read_aligned(places.file("a", content[:half]), places.file("b", content[half:])))


def _po(content: bytes, places: Places) -> None:
    path = places.file("a.po", content)
    _all(po.read_catalogue(str(path)))
    document = po_documents.Catalogue(path)
    document.rendered([Segment(one, one, ()) for one in document.sources()], lambda source, text: ["{name}"])


def _mo(content: bytes, places: Places) -> None:
    wheels.read_wheel(places.file("a.whl", files.archive({"a/de/LC_MESSAGES/b.mo": content})), "de")


def _po_in_wheel(content: bytes, places: Places) -> None:
    wheels.read_wheel(places.file("a.whl", content), "de")


def _tmx(content: bytes, places: Places) -> None:
    path = places.file("a.tmx", content)
    _all(tmx.read_memory(str(path), "en", "de"))
    document = tmx_documents.Memory(path, "en", "de")
    document.rendered([Segment(one, one, ("cut",)) for one in document.sources()], lambda source, text: ["{name}"])


def _parquet(content: bytes, places: Places) -> None:
    path = str(places.file("a.parquet", content))
    _all(parquet.read(parquet.Settings(path, path, path), ("en", "de"))["train"])


def _m2(content: bytes, places: Places) -> None:
    path = str(places.file("a.m2", content))
    for entries in m2.read(m2.Settings((path,), (path,), (path,)), ("en", "en")).values():
        _all(entries)


def _preset(content: bytes, places: Places) -> None:
    smoke = places.scratch / "smoke.yaml"
    if not smoke.exists():
        shutil.copy(ROOT / "presets/smoke.yaml", smoke)
    lay_over({"families": {}}, places.file("mine.yaml", content))


def _links(content: bytes, places: Places) -> None:
    ids, offsets = np.zeros(6, np.int32), np.array([0, 3, 5, 6])
    heads = np.zeros(6, np.int32)
    read_heads(places.file("a.pharaoh", content), Bitext(Side(ids, offsets), Side(ids, offsets)), heads)


def _glossary(content: bytes, places: Places) -> None:
    Glossary.read(places.file("a.tsv", content)).targets("The red otter counts 3 lamps .")


def _tokenizer(content: bytes, places: Places) -> None:
    tokenizer = Tokenizer([content], ["a.model"])
    tokenizer.decode_targets(tokenizer.encode_target(files.LINES))


def _model(name: str) -> Callable[[bytes, Places], object]:
    """The reader of a model folder of which one file is spoilt, and the digests are those of the spoilt file."""
    def read(content: bytes, places: Places) -> None:
        folder = places.folder("model", name, content)
        manifest: Any = None
        with suppress(ValueError, RecursionError):
            manifest = json.loads((folder / MARKER).read_bytes())
        if isinstance(manifest, dict):
            if name != MARKER:
                manifest["files"][name] = file_digest(folder / name)
            manifest[DIGEST] = digest_of_entries(manifest)
            (folder / MARKER).write_text(json.dumps(manifest))
        open_folder(folder)
    return read


def _pairs(content: bytes, places: Places) -> None:
    pairs = Pairs.open(places.file("a.pairs", content))
    pairs.check_ids(60, 60)
    for index in range(min(len(pairs), 100)):
        pairs.source(index).tolist(), pairs.target(index).tolist()


def _alignment(content: bytes, places: Places) -> None:
    folder = places.folder("links", "raw.safetensors", content)
    read_links(folder / "train.pairs", folder / "raw.safetensors", _bpe(places))


def _bpe(places: Places) -> Tokenizer:
    return Tokenizer.load(places.run / "bpe")


def _service(content: bytes, places: Places) -> None:
    parse(content, {"ar": ["greedy", "beam5"], "lattice": ["lattice"]}, Limits())


def _one(*contents: bytes) -> Callable[[Path], Sequence[bytes]]:
    return lambda run: contents


def _params(run: Path) -> Sequence[bytes]:
    """params.yaml as JSON, with one family, which is shorter."""
    content = read_yaml(ROOT / "params.yaml")
    kept = {"teacher": content["families"]["teacher"]}
    return [json.dumps({name: block for name, block in content.items() if name not in ("analyses", "peers")} | {
        "families": kept, "systems": ["teacher"], "baseline": "teacher", "students": {}, "lattices": {},
        "decoders": {name: content["decoders"][name] for name in ("greedy", "beam4", "beam5")}}).encode()]


def _of_run(name: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda run: [(run / name).read_bytes()]


_JSON = ("{", "}", "[", "]", '"', ":", ",", "\n")
_JSON_FILES = "pipeline/files.py"
_PO = ("msgid ", "msgstr ", "msgctxt ", "msgid_plural ", "msgstr[0] ", "msgstr[1] ", '"', "\\", '"a"\n', '""\n', "#~ ",
       "#, fuzzy\n", "\n", "nplurals=", "999999999999", '"Plural-Forms: nplurals=3;\\n"\n')
_TMX = ('<?xml version="1.0" encoding="', "UTF-16", '"?>', "<!DOCTYPE tmx [", '<!ENTITY a "&a;&a;">', "]>", "<tmx>",
        "</tmx>", "<body>", "</body>", "<tu>", "</tu>", '<tuv xml:lang="en">', '<tuv lang="de">', "</tuv>", "<seg>",
        "</seg>", "<ph/>", "<hi>", "</hi>", "&amp;", "&a;", "<!-- -->", "<?pi x?>", "<![CDATA[", "]]>", "{1}")
_YAML = ("!!python/object/apply:os.system [", "!!bool ", "!!int ", "!!float ", "!!binary ", "!!set ", "!!omap ",
         "!!timestamp ", "&a ", "*a", "<<: ", "- ", ": ", "? ", "|\n ", ">\n ", "{", "}", "[", "]", "'", "\n  ", "\n",
         "seed", "corpus", "families", "extends", "1:60:60", ".inf", "0x_", "~", "%YAML 9.9\n", "---\n")
_ZIP = ("pipeline/sources/wheel.py",)
_SAFETENSORS = ('{"', '":{"dtype":"', "F32", "I64", "F8_E4M3", "BF16", '","shape":[', "],", '"data_offsets":[', "]}",
                "__metadata__")

READERS: dict[str, Reader] = {
    "text": Reader(_lines, lambda run: [files.text(files.LINES), *files.packed(files.text(files.LINES))],
                   ("pipeline/lines.py",)),
    "aligned text": Reader(_aligned, _one(files.text(files.LINES * 2)), ("pipeline/lines.py",), ("a", " ", "\n")),
    "tsv": Reader(lambda content, places: _all(tsv.read_columns(places.file("a.tsv", content))),
                  _one(b"lamp\tLampe\nred\trot\n"), ("pipeline/sources/readers/tsv.py",), ("a", "\t", "\n")),
    "prefixes": Reader(lambda content, places: _all(read_prefixes(read_lines(places.file("a", content)), "a", "",
                                                                  optional=True)),
                       _one(b"lamp\tLa\nred\n"), ("pipeline/documents/plain.py",), ("a", "\t", "\n")),
    "po": Reader(_po, _one(files.CATALOGUE.encode()),
                 ("pipeline/sources/readers/po.py", "pipeline/documents/po.py"), _PO),
    "mo": Reader(_mo, _one(files.compiled_catalogue({"": "x", "lamp": "Lampe", "c\4red\0reds": "rot\0rote"})),
                 ("pipeline/sources/mo.py",)),
    "tmx": Reader(_tmx, _one(files.MEMORY.encode()),
                  ("pipeline/sources/readers/tmx.py", "pipeline/documents/tmx.py"), _TMX),
    "m2": Reader(_m2, _one(files.EDITS.encode()), ("pipeline/sources/readers/m2.py",),
                 ("S ", "A ", "0 1", "-1 -1", "|||", "||", "noop", "R:X", "-NONE-", "REQUIRED", "0", "\n", "\n\n",
                  "a ")),
    "parquet": Reader(_parquet, lambda run: [files.table()], ("pipeline/sources/readers/parquet.py",)),
    "wheel of catalogues": Reader(
        _po_in_wheel, lambda run: [files.archive({"a/de/LC_MESSAGES/b.po": files.CATALOGUE.encode()})],
        (*_ZIP, "pipeline/sources/readers/wheels.py")),
    "wheel of strings": Reader(
        lambda content, places: home_assistant.read_wheel(places.file("a.whl", content), "en", "de"),
        lambda run: [files.wheel_of_strings()], (*_ZIP, "pipeline/sources/readers/home_assistant.py")),
    "wheel of corrections": Reader(
        lambda content, places: ua_gec.read_documents(places.file("a.whl", content), "gec-only", "train"),
        lambda run: [files.wheel_of_corrections()], (*_ZIP, "pipeline/sources/readers/ua_gec.py")),
    "pharaoh": Reader(_links, _one(b"0-0 1-2\n1-1\n\n"), ("pipeline/alignment/pharaoh.py",),
                      ("0-0", "1-1", "999999999-0", "-", " ", "\n")),
    "glossary": Reader(_glossary, _one(b"lamp\tLampe\nred otter\troter Otter\n"), ("pipeline/glossary.py",),
                       ("a", "lamp", "\t", "\n", "(", "*", "\\")),
    "params": Reader(lambda content, places: load_params(places.file("params.yaml", content)),
                     _params,
                     ("pipeline/strict_yaml.py", "pipeline/blocks.py", "pipeline/params.py"), _YAML, is_json=True),
    "presets": Reader(_preset, _one(json.dumps(files.PRESET).encode()),
                      ("pipeline/strict_yaml.py", "pipeline/systems.py"), _YAML, is_json=True),
    "requests": Reader(_service, _one(json.dumps(files.REQUEST).encode()), ("pipeline/service/requests.py",),
                       ("text", "model", "decoder", "ar", "\\ud800"), is_json=True),
    "hypotheses": Reader(lambda content, places: read_hypotheses(places.file("a.jsonl", content), 1),
                         _one(json.dumps(files.HYPOTHESIS).encode()), ("pipeline/evaluation/quality.py",),
                         ("index", "hypothesis"), is_json=True),
    "tokenizer": Reader(_tokenizer, _of_run("bpe/joint.model"), ("pipeline/corpus/bpe.py",)),
    "model: meta": Reader(_model("meta.json"), _of_run("model/meta.json"), (_JSON_FILES, "pipeline/corpus/bpe.py"),
                          ("joint", "digest"), is_json=True),
    "model: config": Reader(_model("config.json"), _of_run("model/config.json"), ("pipeline/model/checkpoint.py",),
                            ("width", "order"), is_json=True),
    "model: weights": Reader(_model("weights.safetensors"), _of_run("model/weights.safetensors"),
                             ("pipeline/model/checkpoint.py",)),
    "model: manifest": Reader(_model("fast_nmt_export.json"), _of_run("model/fast_nmt_export.json"),
                              ("pipeline/interop/model_folder.py",), ("decoders", "files"), is_json=True),
    "pairs": Reader(_pairs, _of_run("bpe/train.pairs"), ("pipeline/corpus/pairs.py",)),
    "alignment": Reader(_alignment, _of_run("links/raw.safetensors"), ("pipeline/count_model/arrays.py",)),
    "counts": Reader(lambda content, places: CountModel.open(places.file("a.safetensors", content)),
                     _of_run("counts/raw.safetensors"), ("pipeline/count_model/arrays.py",
                                                         "pipeline/count_model/model.py")),
    "resume point": Reader(lambda content, places: read_state(places.file("resume.ckpt", content)),
                           _of_run("work/resume.ckpt"), ("pipeline/training/resume.py",)),
}
"""By name."""
