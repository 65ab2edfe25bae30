"""The cards of a model and of a corpus: what they are, where they come from, how good they are, under which licence.

Both begin with YAML, as the Hugging Face Hub reads it. They name no path of the machine on which they were written.
"""

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pipeline import __version__, layout
from pipeline.errors import one_line
from pipeline.files import read_json
from pipeline.interop.model_folder import ModelSettings
from pipeline.measures import MEASURES
from pipeline.params import Params
from pipeline.sources.settings import CorpusSettings
from pipeline.sources.splits import Languages

if TYPE_CHECKING:
    from pipeline.model.transformer import Transformer

UNKNOWN = "unknown"
"""The hub's name of a licence that nobody has stated."""
_SIDES = {"raw": "the corpus's targets", "distilled": "the teacher's translations of the corpus's sources",
          "both": "the corpus's targets, and the teacher's translations of its sources",
          "synthetic": "the corpus's targets, and synthetic errors in them"}


def licence_of(corpus: CorpusSettings, stated: str | None) -> str:
    """The licence that the user states, or that of the corpus as far as its reader knows it; a name of the hub."""
    known: str = getattr(corpus.reader, "LICENCE", UNKNOWN)
    return stated or known


def model_card(params: Params, settings: ModelSettings, network: "Transformer", training: Mapping[str, Any],
               licence: str) -> str:
    """The card of a model folder, from the reports of the current folder as far as they are there.

    Args:
        params: of the current folder.
        settings: of the model folder.
        network: of the checkpoint.
        training: the checkpoint's note on it.
        licence: a name of the hub.
    """
    family, corpus = settings.family, params.corpus
    figures = _report(layout.REPORTS / "quality" / f"{family}.json").get("decoders", {})
    figures = {name: figures[name] for name in settings.decoders if name in figures}
    head: dict[str, Any] = {
        "language": _languages(corpus), "license": licence, "library_name": "fast-nmt-decoding",
        "pipeline_tag": "translation", "tags": [network.kind]}
    if figures:
        head["model-index"] = [{"name": family, "results": [_result(corpus, name, one)
                                                           for name, one in figures.items()]}]
    size = sum(parameter.numel() for parameter in network.parameters())
    shape, averaged = network.settings, len(training.get("averaged", ()))
    verifier = getattr(network, "verifier", None)
    contained = "" if verifier is None else " They contain those of the model that verifies its drafts."
    return _card(head, f"""# {family}: {_text(corpus.source_language)} to {_text(corpus.target_language)}

A Transformer of kind `{network.kind}`, order `{network.order.name}`, width {shape.width}, with {shape.encoder_layers}
encoder layers, {shape.decoder_layers} decoder layers, and {size:,} parameters.{contained} Written by
fast-nmt-decoding {settings.version}.

## Use

```python
from pipeline import Translator

translator = Translator.from_pretrained("FOLDER")  # this folder, wherever it stands
print(translator.translate("…"))
```

On the command line: `fast-nmt translate --model FOLDER < lines.txt`. Sources of more than {shape.max_length - 1} pieces
are cut there, with a warning.

## Decoders

The first one is the default; `from_pretrained("FOLDER", decoder=NAME)` chooses another.

```yaml
{_yaml(settings.decoders)}```

## Quality

{_quality(figures, family)}

## Data

{_data(corpus)}

Trained on {_SIDES.get(training.get("data", ""), "data that the checkpoint does not name")}.

## Training

- optimiser steps: {_stated(training, "steps")}
- seed: {params.seed}
- CPU threads: {_stated(training, "threads")}
- weights: {f"the mean of {averaged} checkpoints" if averaged else "those of one checkpoint"}

## Licence

{_licence(corpus, licence)}
""")


def data_card(params: Params, licence: str) -> str:
    """The card of the corpus of the current folder, as `export_corpus` writes it."""
    corpus, kept = params.corpus, _kept()
    row = json.dumps(columns((corpus.source_language, corpus.target_language), "…", "…"), ensure_ascii=False)
    head = {"language": _languages(corpus), "license": licence, "task_categories": ["translation"],
            "configs": [{"config_name": "default", "data_files": [
                {"split": split, "path": f"{split}.jsonl"} for split in layout.SPLITS]}]}
    return _card(head, f"""# Sentence pairs, {_text(corpus.source_language)} to {_text(corpus.target_language)}

{_data(corpus)}

{f"{sum(kept.values()):,} pairs, one" if kept else "One"} per line, as
{_code(row)}. Written by fast-nmt-decoding {__version__}.

## Licence

{_licence(corpus, licence)}
""")


def columns(languages: Languages, source: str, target: str) -> dict[str, Any]:
    """A sentence pair as columns of the exported corpus: `translation`, a dictionary by language, or, where both sides
    are in one language (corrections), `source` and `target`."""
    source_language, target_language = languages
    if source_language == target_language:
        return {"source": source, "target": target}
    return {"translation": {source_language: source, target_language: target}}


def _card(head: Mapping[str, Any], body: str) -> str:
    return f"---\n{_yaml(head)}---\n\n{body}"


def _yaml(content: Any) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return text


def _languages(corpus: CorpusSettings) -> list[str]:
    """Both codes, or the one of a corpus of corrections."""
    return list(dict.fromkeys((corpus.source_language, corpus.target_language)))


def _result(corpus: CorpusSettings, decoder: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the hub's `model-index`."""
    return {"task": {"type": "translation", "name": f"Translation under the decoder {decoder}"},
            "dataset": {"type": corpus.source, "name": corpus.source, "split": "test"},
            "metrics": [{"type": one.field, "name": f"{one.title}, {decoder}", "value": round(figures[one.field], 2),
                         "args": figures[one.signature]}
                        for one in MEASURES if figures.get(one.field) is not None]}


def _quality(figures: Mapping[str, Mapping[str, Any]], family: str) -> str:
    if not figures:
        return f"Not evaluated yet: run `python -m pipeline test --family {family}`, and export the model again."
    scored = [measure for measure in MEASURES if any(one.get(measure.field) is not None for one in figures.values())]
    rows = [["decoder", *(measure.title for measure in scored), "calls per sentence"],
            ["---", *["---:"] * (len(scored) + 1)],
            *([f"`{decoder}`", *(f"{one[measure.field]:.1f}" for measure in scored), f"{one['calls']:.1f}"]
              for decoder, one in figures.items())]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    first = next(iter(figures.values()))
    signatures = "\n".join(f"- {measure.title}: `{first[measure.signature]}`" for measure in scored)
    return f"On the test split.\n\n{table}\n\n{signatures}"


def _data(corpus: CorpusSettings) -> str:
    block = corpus.block
    named = {key: value for key in ("name", "config", "version", "revision", "layer")
             if (value := getattr(block, key, None)) and not Path(str(value)).exists()}
    source = ", ".join([_code(corpus.source), *(f"{key} {_text(value)}" for key, value in named.items())])
    about = (inspect.getdoc(corpus.reader) or "").partition("\n\n")[0].replace("\n", " ")
    counts = _report(layout.REPORTS / "corpus.json")
    table = "\n".join(["| split | pairs read | pairs kept |", "| --- | ---: | ---: |",
                       *(f"| {split} | {one['read']:,} | {one['kept']:,} |" for split, one in counts.items()
                         if split in layout.SPLITS)]) if counts else "The numbers of its pairs are not recorded."
    filters = _yaml({"filters": asdict(corpus.filters)})
    return f"Source: {source}. {about}\n\n{table}\n\n```yaml\n{filters}```"


def _kept() -> dict[str, int]:
    counts = _report(layout.REPORTS / "corpus.json")
    return {split: counts[split]["kept"] for split in layout.SPLITS if split in counts}


def _licence(corpus: CorpusSettings, licence: str) -> str:
    if licence == UNKNOWN:
        return "Not stated. A model is subject to the licence of the data that it was trained on."
    parts = corpus.reader.licences(corpus.block) if hasattr(corpus.reader, "licences") else {}
    table = [_code(licence), *(["", "| part of the corpus | licence |", "| --- | --- |"] if parts else []),
             *(f"| {_text(part)} | {_text(one)} |" for part, one in parts.items())]
    return "\n".join(table)


def _text(value: Any) -> str:
    """A value as text of Markdown on one line, in which nothing is a link, a tag, emphasis or the end of a cell."""
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", one_line(str(value)))


def _code(value: Any) -> str:
    """A value as code of Markdown on one line, which cannot end the code or its cell of a table."""
    return f"`{one_line(str(value)).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _stated(training: Mapping[str, Any], key: str) -> str:
    return f"{training[key]:,}" if key in training else "not recorded"


def _report(path: Path) -> dict[str, Any]:
    """A JSON report; empty if it has not been written."""
    return read_json(path) if path.exists() else {}
