"""The stages `align` and `counts`: from encoded pairs to links, and from links to count models.

Raw and distilled targets are aligned as one corpus, and counted both separately and together: a lattice uses the counts
of the data that its scorer is trained on.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.alignment.bitext import Bitext
from pipeline.alignment.counting import Aligned, count
from pipeline.alignment.group import ALONE, Group
from pipeline.alignment.settings import AlignmentSettings, CountSettings
from pipeline.checksums import summed_folder
from pipeline.cores import usable_cores
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.pairs import Pairs
from pipeline.count_model.arrays import map_arrays, write_arrays
from pipeline.count_model.model import CountModel
from pipeline.errors import PipelineError
from pipeline.files import remove, write_json
from pipeline.vocabulary import SPECIALS

FORMAT = "links 1"
TABLE = "lexicon.tsv"
_TABLE_MINIMUM = 0.01
_REMEDY = "run `python -m pipeline align` again"
_BLOCK = 1 << 20  # words looked at once
_PROJECTED_PAIRS = 4_500_000
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_WINDOW = 3
"""D of the lattice paper: how far lengths may be from the predicted one."""


def align(sides: Mapping[str, Path], tokenizer: Tokenizer, settings: AlignmentSettings, out: Path,
          report: Path, group: Group = ALONE) -> None:
    """Align encoded corpora, `sides` by name, in both directions and as one corpus. The first of a group writes.

    Writes a folder completely or not at all: for each side SIDE.safetensors (`heads`: the source position of every
    target word or -1, which `count_sides` reads) and SIDE.pharaoh (both directions, symmetrised), and one lexical
    table, `lexicon.tsv`. Figures are written to a JSON file.
    """
    from pipeline.alignment.directions import align_both, links_of
    from pipeline.alignment.pharaoh import write_pharaoh
    from pipeline.alignment.progress import progress
    from pipeline.alignment.table import write_table

    bitexts = {side: _open_bitext(path, tokenizer) for side, path in sides.items()}
    with TemporaryDirectory(dir=_existing(out.parent)) as name:
        with progress(settings.iterations, "forward", "reverse", rank=group.rank) as callbacks:
            forward, reverse = align_both(list(bitexts.values()), settings, usable_cores(), Path(name), callbacks,
                                          group)
        if group.rank:
            return
        model = forward.model
        figures: dict[str, Any] = {
            name: {"cross_entropy": [round(step.cross_entropy, 4) for step in direction.model.history],
                   "tension": round(direction.model.tension, 4)}
            for name, direction in (("forward", forward), ("reverse", reverse))}
        with summed_folder(out) as folder:
            for (side, bitext), heads, back in zip(bitexts.items(), forward.heads, reverse.heads, strict=True):
                _write_heads(folder / f"{side}.safetensors", heads, bitext, tokenizer, model.tension,
                             model.null_probability)
                links = write_pharaoh(folder / f"{side}.pharaoh", links_of(bitext, heads, back, settings.symmetrise))
                figures[side] = {"pairs": bitext.pairs, "links": links, "unlinked_target_words": _unlinked(heads)}
            write_table(folder / TABLE, model, tokenizer.source_pieces, tokenizer.target_pieces, _TABLE_MINIMUM)
            remove(report)  # it describes what is replaced now
        write_json(report, figures)


def take_links(sides: Mapping[str, Path], links: Mapping[str, Path], tokenizer: Tokenizer,
               settings: AlignmentSettings, out: Path, report: Path) -> None:
    """Write what `align` writes for `count_sides`, from links of the pieces in Pharaoh format, by side.

    The prior of the settings is recorded: the tension and null probability of other aligners are not known.

    Raises:
        PipelineError: a side without links, or links of another corpus.
    """
    from pipeline.alignment.directions import on_disk
    from pipeline.alignment.pharaoh import read_heads

    if set(links) != set(sides):
        raise PipelineError(f"--links: of {', '.join(links)}; give SIDE=FILE for each of {', '.join(sides)}")
    figures = {}
    with summed_folder(out) as folder:
        for side, path in sides.items():
            bitext = _open_bitext(path, tokenizer)
            heads = on_disk(len(bitext.target.ids), folder)
            read_heads(links[side], bitext, heads)
            _write_heads(folder / f"{side}.safetensors", heads, bitext, tokenizer, settings.tension,
                         settings.null_probability)
            figures[side] = {"pairs": bitext.pairs, "unlinked_target_words": _unlinked(heads)}
        remove(report)  # it describes what is replaced now
    write_json(report, figures)


def _write_heads(path: Path, heads: NDArray[np.int32], bitext: Bitext, tokenizer: Tokenizer, tension: float,
                 null_probability: float) -> None:
    write_arrays(path, {"heads": heads}, {
        "format": FORMAT, "digest": tokenizer.digest, "pairs": str(bitext.pairs), "tension": repr(tension),
        "null_probability": repr(null_probability)})


def _unlinked(heads: NDArray[np.int32]) -> float:
    return round(sum(int((part < 0).sum()) for part in _blocks(heads)) / max(1, len(heads)), 4)


def _existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (array[start:start + _BLOCK] for start in range(0, len(array), _BLOCK))


def read_aligned(pairs: Path, path: Path, tokenizer: Tokenizer) -> tuple[Aligned, dict[str, float]]:
    """Open a side with its links, and return them with the tension and null probability of the aligner's prior.

    `pairs` is a file of encoded pairs, `path` that of their links, written by `align`.

    Raises:
        PipelineError: a file is absent, damaged or made with another vocabulary, or the links are of another corpus.
    """
    bitext = _open_bitext(pairs, tokenizer)
    arrays, metadata = map_arrays(path, _REMEDY)
    if metadata.get("format") != FORMAT:
        raise PipelineError(f"{path}: not links of format {FORMAT!r}; {_REMEDY}")
    try:
        digest, heads = metadata["digest"], arrays["heads"]
        aligned_pairs = int(metadata["pairs"])
        prior = {name: float(metadata[name]) for name in ("tension", "null_probability")}
    except (KeyError, ValueError) as error:
        raise PipelineError(f"{path}: damaged ({error}); {_REMEDY}") from None
    if digest != tokenizer.digest:
        raise PipelineError(f"{path}: aligned with vocabulary {digest[:12]}, but {tokenizer.digest[:12]} is in use; "
                            f"{_REMEDY}")
    if aligned_pairs != bitext.pairs or heads.shape != bitext.target.ids.shape:
        raise PipelineError(f"{path}: links of {aligned_pairs} pairs with {heads.size} target words, but the "
                            f"corpus has {bitext.pairs} with {len(bitext.target.ids)}; {_REMEDY}")
    if heads.dtype != np.int32 or any(bool((part < -1).any()) for part in _blocks(heads)):
        raise PipelineError(f"{path}: damaged: links that are neither positions nor -1; {_REMEDY}")
    offsets = bitext.target.offsets
    if any(bool((heads[offsets[first]:offsets[last]] >= np.repeat(part.source.lengths, part.target.lengths)).any())
           for first, last in bitext.cuts(_BLOCK) for part in [bitext.part(first, last)]):
        raise PipelineError(f"{path}: links to words after the end of their source, so of another corpus; {_REMEDY}")
    return Aligned(bitext, heads), prior


def _open_bitext(path: Path, tokenizer: Tokenizer) -> Bitext:
    pairs = Pairs.open(path, tokenizer.digest)
    pairs.check_ids(tokenizer.source_size, tokenizer.target_size)  # counting reads all of them anyway
    return Bitext.from_pairs(pairs)


def count_sides(sides: Mapping[str, Path], links: Path, tokenizer: Tokenizer, settings: CountSettings, out: Path,
                report: Path) -> None:
    """Count every side separately, and all of them together as `both`.

    Reads files of encoded pairs by name and the folder `links` that `align` wrote; writes a folder completely or not at
    all, and figures to a JSON file.

    Raises:
        PipelineError: links and pairs do not belong together.
    """
    aligned: dict[str, Aligned] = {}
    prior: dict[str, float] = {}
    for side, path in sides.items():
        aligned[side], prior = read_aligned(path, links / f"{side}.safetensors", tokenizer)
    parts = {**{side: [one] for side, one in aligned.items()}, "both": list(aligned.values())}
    copies = piece_copies(tokenizer)

    def counted(part: list[Aligned]) -> CountModel:
        return count(part, top=settings.top, diagonal=settings.diagonal, target_vocabulary=tokenizer.target_size,
                     copies=copies, digest=tokenizer.digest, folder=_existing(out.parent), **prior)

    figures = {}
    with summed_folder(out) as folder:
        for side, part in parts.items():
            model, file = counted(part), folder / f"{side}.safetensors"
            model.save(file)
            figures[side] = _figures(part, model, file.stat().st_size, counted([_half(one) for one in part]))
            print(f"counts of {side}: {figures[side]['pairs_of_word_and_offset']:,} (word, offset), "
                  f"{figures[side]['entries']:,} entries, {figures[side]['megabytes']} MB; projected for "
                  f"{_PROJECTED_PAIRS:,} pairs: {figures[side]['projected_megabytes']} MB")
        remove(report)  # it describes what is replaced now
    write_json(report, figures)


def piece_copies(tokenizer: Tokenizer) -> NDArray[np.int32]:
    """Return (source ids) the target id of the same piece, or -1; special symbols have none."""
    targets = {piece: token for token, piece in enumerate(tokenizer.target_pieces)}
    copies = np.array([targets.get(piece, -1) for piece in tokenizer.source_pieces], np.int32)
    copies[:len(SPECIALS)] = -1
    return copies


def _half(aligned: Aligned) -> Aligned:
    pairs = aligned.bitext.pairs // 2
    return Aligned(aligned.bitext.part(0, pairs), aligned.links[:aligned.bitext.target.offsets[pairs]])


def _figures(part: list[Aligned], model: CountModel, size: int, of_half: CountModel) -> dict[str, Any]:
    """Return the size of a model, its growth with the corpus, and how well it predicts lengths."""
    sources, targets = (np.concatenate([side.lengths for side in sides])
                        for sides in zip(*(one.bitext for one in part), strict=True))
    residuals = model.lengths.residuals(sources, targets)
    # Growth from half of the corpus to all of it is extrapolated as a power law.
    entries, half = len(model.lexicon.table.items), max(1, len(of_half.lexicon.table.items))
    exponent = float(np.log2(max(entries, 1) / half))
    growth = (_PROJECTED_PAIRS / max(part[0].bitext.pairs, 1)) ** exponent
    return {
        "pairs": len(sources), "pairs_of_word_and_offset": len(model.lexicon.offsets), "entries": entries,
        "megabytes": round(size / 1e6, 2), "growth_exponent": round(exponent, 3),
        "projected_megabytes": round(size * growth / 1e6),
        "length": {"slope": round(model.lengths.slope, 4), "intercept": round(model.lengths.intercept, 4),
                   "residual_quantiles": {str(q): float(np.quantile(residuals, q)) for q in _QUANTILES},
                   f"within_{_WINDOW}": round(float((np.abs(residuals) <= _WINDOW).mean()), 4)},
    }
