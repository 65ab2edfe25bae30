"""The transformers library computes from an export what our network does, and cuts text as our tokenizer does."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exports import EVERY_NETWORK, LONGEST, enliven, name_of, sources
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.settings import BpeSettings
from pipeline.decoding import greedy
from pipeline.decoding.limits import LengthLimit
from pipeline.errors import PipelineError
from pipeline.interop import export_huggingface
from pipeline.lines import normalise
from pipeline.model.transformer import Transformer
from pipeline.train_bpe import train_bpe
from pipeline.vocabulary import BOS, EOS, PAD, SPECIALS, UNK

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

Tiny = Callable[..., Transformer]
EXACT = [network for network in EVERY_NETWORK if (network["norm"], network["positions"]) != ("post", "learned")]
SENTENCES = ["The tiny otter paints the ladder no 1 .", "", "raven", "otterotter hides abovethe {name} !?",
             "Zürich 🦦🏮 ≠ the moth", "</s> <pad> the <mask> and <s> <unk>", "▁ _ the▁otter", "no 17 no 17 no 17"]
"""With unknown letters, and with what looks like special symbols."""


def load_model(folder: Path) -> Any:
    """In float64, where a difference is one of architecture and not of rounding."""
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).double().eval()


def largest_difference(theirs: Any, ours: Transformer) -> float:
    """Of the logits of targets as long as the network takes, forced word by word."""
    source = sources(ours.source_embedding.num_embeddings)
    target = torch.randint(ours.target_embedding.num_embeddings, (len(source), LONGEST),
                           generator=torch.Generator().manual_seed(5))
    inputs = torch.nn.functional.pad(target[:, :-1], (1, 0), value=BOS)
    with torch.no_grad():
        logits = theirs(input_ids=source, attention_mask=source != PAD, decoder_input_ids=inputs).logits
        return float((logits - ours(source, target)).abs().max())


def greedy_words(theirs: Any, source: torch.Tensor) -> list[list[int]]:
    """What `generate` predicts with the export's own settings, up to the end symbol."""
    rows = theirs.generate(input_ids=source, attention_mask=source != PAD)[:, 1:].tolist()
    return [row[:row.index(EOS)] if EOS in row else row for row in rows]


@pytest.mark.parametrize("network", EXACT, ids=name_of)
def test_equal_logits(network: dict[str, Any], tiny: Tiny, tmp_path: Path) -> None:
    ours = enliven(tiny(dtype=torch.float32, **network))
    export_huggingface.save_model(ours, tmp_path)
    theirs, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert largest_difference(theirs.double().eval(), ours.double()) < 1e-9
    assert not any(loading.values()), loading  # nothing is missing, nothing left over


def test_equal_greedy_words(tiny: Tiny, tmp_path: Path) -> None:
    source, limit, outputs = sources(20), LengthLimit(ratio=0, extra=LONGEST, longest=LONGEST - 1), set()
    for network in EXACT[::3]:
        (folder := tmp_path / name_of(network)).mkdir()
        ours = enliven(tiny(dtype=torch.float32, **network))
        export_huggingface.save_model(ours, folder)
        found = greedy.search(ours.double(), source, limit)
        words = [row[:length] for row, length in zip(found.tokens[:, 0].tolist(), found.lengths[:, 0], strict=True)]
        assert greedy_words(load_model(folder), source) == words, network
        outputs |= set(map(tuple, words))
    assert len(outputs) > 15


@pytest.mark.parametrize("network", [EXACT[0], EXACT[-1]], ids=name_of)
def test_an_export_survives_being_saved_again(network: dict[str, Any], tiny: Tiny, tmp_path: Path) -> None:
    ours = enliven(tiny(dtype=torch.float32, **network))
    export_huggingface.save_model(ours, tmp_path)
    transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).save_pretrained(tmp_path / "again")
    # Marian computes its sinusoids anew, which we do in float32.
    assert largest_difference(load_model(tmp_path / "again"), ours.double()) < 1e-4


def test_vocabularies_of_two_sizes(tiny: Tiny, tmp_path: Path) -> None:
    sizes = {"vocabulary": 20, "target_vocabulary": 31, "tied_embeddings": "target", "dtype": torch.float32}
    ours = enliven(tiny(norm="post", **sizes))
    export_huggingface.save_model(ours, tmp_path)
    assert largest_difference(load_model(tmp_path), ours.double()) < 1e-9
    with pytest.raises(PipelineError, match="pre-norm with 20 source and 31 target pieces is not an architecture"):
        export_huggingface.save_model(tiny(norm="pre", **sizes), tmp_path)


def test_what_no_architecture_is_exactly_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="post-norm with learned positions is not an architecture of transformers"):
        export_huggingface.save_model(tiny(norm="post", positions="learned"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_generation_is_greedy_with_our_ids(tiny: Tiny, tmp_path: Path) -> None:
    export_huggingface.save_model(tiny(dtype=torch.float32), tmp_path)
    settings = load_model(tmp_path).generation_config
    assert (settings.decoder_start_token_id, settings.eos_token_id, settings.pad_token_id) == (BOS, EOS, PAD)
    assert (settings.num_beams, settings.do_sample, settings.forced_eos_token_id) == (1, False, None)


# The tokenizer.

@pytest.fixture(scope="session", params=["joint", "separate"])
def vocabulary(request: pytest.FixtureRequest, toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the `bpe` stage, with one SentencePiece model for both sides or with one a side."""
    folder = tmp_path_factory.mktemp(request.param)
    train_bpe(BpeSettings(vocabulary=100, joint=request.param == "joint", max_length=60), toy_folder / layout.CORPUS,
              folder / "bpe", folder / "bpe.json")
    return folder / "bpe"


@pytest.fixture
def tokenizer(vocabulary: Path) -> Tokenizer:
    return Tokenizer.load(vocabulary)


@pytest.fixture
def theirs(tokenizer: Tokenizer, vocabulary: Path, tiny: Tiny, tmp_path: Path) -> Any:
    export_huggingface.save_model(tiny(dtype=torch.float32), tmp_path)  # whose config.json AutoTokenizer looks at
    export_huggingface.save_tokenizer(tokenizer, vocabulary, LONGEST, tmp_path)
    with warnings.catch_warnings(action="ignore"):  # sacremoses is recommended, and not used
        return transformers.AutoTokenizer.from_pretrained(tmp_path)


def test_equal_ids(theirs: Any, tokenizer: Tokenizer) -> None:
    sentences = [normalise(sentence) for sentence in SENTENCES]
    assert theirs(sentences).input_ids == [[*ids, EOS] for ids in tokenizer.encode_source(sentences)]
    assert theirs(text_target=sentences).input_ids == [[*ids, EOS] for ids in tokenizer.encode_target(sentences)]


def test_equal_ids_of_any_text(theirs: Any, tokenizer: Tokenizer) -> None:
    @given(st.text(st.sampled_from("otermsh THRno17.<>/{}▁sü🦦\n\t\u2028\u0308é"), max_size=30) | st.text(max_size=20))
    def check(text: str) -> None:
        sentence = normalise(text)
        assume(not (sentence.startswith(">>") and "<<" in sentence))
        assert theirs(sentence).input_ids == [*tokenizer.encode_source([sentence])[0], EOS]
        assert theirs(text_target=sentence).input_ids == [*tokenizer.encode_target([sentence])[0], EOS]
    check()


def test_equal_text(theirs: Any, tokenizer: Tokenizer) -> None:
    targets = [normalise(f"Da lumo {sentence} daglu nu 4 .") for sentence in SENTENCES]
    for ids in tokenizer.encode_target(targets):
        known = [token for token in ids if token != UNK]
        text = tokenizer.decode_target(known)
        assert theirs.decode([BOS, *known, EOS, PAD], skip_special_tokens=True) == text and text


def test_special_ids_and_the_longest_source(theirs: Any) -> None:
    assert theirs.convert_tokens_to_ids(list(SPECIALS)) == list(range(len(SPECIALS)))
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.bos_token_id, theirs.eos_token_id) == (PAD, UNK, BOS, EOS)
    cut = theirs("otter " * 100, truncation=True).input_ids
    assert len(cut) == LONGEST and cut[-1] == EOS


def test_no_file_holds_code_or_a_path(theirs: Any, tmp_path: Path) -> None:
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors", ".spm"}
    for path in tmp_path.glob("*.json"):
        content = json.loads(path.read_text())
        assert "auto_map" not in content and str(tmp_path) not in path.read_text()
