"""A training whose weights and optimiser are divided among its devices: `--trainer.strategy sharded`."""

from typing import Any

from pytorch_lightning.strategies import ModelParallelStrategy, StrategyRegistry

NAME = "sharded"


class ShardedStrategy(ModelParallelStrategy):
    """Lightning's strategy for FSDP2, over all devices of all nodes, whose checkpoints are those of one device."""

    def __init__(self, **options: Any) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False, **options)

    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()


PATH = f"{ShardedStrategy.__module__}.{ShardedStrategy.__qualname__}"
"""What options may call it instead of `NAME`."""
StrategyRegistry.register(NAME, ShardedStrategy, description="FSDP2 over all devices")
