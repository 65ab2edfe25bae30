"""Byte-pair encoding by SentencePiece, with the special ids of `pipeline/vocabulary.py`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from pipeline.checksums import check
from pipeline.corpus.pairs import Ids
from pipeline.errors import PipelineError
from pipeline.files import read_json, reading
from pipeline.fingerprint import digest
from pipeline.vocabulary import SPECIALS, UNK

JOINT_MODELS = ("joint.model",)
SEPARATE_MODELS = ("source.model", "target.model")


class Tokenizer:
    """Text to ids and back, for both sides. Ids never contain padding, begin or end of sentence."""

    leading: tuple[int, ...] = ()
    """The ids before the words of every translation."""

    def __init__(self, models: Sequence[bytes], names: Sequence[str]) -> None:
        """Take one serialised SentencePiece model for both sides, or one per side; `names` are for errors."""
        self.joint = len(models) == 1
        self.digest = digest(*models)
        processors = [_load_model(model, name) for model, name in zip(models, names, strict=True)]
        self._source, self._target = processors[0], processors[-1]
        self.source_size: int = self._source.get_piece_size()
        self.target_size: int = self._target.get_piece_size()

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Load the tokenizer that `train_bpe` wrote into a folder.

        Raises:
            PipelineError: a file is absent or damaged, or the models are not those of `meta.json`.
        """
        check(folder / "meta.json")
        meta = read_json(folder / "meta.json")
        if not isinstance(meta, dict) or not {"joint", "digest"} <= meta.keys():
            raise PipelineError(f"{folder / 'meta.json'}: does not describe a vocabulary; run `dvc checkout` or "
                                "`dvc repro`")
        paths = [folder / name for name in (JOINT_MODELS if meta["joint"] else SEPARATE_MODELS)]
        models = []
        for path in paths:
            with reading(path):
                models.append(path.read_bytes())
        tokenizer = cls(models, [str(path) for path in paths])
        if tokenizer.digest != meta["digest"]:
            raise PipelineError(f"{paths[0]}: not the vocabulary that {folder / 'meta.json'} describes; run "
                                "`dvc checkout` or `dvc repro`")
        return tokenizer

    @property
    def source_pieces(self) -> list[str]:
        """The source pieces by id."""
        return _pieces(self._source)

    @property
    def target_pieces(self) -> list[str]:
        """The target pieces by id."""
        return _pieces(self._target)

    def encode_source(self, sentences: list[str]) -> list[list[int]]:
        """Encode normalised source sentences."""
        return self._source.encode(sentences)

    def encode_target(self, sentences: list[str]) -> list[list[int]]:
        """Encode normalised target sentences."""
        return self._target.encode(sentences)

    def resampled(self, pairs: Sequence[tuple[Ids, Ids]], dropout: float,
                  seeds: Sequence[int]) -> list[tuple[Ids, Ids]]:
        """Encode pairs of ids anew with BPE-dropout: each merge is left out with a probability.

        The result depends only on the ids and the seed of each pair. A side with unknown pieces, whose text is lost,
        keeps its ids.
        """
        found = []
        for (source, target), seed in zip(pairs, seeds, strict=True):
            sentencepiece.set_random_generator_seed(seed)
            found.append((_resampled(self._source, source, dropout), _resampled(self._target, target, dropout)))
        return found

    def decode_target(self, ids: Iterable[int]) -> str:
        """Return the text of one target; special ids other than unk are left out.

        Raises:
            PipelineError: an id is outside the vocabulary.
        """
        return self.decode_targets([ids])[0]

    def decode_targets(self, rows: Iterable[Iterable[int]]) -> list[str]:
        """Return the text of several targets, like `decode_target`."""
        targets = [list(map(int, row)) for row in rows]
        for row in targets:
            if row and not 0 <= min(row) <= max(row) < self.target_size:
                raise PipelineError(f"target ids {min(row)}..{max(row)} lie outside the vocabulary of "
                                    f"{self.target_size}; use the vocabulary that the model was trained with")
        return [self._target.decode(row) for row in targets]


def _pieces(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    return [processor.id_to_piece(token) for token in range(len(processor))]


def _resampled(processor: sentencepiece.SentencePieceProcessor, ids: Ids, dropout: float) -> Ids:
    pieces = list(map(int, ids))
    if UNK in pieces:
        return ids
    sampled: list[int] = processor.encode(processor.decode(pieces), enable_sampling=True, alpha=dropout, nbest_size=-1)
    return sampled


def _load_model(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
        pieces = tuple(processor.id_to_piece(token) for token in range(min(len(SPECIALS), len(processor))))
    except (RuntimeError, ValueError):  # ValueError: a piece is not UTF-8
        raise PipelineError(f"{name}: damaged or not a SentencePiece model; run `dvc repro` to produce it "
                            "again") from None
    if pieces != SPECIALS:
        raise PipelineError(f"{name}: its first pieces are {' '.join(pieces)}, not "
                            f"{' '.join(SPECIALS)}; use a vocabulary trained by this pipeline")
    return processor
