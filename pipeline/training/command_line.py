"""The Lightning CLI of what params.yaml configures."""

from typing import Any

import pytorch_lightning as lightning
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI

from pipeline.corpus.datamodule import PairsDataModule


class ConfiguredCLI(LightningCLI):
    """Takes a module, its data and its trainer from a configuration, over which options of the command line win."""

    def __init__(self, module: type[lightning.LightningModule], configuration: dict[str, Any], options: list[str],
                 callbacks: list[lightning.Callback] | None = None) -> None:
        """Args:
            module: of which one is made.
            configuration: what a YAML file for Lightning's --config would hold: seed_everything, trainer, model, data.
            options: of the command line.
            callbacks: of the trainer, before those that options name.
        """
        self._configuration, self._options = configuration, options
        super().__init__(module, PairsDataModule, run=False, save_config_callback=None, args=options,
                         trainer_defaults={"callbacks": callbacks or []})

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        self.config = parser.parse_args(self._options, namespace=parser.parse_object(self._configuration))
