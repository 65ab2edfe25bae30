"""The tokenizer of a checkpoint of the transformers library, as text to ids and back."""

from collections.abc import Iterable, Sequence
from typing import Any


class HuggingFaceText:
    """Text to ids and back; ids contain no padding, start or end symbols, and are numbered as in `interop.network`."""

    def __init__(self, tokenizer: Any, target_ids: Sequence[int], ours: Sequence[int], prefix: str,
                 joint: bool) -> None:
        """Args:
            tokenizer: whose sources end with the end symbol.
            target_ids: the checkpoint's target id of each of ours.
            ours: our id of each of its source ids.
            prefix: in front of every source.
            joint: whether source and target have one vocabulary.
        """
        self.joint = joint
        self._tokenizer, self._target_ids, self._ours, self._prefix = tokenizer, target_ids, ours, prefix

    @property
    def target_pieces(self) -> list[str]:
        """The target pieces by id; those that the tokenizer does not know are empty."""
        return [piece or "" for piece in self._tokenizer.convert_ids_to_tokens(list(self._target_ids))]

    def encode_source(self, sentences: list[str]) -> list[list[int]]:
        """Encode source sentences, with the language symbols that the checkpoint wants; nothing for an empty one."""
        # A sentence may hold </s> and the like: it is text there.
        return [[self._ours[token] for token in self._tokenizer(
            self._prefix + sentence, split_special_tokens=True, verbose=False)["input_ids"][:-1]] if sentence else []
            for sentence in sentences]

    def decode_target(self, ids: Iterable[int]) -> str:
        """Return the text of one target; special symbols vanish."""
        tokens = [self._target_ids[token] for token in ids]
        return " ".join(self._tokenizer.decode(tokens, skip_special_tokens=True).split())

    def decode_targets(self, rows: Iterable[Iterable[int]]) -> list[str]:
        """Return the text of several targets, like `decode_target`."""
        return [self.decode_target(row) for row in rows]
