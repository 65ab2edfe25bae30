"""A model of a folder or of another library under this project's decoders: its quality and its speed.

The figures of a trained family go into the reports of its workspace; these are returned to the caller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pipeline.corpus.padding import pad_sources
from pipeline.decoding.settings import make_decoder
from pipeline.errors import PipelineError
from pipeline.evaluation.bootstrap import speed_ratio
from pipeline.evaluation.clock import clock_device, spread
from pipeline.evaluation.peers import Numbering, timed_peers
from pipeline.evaluation.quality import score
from pipeline.evaluation.speed import BATCH, Contestant, costs_of, measure
from pipeline.params import EvaluationSettings, Params, SpeedSettings
from pipeline.peer_settings import PeerSettings
from pipeline.text_model import SearchSettings, TextModel
from pipeline.translation import Translator


def score_model(settings: SearchSettings, evaluation: EvaluationSettings, model: TextModel, decoders: Sequence[str],
                sources: Sequence[str], references: Sequence[Sequence[str]],
                device: str = "auto") -> dict[str, dict[str, Any]]:
    """Translate lines under several decoders and score them.

    Args:
        settings: with the decoders and the length limit.
        evaluation: how to score.
        model: of a folder or of any library.
        decoders: entries of `decoders`.
        sources: (N,) lines.
        references: (R, N).
        device: cpu, cuda or auto.

    Returns:
        For each decoder the fields of `Quality`, mean calls per sentence, and the share of texts that are identical to
        those of the first decoder.

    Raises:
        PipelineError: an unknown decoder, or one that does not suit the model; nothing to translate.
    """
    figures: dict[str, dict[str, Any]] = {}
    first: list[str] = []
    for name in decoders:
        found = list(Translator(settings, model, name, device=device, batch_tokens=evaluation.batch_tokens)(sources))
        texts = [one.hypotheses[0] for one in found]
        first = first or texts
        quality = score(texts, references, evaluation.bleu_tokenizer, sources=sources, metrics=evaluation.metrics,
                        moses=evaluation.moses)
        figures[name] = {**asdict(quality), "calls": sum(one.calls for one in found) / len(found),
                         f"identical_to_{decoders[0]}": float(np.mean([a == b for a, b in
                                                                       zip(texts, first, strict=True)]))}
    return figures


def peers_of(params: Params, names: Sequence[str]) -> dict[str, PeerSettings]:
    """The entries of `peers` that search a checkpoint of transformers, by these names.

    Raises:
        PipelineError: an unknown name, or a peer of another library.
    """
    for name in names:
        if name not in params.peers:
            raise PipelineError(f"--peer: {name!r} is unknown; params.yaml has {', '.join(params.peers) or 'none'}")
        if params.peers[name].library != "hf":
            raise PipelineError(f"--peer: {name!r} is of {params.peers[name].library}, which does not read checkpoints "
                                "of transformers; choose one of library hf")
    return {name: params.peers[name] for name in names}


def time_model(settings: SearchSettings, speed: SpeedSettings, model: TextModel, decoders: Sequence[str],
               sources: Sequence[str], peers: Mapping[str, PeerSettings] = MappingProxyType({}),
               folder: Path = Path(), numbering: Numbering | None = None) -> list[dict[str, Any]]:
    """Time several decoders, and the model's own library, interleaved sentence by sentence.

    Args:
        settings: with the decoders and the length limit.
        speed: how to time; its numbers of sentences, evenly spread over their lengths, are timed.
        model: of a folder or of any library.
        decoders: entries of `decoders`, at least one; the others are compared with the first.
        sources: lines; those without words are left out.
        peers: of the library `hf`, by name; for a checkpoint of transformers.
        folder, numbering: of the checkpoint, for the peers.

    Returns:
        For each decoder and peer {"name", "ms_per_sentence", "calls", "tokens_per_second",
        "tokens_per_second_batch32", "speedup": [ratio, low, high] against the first decoder}.

    Raises:
        PipelineError: an unknown decoder, or no sentence with words.
    """
    device = clock_device(speed)
    network = model.network.to(device)
    limit = settings.length_limit(model.longest)
    contestants = [
        Contestant("", name, partial(make_decoder(name, settings.decoder(name, joint=model.text.joint), limit),
                                     network))
        for name in decoders]
    encoded = [ids for ids in model.encode(sources) if ids]
    if not encoded:
        raise PipelineError("speed: no line of the input has a word in it, so there is nothing to time")
    lengths = np.array([len(ids) for ids in encoded], np.int32)
    samples = {size: [pad_sources([encoded[row]], model.longest).to(device)
                      for row in spread(lengths, np.arange(len(encoded)), count)]
               for size, count in ((1, speed.sentences), (BATCH, speed.batched_sentences))}
    with timed_peers(peers, lambda peer: folder, limit, samples, speed.warmup, device, numbering) as others:
        timings = measure([*contestants, *others], samples, repetitions=speed.repetitions,
                          warmup=speed.warmup, device=device)
    seconds = timings[1].medians
    return [{"name": name, **costs_of(timings, at), "speedup": list(speed_ratio(seconds[0], seconds[at]))}
            for at, (_, name) in enumerate(timings[1].names)]
