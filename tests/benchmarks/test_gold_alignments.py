"""The gold alignment, read from a tiny wheel of the same format."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gold_alignments
from benchmarks.gold_alignments import ENGLISH, GREEK, GROUPS, fetch_wheel, read_gold
from pipeline.checksums import file_digest
from pipeline.errors import PipelineError

# Two verses; the second English verse is numbered one too high, and says by `source_verse` which one it is.
GREEK_WORDS = [("n40001001001", "Καλὸς"), ("n40001001002", "ΛΥΧΝΟΣ"), ("n40001002001", "Ὄνος"),
               ("n40001002002", "γελᾷ"), ("n40001003001", "μόνος")]
ENGLISH_WORDS = [("40001001001", "40001001", "A", ""), ("40001001002", "40001001", "“", "y"),
                 ("40001001003", "40001001", "Fine", ""), ("40001001004", "40001001", "LAMP", ""),
                 ("40001001005", "40001001", ".", "y"), ("40001003001", "40001002", "Donkeys", ""),
                 ("40001003002", "40001002", "laugh", ""), ("40001004001", "40001003", "alone", "")]
ALIGNED = [(["n40001001001"], ["40001001003"]), (["n40001001002"], ["40001001001", "40001001004"]),
           (["n40001002001", "n40001002002"], ["40001003001", "40001003002"])]


def write_wheel(folder: Path, groups: Sequence[tuple[list[str], list[str]]] = ALIGNED,
                changed: Mapping[str, str | None] | None = None) -> Path:
    """A wheel with the verses above; `changed` replaces members, or leaves them out."""
    greek = ["id\taltId\ttext\tmorph", *(f"{name}\t-\t{text}\tN" for name, text in GREEK_WORDS)]
    english = ["id\tsource_verse\ttext\tskip_space_after\texclude",
               *(f"{name}\t{verse}\t{text}\t\t{exclude}" for name, verse, text, exclude in ENGLISH_WORDS)]
    records: list[dict[str, Any]] = [{"source": source, "target": target, "meta": {"process": "manual"}}
                                     for source, target in groups]
    members = {GREEK: "\n".join(greek) + "\n", ENGLISH: "\r\n".join(english) + "\r\n",
               GROUPS: json.dumps({"records": records}), **(changed or {})}
    wheel = folder / "bible_alignments-0.4.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, text in members.items():
            if text is not None:
                archive.writestr(member, text)
    return wheel


def test_words_are_small_and_without_punctuation_and_groups_are_products(tmp_path: Path) -> None:
    gold = read_gold(write_wheel(tmp_path))
    assert gold.sources == [["καλὸς", "λυχνος"], ["ὄνος", "γελᾷ"]]
    assert gold.targets == [["a", "fine", "lamp"], ["donkeys", "laugh"]]
    assert gold.links == [{(0, 1), (1, 0), (1, 2)}, {(0, 0), (0, 1), (1, 0), (1, 1)}]
    assert gold.across == 0


def test_a_link_between_verses_is_counted_and_left_out(tmp_path: Path) -> None:
    gold = read_gold(write_wheel(tmp_path, [*ALIGNED, (["n40001003001"], ["40001003002", "40001004001"])]))
    assert gold.across == 1
    assert (gold.sources[2], gold.targets[2], gold.links[2]) == (["μόνος"], ["alone"], {(0, 0)})


def test_a_verse_that_is_aligned_with_another_one_alone_has_no_links(tmp_path: Path) -> None:
    gold = read_gold(write_wheel(tmp_path, [*ALIGNED, (["n40001003001"], ["40001001003"])]))
    assert gold.links[2] == set()
    assert gold.across == 1


def test_a_link_to_punctuation_is_no_link(tmp_path: Path) -> None:
    gold = read_gold(write_wheel(tmp_path, [(["n40001001001"], ["40001001003", "40001001005"])]))
    assert gold.links == [{(0, 1)}]


@pytest.mark.parametrize(("changed", "message"), [
    ({GREEK: None}, f"{GREEK} cannot be read"),
    ({ENGLISH: "id\ttext\n"}, f"{ENGLISH} has no column exclude, source_verse"),
    ({GREEK: ""}, f"{GREEK} has no column id, text"),
    ({GROUPS: "[1, 2"}, f"{GROUPS} is not a list of groups"),
    ({GROUPS: '{"records": [{"source": []}]}'}, f"{GROUPS} is not a list of groups .*target"),
    ({GROUPS: '{"records": [{"source": ["n9"], "target": ["40001001001"]}]}'}, f"aligns the word 'n9', which {GREEK}"),
])
def test_what_is_not_the_published_file_is_refused(tmp_path: Path, changed: Mapping[str, str | None],
                                                   message: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        read_gold(write_wheel(tmp_path, changed=changed))
    assert "\n" not in str(caught.value)


def test_no_wheel_at_all_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "cut.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(PipelineError, match=r"cut\.whl: .* cannot be read"):
        read_gold(wheel)


def test_the_wheel_is_downloaded_once_and_its_hash_is_checked_each_time(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = write_wheel(tmp_path)
    digest, downloads = file_digest(published), []

    def download(package: str, version: str, folder: Path) -> Path:
        downloads.append(f"{package}=={version}")
        return published

    monkeypatch.setattr(gold_alignments, "download_wheel", download)
    cache = tmp_path / "cache"
    kept = fetch_wheel(cache, digest)
    assert (fetch_wheel(cache, digest), kept.read_bytes()) == (kept, published.read_bytes())
    assert downloads == ["bible_alignments==0.4.2"]

    kept.write_bytes(b"damaged")
    assert fetch_wheel(cache, digest).read_bytes() == published.read_bytes()
    assert len(downloads) == 2

    with pytest.raises(PipelineError, match=f"sha256 is {digest} but {'0' * 64} is expected"):
        fetch_wheel(tmp_path / "other", "0" * 64)
    assert not (tmp_path / "other").exists()
