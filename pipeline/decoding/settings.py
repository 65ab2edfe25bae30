"""Decoders: from an entry of `decoders` in params.yaml to a function.

The entry's `algorithm` names a file of this package, which defines

* `Settings`, a dataclass of the entry's other fields,
* `search(model, source, limit, settings) -> Hypotheses`, where source is (B, S) ids, right-padded with PAD, and limit
  the greatest length of a translation,
* `TRAITS`, which models and requests it suits and how a batch of it is computed (`traits`), unless all are the
  defaults.

A new algorithm is therefore one file, and nothing here knows it. Any entry may also have

* `deduplicate: N`: immediate repeats of n-grams of up to N words are removed from the hypotheses, after a forced prefix
  and within the decoder's own time; such an entry cannot place terms, whose words might be among them,
* `quantization`: `int8`, `bfloat16` or `float16`, the format in which the model is searched (`pipeline.model.formats`).

Whether compiled code searches is decided here and nowhere else in this package (`engine.door`).
"""

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pipeline.blocks import build
from pipeline.checks import Refused
from pipeline.count_model.shortlist import Shortlist
from pipeline.decoding.deduplicate import deduplicated
from pipeline.decoding.forced import Prefixes, searched_model, with_prefixes
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.limits import LengthLimit
from pipeline.decoding.threaded import search_in_portions, search_in_threads, search_rows
from pipeline.decoding.traits import Traits
from pipeline.engine.door import compiles_steps, open_engine, portions_of, sentences_per_call, sharing_by
from pipeline.errors import PipelineError
from pipeline.model.formats import FORMATS, in_format

Terms = Sequence[Sequence[Sequence[int]]]
"""Per sentence, the tokens of each term that its translation contains."""


Decoder = Callable[[Any, Tensor], Hypotheses]
"""From a model of the algorithm's kind and padded ids (B, S) to hypotheses."""


class ForcedDecoder(Protocol):
    """A `Decoder` that may be forced to begin translations with prefixes, or to place terms."""

    def __call__(self, model: Any, source: Tensor, prefixes: Prefixes = (), terms: Terms = ()) -> Hypotheses:
        """The hypotheses for padded ids (B, S).

        Args:
            model: of the algorithm's kind.
            source: (B, S) ids, right-padded with PAD.
            prefixes: what each translation must begin with (`forced`); none: nothing is forced.
            terms: what each translation must contain (`terms`); none: nothing. Sentences are then searched one by one.

        Raises:
            PipelineError: as of `check`.
        """

    def check(self, model: Any, *, prefixes: bool = False, terms: bool = False) -> None:
        """Refuse a model, before anything is translated.

        Args:
            model: to be searched.
            prefixes: whether translations will have to begin with given tokens.
            terms: whether translations will have to contain terms.

        Raises:
            PipelineError: the model is of another kind, or the search cannot be forced so with it.
        """


@dataclass(frozen=True)
class Entry:
    """An entry of `decoders`, fully checked."""

    algorithm: str
    module: ModuleType
    """Its file."""
    settings: Any
    """Of the file's `Settings`."""
    deduplicate: int
    quantization: str
    traits: Traits


def read_entry(name: str, block: Mapping[str, Any]) -> Entry:
    """A checked entry of `decoders`.

    Args:
        name: of the entry, for error messages.
        block: `algorithm`, the fields of that file's `Settings`, `deduplicate` (default 0: no removal) and
            `quantization` (default float32: none).

    Raises:
        PipelineError: no such algorithm, or a setting that it does not have.
    """
    options = dict(block)
    algorithm = str(options.pop("algorithm", ""))
    longest = options.pop("deduplicate", 0)
    if type(longest) is not int or longest < 0:
        raise PipelineError(f"params.yaml: decoders.{name}.deduplicate is {longest!r}; it must be a number of words, "
                            "0 or more")
    quantization = options.pop("quantization", FORMATS[0])
    if quantization not in FORMATS:
        raise PipelineError(f"params.yaml: decoders.{name}.quantization is {quantization!r}; choose one of "
                            f"{', '.join(FORMATS)}")
    path = f"pipeline.decoding.{algorithm}"
    module = None
    if re.fullmatch(r"[a-z][a-z0-9_]*", algorithm) and importlib.util.find_spec(path):
        module = importlib.import_module(path)
    if module is None or not hasattr(module, "search"):
        raise PipelineError(f"params.yaml: decoders.{name}.algorithm: {algorithm!r} is not a file of pipeline/decoding "
                            "that has a search")
    return Entry(algorithm, module, build(module.Settings, options, f"decoders.{name}"), longest, quantization,
                 getattr(module, "TRAITS", Traits()))


def with_nbest(name: str, block: Mapping[str, Any], nbest: int, where: str) -> dict[str, Any]:
    """An entry of `decoders` that finds a number of hypotheses per sentence; for one, the entry as it is.

    Args:
        name: of the entry.
        block: its content.
        nbest: the number of hypotheses.
        where: the option or key that asks for them, for error messages.

    Raises:
        PipelineError: the decoder does not find so many, or the entry is not valid.
    """
    settings = read_entry(name, block).settings
    if nbest == 1:
        return dict(block)
    try:
        if not hasattr(settings, "nbest"):
            raise Refused(f"nbest: {nbest} must not exceed 1, what this search finds")
        replace(settings, nbest=nbest)
    except Refused as refused:
        fault = str(refused).removeprefix("nbest: ")
        raise PipelineError(f"{where}: {fault}; choose another decoder than {name!r}") from None
    return {**block, "nbest": nbest}


def with_penalty(name: str, block: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    """An entry of `decoders` with the exponent of the length penalty that distillation asks for.

    Raises:
        PipelineError: the search has no length penalty, or the entry is not valid.
    """
    if not hasattr(read_entry(name, block).settings, "length_penalty"):
        raise PipelineError(f"params.yaml: distillation.length_penalty: the decoder {name} has no length penalty; "
                            "choose a beam search, or remove length_penalty (in a preset: null)")
    return {**block, "length_penalty": {**block.get("length_penalty", {}), "alpha": alpha}}


def make_decoder(name: str, block: Mapping[str, Any], limit: LengthLimit,
                 shortlist: Shortlist | None = None) -> ForcedDecoder:
    """The function that an entry of `decoders` describes.

    Args:
        name: of the entry, for error messages.
        block: its content, see `read_entry`.
        limit: the greatest length of a translation.
        shortlist: the part of the vocabulary that is searched for a source; None: all of it. Scores are then relative
            to that part, and sentences are searched one by one, in threads.

    Raises:
        PipelineError: no such algorithm, a setting that it does not have, or a shortlist that it cannot search.
    """
    entry = read_entry(name, block)
    if shortlist is not None and not entry.traits.takes_shortlist:
        raise PipelineError(f"decoders.{name}: {entry.algorithm} cannot search a shortlist; choose greedy or a beam "
                            "search")
    return _EntryDecoder(name, entry, limit, shortlist)


@dataclass(frozen=True)
class _EntryDecoder:
    """See `ForcedDecoder`, and `make_decoder` for the fields."""

    name: str
    entry: Entry
    limit: LengthLimit
    shortlist: Shortlist | None

    def __call__(self, model: Any, source: Tensor, prefixes: Prefixes = (), terms: Terms = ()) -> Hypotheses:
        self.check(model, prefixes=any(prefixes), terms=any(terms))
        entry, traits = self.entry, self.entry.traits
        model = open_engine(in_format(model, entry.quantization))
        if len(source) and (self.shortlist is not None or any(terms)):
            with sharing_by(model) if len(source) == 1 else nullcontext():
                found = search_rows(lambda row, sentence: self._search_one(
                    model, sentence, prefixes[row:row + 1], terms[row] if terms else ()), source,
                    threads=compiles_steps(model))
        elif not any(prefixes) and traits.in_one_call and (at_once := sentences_per_call(
                model, source, shares_calls=traits.shares_calls, reads_at_once=traits.reads_at_once)):
            found = search_in_threads(lambda sentences: self._search(model, sentences), source, at_once)
        elif not any(prefixes) and (portions := portions_of(model, source)) > 1:
            found = search_in_portions(lambda portion: self._search(model, portion), source, portions)
        else:
            with sharing_by(model):
                found = self._search(model, source, prefixes)
        return deduplicated(found, entry.deduplicate, prefixes) if entry.deduplicate else found

    def check(self, model: Any, *, prefixes: bool = False, terms: bool = False) -> None:
        entry, traits, where = self.entry, self.entry.traits, f"decoders.{self.name}"
        if model.kind != traits.kind:
            raise PipelineError(f"{where}: {entry.algorithm} searches {traits.kind} models, and this one is "
                                f"{model.kind}; choose another decoder for its family")
        if traits.width is not None and model.order.width != traits.width:
            raise PipelineError(f"{where}: {entry.algorithm} searches orders of {traits.width} slots per step, and "
                                f"this model's, {model.order.name}, has {model.order.width}; choose another decoder "
                                "for its family")
        if prefixes:
            if traits.kind != "ordered" and not traits.verifies:
                raise PipelineError(f"{where}: {entry.algorithm} does not generate from left to right, and a prefix "
                                    "can only be forced there; choose another decoder, such as greedy or a beam search")
            searched = searched_model(model)
            if searched is not None and not searched.order.left_to_right:
                raise PipelineError(f"{where}: this model generates in the order {searched.order.name}, and a prefix "
                                    "can only be forced from left to right; choose a family of that order, such as "
                                    "the baseline")
        if terms:
            if not traits.takes_terms:
                raise PipelineError(f"{where}: {entry.algorithm} cannot place terms; choose a decoder of the algorithm "
                                    "beam")
            if entry.deduplicate:
                raise PipelineError(f"{where}: deduplicate may remove words of terms; choose a decoder without it")
            if model.order.width > 1 or not model.order.left_to_right:
                raise PipelineError(f"{where}: this model generates in the order {model.order.name}, "
                                    f"{model.order.width} words per step, and terms need one word after the other "
                                    "from left to right; choose a family of that order")

    def _search(self, model: Any, source: Tensor, prefixes: Prefixes = (), *terms: Any) -> Hypotheses:
        limit = self.limit
        if any(prefixes):
            model, limit = with_prefixes(model, limit, prefixes)
        found: Hypotheses = self.entry.module.search(model, source, limit, self.entry.settings, *terms)
        return found

    def _search_one(self, model: Any, source: Tensor, prefixes: Prefixes,
                    terms: Sequence[Sequence[int]]) -> Hypotheses:
        if self.shortlist is None:
            return self._search(model, source, prefixes, *([terms] if terms else []))
        if not hasattr(model, "with_vocabulary"):
            raise PipelineError("shortlist: this model cannot be searched with a part of its vocabulary; leave it out")
        ids = self.shortlist(source[0].cpu().numpy(), chain(*prefixes, *terms))
        prefixes, terms = ([np.searchsorted(ids, one).tolist() for one in some] for some in (prefixes, terms))
        words = torch.from_numpy(ids).to(source.device)
        found = self._search(model.with_vocabulary(words), source, prefixes, *([terms] if terms else []))
        return replace(found, tokens=words[found.tokens])
