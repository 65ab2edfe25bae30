"""A state that keeps rows by index: the bits of one that copies them, whatever a search does."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.choice import use_engine
from pipeline.engine.indexed import Indexed
from pipeline.engine.network import Compiled
from pipeline.model.transformer import Transformer
from pipeline.vocabulary import PAD

SOURCE = torch.tensor([[8, 9, 10, 11, 3], [12, 7, 3, PAD, PAD], [13, 3, PAD, PAD, PAD]])


@pytest.mark.usefixtures("uninitialised_is_nan")
@settings(max_examples=100)
@given(st.data())
def test_a_step_has_the_bits_of_one_after_copied_rows(tiny: Callable[..., Transformer], data: st.DataObject) -> None:
    """Beams are chosen, sentences end, and tokens are taken back, before steps by either engine."""
    network, beams = tiny(data.draw(st.sampled_from(["left_to_right", "interleaved"]))), data.draw(st.integers(1, 3))
    z, choose = network.order.width, np.random.default_rng(data.draw(st.integers(0, 99)))
    with use_engine("compiled"), torch.inference_mode():
        memory, room = network.encode(SOURCE), data.draw(st.sampled_from([2, 40]))
        by_index, copied = network.start(memory, beams, room), super(Compiled, network).start(memory, beams, room)
        assert isinstance(by_index, Indexed) and not isinstance(copied, Indexed)
        actions = st.sampled_from(["choose", "each", "end", "back", "torch"])
        for action in data.draw(st.lists(actions, min_size=6, max_size=12)):
            rows, length = copied.rows, copied.length
            if action == "choose" or (action == "end" and rows > beams):
                sentences = np.sort(choose.permutation(rows // beams)[action == "end":])
                chosen = sentences.repeat(beams) * beams + choose.integers(0, beams, len(sentences) * beams)
                for state in (by_index, copied):
                    state.select(torch.from_numpy(chosen))
            elif action in ("back", "each"):
                kept = choose.integers(0, length // z + 1, rows) * z
                if copied.lengths is not None:
                    kept = np.minimum(kept, copied.lengths)
                for state in (by_index, copied):
                    state.rewind(int(kept.min()) if action == "back" else kept)
            tokens = torch.from_numpy(choose.integers(7, 20, (copied.rows, z)))
            with use_engine("torch" if action == "torch" else "compiled"):
                assert torch.equal(network.step(tokens, by_index), network.step(tokens, copied)), action
            assert (by_index.rows, by_index.length) == (copied.rows, copied.length)
