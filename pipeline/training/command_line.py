"""Lightning's command line for the families of params.yaml."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import pytorch_lightning as lightning
from jsonargparse import ArgumentError
from pytorch_lightning.callbacks import Checkpoint, ModelSummary, ProgressBar
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import PairsDataModule
from pipeline.errors import PipelineError
from pipeline.families.base import TranslationModule, family_module
from pipeline.families.settings import plain
from pipeline.files import locked, write_text
from pipeline.fingerprint import code_digest, digest, digest_files
from pipeline.model.settings import VocabularySettings
from pipeline.params import Params
from pipeline.training import places, saved
from pipeline.training.callbacks import ValidationBleu
from pipeline.training.quiet import quiet_lightning
from pipeline.training.resume import read_state
from pipeline.training.together import EndWhenTold, Together, ended_in_one_line, limit_patience

_LIBRARIES = ("pytorch_lightning", "lightning_fabric", "jsonargparse")
_OUTSIDE_TRAINING = ("use_distributed_sampler",)
"""The options of a training that also apply where nothing is trained. Not its precision: however a model was trained,
its translations are those of `translate` and of the clock."""
CONFIGURATION = "config.yaml"
"""What Lightning's command line calls the file of a run's resolved configuration."""


class OneLineParser(LightningArgumentParser):
    """Lightning's parser; a mistake is a PipelineError."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise PipelineError(f"options of Lightning: {' '.join(message.split())} (--help-lightning lists the options)")


class FamilyCLI(LightningCLI):
    """LightningCLI of one verb and one family, whose block of params.yaml gives the defaults.

    A subclass has a method with the verb's name, which runs when an object is made, as in LightningCLI.
    """

    verb: str
    datamodule: PairsDataModule

    def __init__(self, params: Params, family: str, options: list[str], *, in_place: bool = False,
                 module: type[lightning.LightningModule] | None = None, **configuration: Any) -> None:
        """Args:
            params: of the run.
            family: a block of `families`.
            options: of Lightning's command line; they take precedence.
            in_place: also write the pipeline's artifacts if there are options.
            module: class of the module; None: the family's.
            configuration: further content of a YAML file for Lightning's --config, over that of `family_config`.

        Raises:
            PipelineError: an option is unknown or cannot be honoured, or files are missing or damaged.
        """
        self.params, self.family = params, family
        self._options, self._in_place, self._of_family = options, in_place, module is None
        self._configuration = {"family": family, **family_config(params, family), **configuration}
        if self.verb != "fit":
            trainer = self._configuration["trainer"]
            self._configuration["trainer"] = {name: trainer[name] for name in _OUTSIDE_TRAINING}
        quiet_lightning()
        with one_line(), ended_in_one_line():
            super().__init__(module or family_module(params.family(family).kind), PairsDataModule, args=options,
                             save_config_callback=None, parser_class=OneLineParser,
                             parser_kwargs={"prog": "python -m pipeline"})

    @property
    def settings(self) -> Any:
        """The resolved configuration."""
        return self.config[self.verb]

    def own_callbacks(self, given: list[lightning.Callback]) -> list[lightning.Callback]:
        """The verb's callbacks, in addition to those that options have given."""
        return []

    def own_loggers(self) -> list[Logger]:
        """The verb's loggers, in addition to those that options have given."""
        return []

    def validation_bleu(self) -> ValidationBleu:
        """The callback that scores the family's translations of the validation split."""
        limit = self.params.length_limit(self.params.family(self.family).network.max_length)
        return ValidationBleu(self.datamodule.tokenizer, layout.read_corpus(layout.CORPUS / "validation.target"), limit,
                              self.params.evaluation.bleu_tokenizer)

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]  # only this verb's parser is made
        return {self.verb: LightningCLI.subcommands()[self.verb]}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--family", help="a block of `families` in params.yaml")
        if self._of_family:
            parser.link_arguments("data.tokenizer", "model.vocabulary", lambda tokenizer: VocabularySettings(
                tokenizer.source_size, tokenizer.target_size, tokenizer.digest), apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        defaults = parser.parse_object({"subcommand": self.verb, self.verb: self._configuration})
        self.config = parser.parse_args([self.verb, *self._options], namespace=defaults)
        if self.settings.family != self.family:
            raise PipelineError(f"--config: configures the family {self.settings.family!r}, but --family names "
                                f"{self.family!r}; leave --family out")
        trainer = self.settings.trainer
        if self.verb == "fit" and trainer.val_check_interval is None:
            # In batches, of which options may let a step have more or fewer than the block does.
            every = self.params.family(self.family).training.validate_every
            trainer.val_check_interval = every * trainer.accumulate_grad_batches
        chosen, word = trainer.default_root_dir, self.settings.ckpt_path
        if word == "last" and self.verb == "fit":
            self.settings.ckpt_path = None  # it continues the run that the same command began without it
        resolved = self.parser.dump(self.config, skip_none=False)
        # The same command finds its unfinished run again.
        self.root = layout.RUNS / self.family / digest(resolved.encode())[:8] if chosen is None else Path(chosen)
        own = bool(self._options) and not self._in_place
        self.places = places.within(self.root) if own else places.of_pipeline(self.family)
        if word in saved.WORDS:
            found = self.named(word)
            self.settings.ckpt_path = None if found is None else str(found)
            rank_zero_only(print)(f"--ckpt_path {word}: {found or 'no checkpoint of ModelCheckpoint yet'}")

    def named(self, word: str) -> Path | None:
        """The checkpoint that `last` or `best` names: of the run's folder, or else of all runs of the family.

        Raises:
            PipelineError: there is none.
        """
        chosen = self.settings.trainer.default_root_dir
        folders = [self.root] if chosen is not None else [layout.RUNS / self.family, layout.WORK / self.family]
        found = saved.last(folders) if word == "last" else saved.best(folders)
        if found is None:
            raise PipelineError(f"--ckpt_path {word}: no checkpoint of ModelCheckpoint in "
                                f"{' or '.join(map(str, folders))}; name a file, or train with "
                                "--trainer.callbacks+=ModelCheckpoint --trainer.callbacks.monitor=validation_bleu "
                                "--trainer.callbacks.mode=max")
        return found

    def _parse_ckpt_path(self) -> None:
        """Take the model's settings from the Lightning checkpoint of --ckpt_path, as Lightning does.

        Lightning itself would end with a traceback if the file is missing, damaged, or of another vocabulary.
        """
        path = self.settings.ckpt_path
        if path is None or Path(path).is_dir():
            return
        settings = _hyper_parameters(Path(path), Tokenizer.load(Path(self.settings.data.folder)).digest)
        own = {name: value for name, value in settings.items() if name not in ("_instantiator", "vocabulary")}
        try:
            self.config = self.parser.parse_object({self.verb: {"model": own}}, self.config)
        except PipelineError as error:
            raise PipelineError(f"--ckpt_path: {path} is not of the family {self.family!r}; {error}") from None

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Digests of what must be the same for all processes of the run: parameters, data, code."""
        data = self.settings.data
        files = [Path(data.folder) / f"{split}.pairs" for split in ("validation", "test")]
        return {"parameters": digest(self.parser.dump(self.config, skip_none=False).encode()),
                "data": digest_files(files), "code": code_digest()}

    def instantiate_trainer(self, **options: Any) -> lightning.Trainer:
        chosen = self.config_init[self.verb].trainer
        callbacks, loggers = _listed(chosen.callbacks), _listed(chosen.logger)
        # Of `fit` all processes read what the first one has written; of the other verbs, what was trained.
        shared = self.places.work if self.verb == "fit" else layout.CHECKPOINTS
        self.together = Together(shared, lambda: self.inputs)
        self.trainer_defaults["callbacks"] = [self.together, EndWhenTold(), *self.own_callbacks(callbacks)]
        options["default_root_dir"] = str(self.root)
        if not (len(loggers) == 1 and isinstance(loggers[0], bool)):
            options["logger"] = loggers + self.own_loggers() or False
        given = [*callbacks, *self.trainer_defaults["callbacks"]]
        for option, kind in (("enable_checkpointing", Checkpoint), ("enable_model_summary", ModelSummary),
                             ("enable_progress_bar", ProgressBar)):
            if chosen[option] is None:
                options[option] = any(isinstance(one, kind) for one in given)
        trainer = super().instantiate_trainer(**options)
        if isinstance(chosen.strategy, str):  # else the user has chosen how long processes wait for each other
            limit_patience(trainer)
        return trainer

    def locked(self, path: Path) -> AbstractContextManager[None]:
        """A lock against other runs that write a path; none for --trainer.fast_dev_run, which writes nothing."""
        return nullcontext() if self.settings.trainer.fast_dev_run else locked(path)

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Call a method of the trainer."""
        function(*arguments, **options, weights_only=True)

    def save_configuration(self, folder: Path) -> None:
        """Write the resolved configuration, which --config takes."""
        if self.trainer.is_global_zero:
            write_text(folder / CONFIGURATION, self._parser(self.verb).dump(self.settings, skip_none=False))


def load_module(path: Path, module: type[TranslationModule], digest: str) -> TranslationModule:
    """A family's module from a checkpoint of Lightning's, for the vocabulary of a digest.

    Raises:
        PipelineError: the file is missing, damaged, or of another family or vocabulary.
    """
    _hyper_parameters(path, digest)
    try:
        return module.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    except (ArgumentError, RuntimeError) as error:
        raise PipelineError(f"--ckpt_path: {path} is not of this family: {' '.join(str(error).split())}") from error


def _hyper_parameters(path: Path, vocabulary: str) -> dict[str, Any]:
    """The settings of a module in a checkpoint of Lightning's, after a check that its vocabulary has that digest."""
    if not path.exists():
        raise PipelineError(f"--ckpt_path: {path}: not found; name a file of ModelCheckpoint")
    state = read_state(path)
    settings: dict[str, Any] = {} if state is None else state.get("hyper_parameters", {})
    if "vocabulary" not in settings:
        raise PipelineError(f"--ckpt_path: {path} is damaged, or was not written by `fit`; name a file of "
                            "ModelCheckpoint")
    if settings["vocabulary"]["digest"] != vocabulary:
        raise PipelineError(f"--ckpt_path: {path}: trained with vocabulary {settings['vocabulary']['digest'][:12]}, "
                            f"but {vocabulary[:12]} is in use; restore its data/bpe (`dvc checkout`)")
    return settings


@contextmanager
def one_line() -> Iterator[None]:
    """Report in one line what Lightning itself raises: it is about options. Errors of other code pass."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        raised_in = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
        if raised_in.partition(".")[0] not in _LIBRARIES:
            raise
        raise PipelineError(f"options of Lightning: {' '.join(str(error).split())}") from error


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def family_config(params: Params, family: str) -> dict[str, Any]:
    """The configuration of a family's training for Lightning's command line, without what is known from its data."""
    settings = params.family(family)
    training = settings.training
    return {
        "seed_everything": params.seed,
        "trainer": {
            "max_steps": training.steps, "max_epochs": 1, "accumulate_grad_batches": training.accumulate,
            "gradient_clip_val": training.clip or None, "precision": training.precision,
            # The interval between validations is counted across "epochs": a run is one pass over an endless stream.
            "check_val_every_n_epoch": None,
            "num_sanity_val_steps": 0, "use_distributed_sampler": False, "log_every_n_steps": 50,
            "deterministic": "warn",
        },
        "model": {
            "network": plain(settings.network), **settings.arguments(),
            "optimisation": plain(settings.optimisation), "seed": params.seed,
        },
        "data": {
            "folder": str(layout.BPE), "distilled": str(layout.DISTILLED), **plain(settings.data),
            "evaluation_tokens": params.evaluation.batch_tokens,
            "validation_sentences": training.validation_sentences, "longest": settings.network.max_length,
            "seed": params.seed,
        },
    }
