"""A checkpoint of transformers under our decoders, and under its own library: the same text, and how fast?

    python -m benchmarks.checkpoints    # after `dvc repro`, in the folder of its params.yaml

The baseline is exported and loaded back as any other checkpoint is: on our layers, which compute the same, and on the
library's own. Every translation of the test split must be that of the family itself, token by token. Then all are timed
one sentence at a time beside `generate`, which has a process of its own.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.clock import RESULTS, about, argument_parser, table
from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.padding import pad_sources
from pipeline.decoding.settings import make_decoder
from pipeline.evaluation.one_model import peers_of, time_model
from pipeline.evaluation.peers import Numbering
from pipeline.files import write_json
from pipeline.interop.export_huggingface import save_model, save_tokenizer
from pipeline.interop.huggingface import open_checkpoint
from pipeline.interop.network import HuggingFaceModel, Renumbered
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params, load_params
from pipeline.text_model import TextModel

DECODERS = ("greedy", "beam5", "pj", "pgj3", "pgj5", "hgj3", "hgj5")


def texts(params: Params, network: Any, text: Any, longest: int, decoder: str, lines: list[str]) -> list[str]:
    """Translations, one sentence at a time."""
    decode = make_decoder(decoder, params.decoder(decoder),
                          params.length_limit(longest))
    found = []
    for ids in text.encode_source(lines):
        one = decode(network, pad_sources([ids], longest))
        found.append(text.decode_target(one.tokens[0, 0, :int(one.lengths[0, 0])].tolist()))
    return found


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "checkpoints.json", help="where to write the result")
    arguments = parser.parse_args()
    description = about(["torch", "transformers"])
    params, tokenizer = load_params(), Tokenizer.load(layout.BPE)
    network, _ = load_checkpoint(layout.checkpoint(params.baseline), tokenizer.digest,
                                 params.family(params.baseline).order)
    longest = network.settings.max_length
    lines = [line for line in layout.read_corpus(layout.CORPUS / "test.source") if tokenizer.encode_source([line])[0]]
    result: dict[str, Any] = {**description, "sentences": len(lines), "identical_to_family": {}, "layers": {}}
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        save_model(network, folder)
        save_tokenizer(tokenizer, layout.BPE, longest, folder)
        loaded = open_checkpoint(str(folder))
        models: dict[str, Renumbered] = {"ours": loaded.network, "theirs": on_their_layers(folder, loaded.network)}
        for decoder in ("greedy", "hgj3"):
            expected = texts(params, network, tokenizer, longest, decoder, lines)
            for layers, model in models.items():
                found = texts(params, model, loaded.text, longest, decoder, lines)
                same = sum(a == b for a, b in zip(found, expected, strict=True))
                result["identical_to_family"][f"{decoder}, {layers}"] = same / len(lines)
                print(f"{decoder} on {layers} layers: {same} of {len(lines)} texts are the family's")
        for layers, model in models.items():
            rows = time_model(params, params.speed, TextModel(model, loaded.text, longest, "none"), DECODERS, lines,
                              peers=peers_of(params, ("hf_greedy", "hf_beam5")), folder=folder,
                              numbering=Numbering(model.source_ids, model.symbols.first))
            theirs = next(row for row in rows if row["name"] == "hf_greedy")
            for row in rows:
                row["times_generate"] = theirs["ms_per_sentence"] / row["ms_per_sentence"]
            result["layers"][layers] = rows
            print(f"\non {layers} layers")
            print(table(["decoder", "ms a sentence", "times generate"], [
                [row["name"], f"{row['ms_per_sentence']:.1f}", f"{row['times_generate']:.2f}"] for row in rows]))
    write_json(arguments.output, result)


def on_their_layers(folder: Path, loaded: Renumbered) -> HuggingFaceModel:
    """The same checkpoint, computed by the library's own layers."""
    import transformers
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
    return HuggingFaceModel(network, loaded.symbols, network.config.max_position_embeddings)


if __name__ == "__main__":
    main()
