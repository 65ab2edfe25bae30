"""Lightning changes settings of the whole process; tests put them back."""

import warnings
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def settings_of_torch() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled, threads = torch.utils.deterministic.fill_uninitialized_memory, torch.get_num_threads()
    with warnings.catch_warnings():
        yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    torch.utils.deterministic.fill_uninitialized_memory = filled
    torch.set_num_threads(threads)
