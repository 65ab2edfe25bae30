"""The tokenizer of a checkpoint of the transformers library."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pipeline.vocabulary import BOS, EOS, PAD


class HuggingFaceText:
    """Text to ids and back; ids have no padding, start or end symbols, and are numbered as in `interop.network`."""

    def __init__(self, tokenizer: Any, target_ids: Sequence[int], ours: Sequence[int], prefix: str,
                 languages: Collection[int], joint: bool, first: int | None = None) -> None:
        """Args:
            tokenizer: the library's; its sources end with the end symbol.
            target_ids: the checkpoint's target id per id of ours.
            ours: our id per source id of the checkpoint.
            prefix: of every source.
            languages: the checkpoint's target ids of languages.
            joint: whether source and target have one vocabulary.
            first: the checkpoint's target id that every translation begins with, such as its language; None: any.
        """
        self.joint = joint
        self._tokenizer, self._target_ids, self._ours = tokenizer, target_ids, ours
        self._prefix, self._languages = prefix, frozenset(languages)
        self._our_targets = {token: ours for ours, token in enumerate(target_ids) if ours != BOS}
        self.leading: tuple[int, ...] = () if first is None else (self._our_targets[first],)

    @property
    def target_pieces(self) -> list[str]:
        """The target pieces by id; those unknown to the tokenizer are empty."""
        return [piece or "" for piece in self._tokenizer.convert_ids_to_tokens(list(self._target_ids))]

    def encode_source(self, sentences: list[str]) -> list[list[int]]:
        """Encode source sentences, with the language symbols of the checkpoint; an empty one has no ids."""
        encoded = []
        for sentence in sentences:
            tokens = self._tokenizer(self._prefix + sentence, verbose=False)["input_ids"][:-1] if sentence else []
            ids = [self._ours[token] for token in tokens]
            # The tokenizers read a </s> or <pad> in the text as the symbol.
            encoded.append([token for token in ids if token not in (PAD, EOS)])
        return encoded

    def encode_target(self, sentences: list[str]) -> list[list[int]]:
        """Encode target sentences, or parts of them, without the symbols of the checkpoint."""
        encoded = [self._tokenizer(text_target=sentence, add_special_tokens=False, verbose=False)["input_ids"]
                   for sentence in sentences]
        return [[ours for ours in map(self._our_targets.__getitem__, tokens) if ours not in (PAD, EOS)]
                for tokens in encoded]

    def decode_target(self, ids: Iterable[int]) -> str:
        """Return the text of one target, without special symbols."""
        tokens = [self._target_ids[token] for token in ids]
        # In some tokenizers languages are not special symbols.
        words = [token for token in tokens if token not in self._languages]
        return " ".join(self._tokenizer.decode(words, skip_special_tokens=True).split())

    def decode_targets(self, rows: Iterable[Iterable[int]]) -> list[str]:
        """Return the text of several targets, like `decode_target`."""
        return [self.decode_target(row) for row in rows]
