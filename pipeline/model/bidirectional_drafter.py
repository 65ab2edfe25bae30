"""The drafter as the paper describes it (Ge et al. 2022, section 3.2.1), for comparison."""

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engine.plain import PlainWeights
from pipeline.errors import PipelineError
from pipeline.model.drafter import DrafterTransformer
from pipeline.model.state import State
from pipeline.vocabulary import MASK, PAD


class BidirectionalDrafter(DrafterTransformer):
    """A drafter whose prefix and k masks all see each other, so that no keys and values can be kept.

    A mask predicts the token at its own position.
    """

    prefix = "bidirectional"

    def hidden_after(self, source: Tensor, target: Tensor, prefixes: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Hidden states of the masks after one prefix of every target.

        Args:
            source, target: see `DrafterTransformer.hidden_after`.
            prefixes: (B,) lengths of the prefixes in words.
            revealed: (B, k) booleans, true where the true token replaces a mask; None: nowhere.

        Returns:
            (B, k, D): state j predicts word p + j of a target whose prefix has p words.
        """
        prefixes = prefixes.unsqueeze(1)
        blocks = prefixes + torch.arange(self.block, device=target.device)
        known = F.pad(target, (0, int(prefixes.max()) + self.block - target.shape[1]), value=PAD)
        tokens = _with_masks(known, prefixes, self.block)
        if revealed is not None:
            tokens = tokens.scatter(1, blocks, torch.where(revealed, known.gather(1, blocks), MASK))
        tokens = tokens[:, :self.settings.max_length]
        states = self._decoder_states(tokens, _present(tokens), self._encoder_states(source))
        rows = torch.arange(len(target), device=target.device).unsqueeze(1)
        return states[rows, blocks.clamp(max=tokens.shape[1] - 1)]

    @torch.no_grad()
    def propose(self, tokens: Tensor, lengths: Tensor | int, block: int, state: State) -> Tensor:
        """See `DrafterTransformer.propose`; the state is rewound to its start."""
        lengths = tokens.new_full((len(tokens),), lengths) if isinstance(lengths, int) else lengths
        words = lengths.unsqueeze(1) - 1  # without the start symbol
        longest = int(words.max())
        block = min(block, self.settings.max_length - longest)
        length = longest + block
        inputs = _with_masks(F.pad(tokens[:, 1:], (0, length + 1 - tokens.shape[1]), value=PAD), words, block)
        state.rewind(0)
        state.reserve(length)
        x = self._embed(self.target_embedding, inputs, self._position_tables().target[:length])
        x = self._decode(x, state, _present(inputs))
        rows = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
        return self.decoder_norm(x[rows, words + torch.arange(block, device=tokens.device)])

    def plain_weights(self) -> PlainWeights:
        """See `Transformer.plain_weights`."""
        return super().plain_weights()._replace(keeps=False)

    def continue_greedily(self, tokens: Tensor, lengths: Tensor | int, count: int, state: State) -> Tensor:
        """Not possible."""
        raise PipelineError("this drafter reads its prefix in both directions and keeps nothing, so it cannot predict "
                            "tokens one by one; choose a family with drafting.prefix causal")


def _with_masks(words: Tensor, prefixes: Tensor, block: int) -> Tensor:
    """Of words (B, T) the first of each row, as many as `prefixes` (B, 1), then a block of masks, then PAD."""
    columns = torch.arange(words.shape[1], device=words.device)
    return words.masked_fill(columns >= prefixes, MASK).masked_fill(columns >= prefixes + block, PAD)


def _present(tokens: Tensor) -> Tensor:
    """(B, 1, 1, T), true where there is no padding."""
    return (tokens != PAD)[:, None, None, :]
