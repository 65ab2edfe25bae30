"""The process of a peer: the search of another library.

    python -m pipeline.interop.peers.worker FOLDER SETTINGS THREADS PARTS DEVICE [FIRST]

FOLDER is an export, or for `hf` any checkpoint; SETTINGS are `PeerSettings` in JSON; a batch is translated in PARTS in
parallel, each with THREADS (`ctranslate2` only); FIRST is the first id of every translation, such as a language's (`hf`
only). The process reads one JSON line per request, {"source": rows of ids with end symbols, "words": the longest
translation}, and answers with one JSON line, {"seconds": of the translation, "words": rows of ids without symbols}. A
row that the limit cut has one word more, in the slot of the end symbol. Ids are the checkpoint's. The process ends with
its input. Padding and other preparation of a request are not timed.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.peer_settings import PeerSettings

Ids = list[list[int]]
Prepare = Callable[[Ids, int], Callable[[], Any]]
"""From a request to the function that translates it, which is timed."""
Read = Callable[[Any], Ids]
"""From the result of that function to words."""


def huggingface(folder: Path, settings: PeerSettings, threads: int, device: str,
                first: int | None) -> tuple[Prepare, Read]:
    """`generate` of an encoder-decoder of transformers."""
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(threads)
    network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="float32", use_safetensors=True,
                                                                      local_files_only=True).to(device).eval()
    end, padding = network.generation_config.eos_token_id, network.generation_config.pad_token_id
    options: dict[str, Any] = {"num_beams": settings.beams, "do_sample": False, "use_cache": True}
    if first is not None:
        options["forced_bos_token_id"] = first
    if settings.beams > 1:
        options |= {"length_penalty": 1.0, "early_stopping": True}
    longest = getattr(network.config, "max_position_embeddings", sys.maxsize)
    if settings.prompt_lookup:
        options["prompt_lookup_num_tokens"] = settings.prompt_lookup
        longest -= settings.prompt_lookup  # drafted tokens are read even after the last position

    def prepare(source: Ids, words: int) -> Callable[[], Any]:
        # `generate` supports prompt lookup only for one prompt at a time.
        size = 1 if settings.prompt_lookup else len(source)
        batches, most = [], min(words + 1, longest)
        for start in range(0, len(source), size):
            rows = [torch.tensor(row) for row in source[start:start + size]]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding).to(device)
            lengths = torch.tensor([[len(row)] for row in rows], device=device)
            batches.append((ids, (torch.arange(ids.shape[1], device=device) < lengths).long()))

        @torch.inference_mode()
        def translate() -> list[Any]:
            found = [network.generate(input_ids=ids, attention_mask=mask, max_new_tokens=most, **options)
                     for ids, mask in batches]
            if device == "cuda":
                torch.cuda.synchronize()
            return found
        return translate

    def read(found: list[Any]) -> Ids:
        rows = [row[1:] for batch in found for row in batch.tolist()]
        return [row[:row.index(end)] if end in row else row for row in rows]

    return prepare, read


def ctranslate2(folder: Path, settings: PeerSettings, threads: int, parts: int,
                device: str) -> tuple[Prepare, Read]:
    """A `Translator` of CTranslate2."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # otherwise imported for its converters
    import ctranslate2 as library

    translator = library.Translator(str(folder), device=device, compute_type=settings.quantization,
                                    inter_threads=parts, intra_threads=threads)
    shared = folder / "shared_vocabulary.json"
    pieces = [json.loads((shared if shared.exists() else folder / f"{side}_vocabulary.json").read_text("utf-8"))
              for side in ("source", "target")]
    ids = {piece: number for number, piece in enumerate(pieces[1])}

    def prepare(source: Ids, words: int) -> Callable[[], Any]:
        # The export adds the end symbol.
        rows = [[pieces[0][token] for token in row[:-1]] for row in source]
        return lambda: translator.translate_batch(
            rows, max_batch_size=-(-len(rows) // parts), beam_size=settings.beams, length_penalty=1,
            min_decoding_length=0, max_input_length=0, max_decoding_length=words + 1)

    def read(found: list[Any]) -> Ids:
        return [[ids[piece] for piece in result.hypotheses[0]] for result in found]

    return prepare, read


def main(folder: str, settings: str, threads: str, parts: str, device: str, first: str | None = None) -> None:
    """Answer requests until the input ends."""
    answers = os.dup(1)  # a library's prints must not be among them
    os.dup2(2, 1)
    peer = PeerSettings(**json.loads(settings))
    if peer.library == "hf":
        prepare, read = huggingface(Path(folder), peer, int(threads), device, None if first is None else int(first))
    else:
        prepare, read = ctranslate2(Path(folder), peer, int(threads), int(parts), device)
    with open(answers, "w", encoding="utf-8") as out:
        for line in sys.stdin:
            request = json.loads(line)
            translate = prepare(request["source"], request["words"])
            start = time.perf_counter()
            found = translate()
            seconds = time.perf_counter() - start
            print(json.dumps({"seconds": seconds, "words": read(found)}), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
