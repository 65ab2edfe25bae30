"""CTranslate2 predicts from an export what our greedy search predicts, with our log-probabilities."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exports import EVERY_NETWORK, LONGEST, enliven, name_of, sources

from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.interop import export_ctranslate2
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import EOS, PAD, SPECIALS

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("ctranslate2"), reason="ctranslate2 is not installed")

Tiny = Callable[..., Transformer]


def pieces(prefix: str, size: int) -> list[str]:
    return [*SPECIALS, *(f"{prefix}{number}" for number in range(len(SPECIALS), size))]


def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of `ctranslate2_process`."""
    done = subprocess.run([sys.executable, Path(__file__).with_name("ctranslate2_process.py")],
                          input=json.dumps(requests), capture_output=True, text=True, check=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def request(network: Transformer, folder: Path, quantization: str = "float32") -> dict[str, Any]:
    """Export a network, and ask for translations of `sources` and for the scores of random targets."""
    folder.mkdir()
    source_size, target_size = network.source_embedding.num_embeddings, network.target_embedding.num_embeddings
    names = pieces("s", source_size), pieces("t", target_size)
    export_ctranslate2.save_model(network, *names, folder, quantization)
    return {"folder": str(folder), "length": LONGEST,
            "sources": [[names[0][token] for token in row if token not in (PAD, EOS)] for row in
                        sources(source_size).tolist()],
            "targets": [[names[1][token] for token in row] for row in targets(target_size).tolist()]}


def targets(vocabulary: int) -> torch.Tensor:
    """(6, LONGEST - 1) words."""
    return torch.randint(len(SPECIALS), vocabulary, (6, LONGEST - 1), generator=torch.Generator().manual_seed(5))


def check(network: Transformer, answer: dict[str, Any]) -> list[list[str]]:
    """Compare an answer with ours, but for the source without a word, which CTranslate2 does not look at."""
    source, target = (make(embedding.num_embeddings) for make, embedding in
                      ((sources, network.source_embedding), (targets, network.target_embedding)))
    names = pieces("t", network.target_embedding.num_embeddings)
    found = greedy.search(network, source, LengthLimit(ratio=0, extra=LONGEST, longest=LONGEST - 1))
    arranged = torch.nn.functional.pad(target, (0, 1), value=EOS)
    with torch.no_grad():
        forced = network(source, arranged).log_softmax(2).gather(2, arranged.unsqueeze(2)).squeeze(2)
    words = []
    for row in (0, 2, 3, 4, 5):
        length = int(found.lengths[row, 0])
        words.append([names[token] for token in found.tokens[row, 0, :length].tolist()])
        assert answer["words"][row] == words[-1]
        assert answer["scores"][row] == pytest.approx(float(found.scores[row, 0]), abs=1e-4 * (length + 1))
        assert answer["forced"][row] == pytest.approx(forced[row].tolist(), abs=1e-4)
    return words


def test_equal_greedy_words_and_scores_of_every_network(tiny: Tiny, tmp_path: Path) -> None:
    networks = {name_of(one): enliven(tiny(dtype=torch.float32, **one)) for one in EVERY_NETWORK}
    networks["two sizes"] = enliven(tiny(dtype=torch.float32, vocabulary=20, target_vocabulary=31))
    answers = ask([request(network, tmp_path / name) for name, network in networks.items()])
    translated = [check(network, answer) for network, answer in zip(networks.values(), answers, strict=True)]
    assert len({tuple(words) for rows in translated for words in rows}) > 30


def test_int8_is_smaller_and_close(tiny: Tiny, tmp_path: Path) -> None:
    network = enliven(tiny(dtype=torch.float32, width=64, feed_forward=256))
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    requests = [request(network, tmp_path / one, one) for one in ("float32", "int8")]
    exact, rounded = ask(requests)
    assert (tmp_path / "int8/model.bin").stat().st_size < 0.5 * (tmp_path / "float32/model.bin").stat().st_size
    differences = (torch.tensor(exact["forced"]) - torch.tensor(rounded["forced"])).abs()
    assert 0 < differences.mean() < 0.02 * torch.tensor(exact["forced"]).abs().mean()
    assert all(bool((weight == before[name]).all()) for name, weight in network.state_dict().items())
