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
    """The prefix and k masks see each other in both directions, so nothing can be kept.

    A mask predicts the token in its own place.
    """

    prefix = "bidirectional"

    def hidden_behind(self, source: Tensor, target: Tensor, prefixes: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Hidden states of the masks behind one prefix of every target.

        Args:
            source, target: see `DrafterTransformer.hidden_behind`.
            prefixes: (B,) words of the prefixes.
            revealed: (B, k) booleans, masks in whose place the true token stands; None: nowhere.

        Returns:
            (B, k, D): state j predicts word p + j of a target whose prefix has p words.
        """
        longest = int(prefixes.max())
        columns = torch.arange(longest + self.block, device=target.device)
        blocks = prefixes.unsqueeze(1) + torch.arange(self.block, device=target.device)
        known = F.pad(target, (0, max(0, longest + self.block - target.shape[1])), value=PAD)[:, :len(columns)]
        hidden = (columns >= prefixes.unsqueeze(1)) & (columns < prefixes.unsqueeze(1) + self.block)
        if revealed is not None:
            hidden = hidden.scatter(1, blocks, ~revealed)
        tokens = known.masked_fill(columns >= prefixes.unsqueeze(1) + self.block, PAD).masked_fill(hidden, MASK)
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
        columns = torch.arange(longest + block, device=tokens.device)
        known = F.pad(tokens[:, 1:], (0, max(0, len(columns) - tokens.shape[1] + 1)))[:, :len(columns)]
        inputs = known.masked_fill(columns >= words, MASK).masked_fill(columns >= words + block, PAD)
        state.rewind(0)
        state.reserve(len(columns))
        x = self._embed(self.target_embedding, inputs, self._position_tables().target[:len(columns)])
        x = self._decode(x, state, _present(inputs))
        rows = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
        wanted = words + torch.arange(block, device=tokens.device)
        return self.decoder_norm(x[rows, wanted])

    def plain_weights(self) -> PlainWeights:
        """See `Transformer.plain_weights`."""
        return super().plain_weights()._replace(keeps=False)

    def run_ahead(self, tokens: Tensor, lengths: Tensor | int, count: int, state: State) -> Tensor:
        """Not possible."""
        raise PipelineError("this drafter reads its prefix in both directions and keeps nothing, so it cannot say "
                            "tokens in turn; choose a family with drafting.prefix causal")


def _present(tokens: Tensor) -> Tensor:
    """(B, 1, 1, T), true where there is no padding."""
    return (tokens != PAD)[:, None, None, :]
