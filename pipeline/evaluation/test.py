"""`test` of Lightning's command line for one family: the test split under every decoder, on any number of devices.

Lightning repeats sentences to give all devices equal shares, which would change a corpus metric. Here each device keeps
its hypotheses with the sentences' indices, all are gathered, each device scores its share of the decoders, and the
first one checks that every index occurs once. The batches do not depend on the devices, so the figures are the same for
any number of them.
"""

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytorch_lightning as lightning
import torch

from pipeline import layout
from pipeline.checksums import record
from pipeline.corpus.batches import EvaluationBatches
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch, PairsDataModule
from pipeline.corpus.padding import count_cut, report_cut
from pipeline.corpus.pairs import Pairs
from pipeline.decoding import greedy
from pipeline.decoding.hypotheses import Hypotheses
from pipeline.decoding.settings import make_decoder
from pipeline.engine.door import open_engine
from pipeline.errors import PipelineError
from pipeline.evaluation.exactness import count_ties
from pipeline.evaluation.processes import run_together, useful_processes
from pipeline.evaluation.quality import HypothesisLine, figures_of, write_hypotheses
from pipeline.families.base import family_module
from pipeline.files import read_json, remove, write_json
from pipeline.model.checkpoint import column_major, load_checkpoint
from pipeline.model.formats import in_format
from pipeline.params import Params, load_params
from pipeline.training import places
from pipeline.training.command_line import FamilyCLI, load_module

Part = TypeVar("Part")


class Drafts(NamedTuple):
    """The costs and the effect of drafting in a batch."""

    calls: int
    """Calls of the drafter, summed over the sentences."""
    ties: int | None
    """Sentences that differ from greedy search by a numerical tie; None where the decoder may give another output."""


class TestModule(lightning.LightningModule):
    """A trained family under one or several decoders."""

    def __init__(self, family: str, decoders: tuple[str, ...], checkpoint: str | None = None) -> None:
        """Args:
            family: a block of `families` in params.yaml, trained.
            decoders: entries of `decoders`.
            checkpoint: a folder of weights or a checkpoint of Lightning's; None: the family's folder.
        """
        super().__init__()
        params = load_params()
        self.family = family
        self.tokenizer = Tokenizer.load(layout.BPE)
        path = Path(checkpoint) if checkpoint is not None else layout.checkpoint(family)
        if path.is_file():
            module = load_module(path, family_module(params.family(family).kind), self.tokenizer.digest)
            self.network, self.data = column_major(module.network.eval()), params.family(family).data.side
        else:
            self.network, config = load_checkpoint(path, self.tokenizer.digest, params.family(family).order)
            self.data = config["training"]["data"]
        self.limit = params.length_limit(self.network.settings.max_length)
        self.decoders = {name: make_decoder(name, params.decoder(name), self.limit) for name in decoders}
        self.quantization = {name: params.quantization_of(name) for name in decoders}
        self.settings = params.evaluation
        self.lines: dict[str, list[HypothesisLine]] = {name: [] for name in decoders}
        self.drafts: dict[str, list[Drafts]] = {name: [] for name in decoders}
        self.quality: dict[str, dict[str, Any]] = {}

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        if not len(batch.rows):
            return
        expected: dict[str, Hypotheses] = {}  # by quantization
        for name, decode in self.decoders.items():
            found = decode(self.network, batch.source)
            if found.verification is not None:
                ties = None
                if found.verification.exact:
                    quantization = self.quantization[name]
                    network = in_format(self.network, quantization)
                    verifier = getattr(network, "verifier", network)
                    if quantization not in expected:
                        expected[quantization] = greedy.search(open_engine(verifier), batch.source, self.limit)
                    ties = count_ties(verifier, batch.source, expected[quantization], found, f"{self.family} {name}")
                self.drafts[name].append(Drafts(int(found.verification.drafter_calls.sum()), ties))
            columns = (batch.rows.tolist(), self.tokenizer.decode_targets(found.best_words()),
                       found.lengths[:, 0].tolist(), found.calls.tolist(), found.ended[:, 0].tolist())
            self.lines[name] += [HypothesisLine(*line) for line in zip(*columns, strict=True)]

    def on_test_epoch_end(self) -> None:
        parts = self._gather((self.lines, self.drafts))
        self.lines = {name: sorted((line for lines, _ in parts for line in lines[name]), key=lambda line: line.index)
                      for name in self.decoders}
        self.drafts = {name: [one for _, drafts in parts for one in drafts[name]] for name in self.decoders}
        rows = [line.index for line in next(iter(self.lines.values()))]  # all, if no option limits them
        texts = [layout.read_corpus(path) for path in (layout.CORPUS / "test.source", *layout.references("test"))]
        sources, *references = [[text[row] for row in rows] for text in texts]
        mine = list(self.decoders)[self.trainer.global_rank::self.trainer.world_size]
        for share in self._gather({name: figures_of(self.lines[name], references, sources, self.settings)
                                   | self._figures_of_drafts(name) for name in mine}):
            self.quality |= share

    def _figures_of_drafts(self, decoder: str) -> dict[str, Any]:
        """Further figures of a decoder that drafts; none of others."""
        lines, drafts = self.lines[decoder], self.drafts[decoder]
        if not drafts:
            return {}
        ties = [one.ties for one in drafts if one.ties is not None]
        calls = sum(line.calls or 0 for line in lines)
        return {"accepted_per_call": sum(line.tokens + line.ended for line in lines) / calls,
                "drafter_calls": sum(one.calls for one in drafts) / len(lines), "ties": sum(ties) if ties else None}

    def _gather(self, mine: Part) -> list[Part]:
        """The parts of all devices."""
        parts = [mine] * self.trainer.world_size
        if len(parts) > 1:
            torch.distributed.all_gather_object(parts, mine)
        return parts


class TestCLI(FamilyCLI):
    """`test` of Lightning's command line."""

    verb = "test"
    model: TestModule
    trainer: Any  # Lightning declares few of its attributes

    def __init__(self, params: Params, family: str, decoders: list[str] | None, options: list[str],
                 in_place: bool) -> None:
        """Args:
            params: of the run.
            family: a block of `families`.
            decoders: entries of `decoders`; None: all of the family.
            options: of Lightning's command line.
            in_place: write the pipeline's artifacts also if there are options.
        """
        self._decoders = decoders
        model = {"family": family, "decoders": list(decoders or params.decoders_of(family))}
        super().__init__(params, family, options, in_place=in_place, module=TestModule, model=model, verbose=False)

    def _parse_ckpt_path(self) -> None:
        """The module loads the checkpoint: it holds a family's network in another shell."""
        path = self.settings.ckpt_path
        if path is not None and not Path(path).exists():
            raise PipelineError(f"--ckpt_path: {path}: not found; name a file of ModelCheckpoint or a "
                                "folder of weights")
        self.settings.model.checkpoint = path
        limit = self.settings.trainer.limit_test_batches
        if limit == 0:
            raise PipelineError("--trainer.limit_test_batches: 0: leaves nothing to score; allow one batch")
        if self._in_place and _limits(limit):
            raise PipelineError(f"--trainer.limit_test_batches: {limit}: the pipeline's figures are of the whole "
                                "split; leave --in-place out")

    def test(self, model: TestModule, datamodule: PairsDataModule, verbose: bool, **_: Any) -> None:
        """Lightning calls this with the options that are not of the trainer's class."""
        own = self.places.hypotheses != layout.HYPOTHESES / self.family
        self.together.meet(self.trainer)
        with self.locked(self.places.hypotheses):
            # A test of named decoders leaves the figures of the others as they are.
            others = _read_figures(self.places.quality) if self._decoders and not own else None
            self.run(self.trainer.test, model, datamodule, verbose=verbose)
            if self.trainer.is_global_zero:
                if not self.trainer.fast_dev_run:
                    self._write(others)
                    if own:
                        self.save_configuration(self.root)
                for name in model.decoders:
                    figures = model.quality[name]
                    print(f"{self.family} {name}: BLEU {figures['bleu']:.2f}, chrF {figures['chrf']:.2f}, "
                          f"TER {figures['ter']:.2f}, {figures['calls']:.2f} calls per sentence")
                if own and not self.trainer.fast_dev_run:
                    print(f"{self.places.quality}: written; with --in-place, the same command writes "
                          f"{places.of_pipeline(self.family).quality}")
            self.trainer.strategy.barrier()  # no process returns while the first one still writes

    def _write(self, others: dict[str, Any] | None) -> None:
        """Write hypotheses and figures.

        Args:
            others: figures of other decoders, to be kept; None: there are none, and their hypotheses are removed.
        """
        folder, report, names = self.places.hypotheses, self.places.quality, self.model.decoders
        every = range(len(layout.read_corpus(layout.CORPUS / "test.target")))
        limited = _limits(self.settings.trainer.limit_test_batches)
        rows = [line.index for line in self.model.lines[next(iter(names))]] if limited else every
        remove(report)  # so that a run that is killed here leaves no figures of former hypotheses
        if others is None:
            remove(folder)
        for name in names:
            write_hypotheses(folder / f"{name}.jsonl", self.model.lines[name], rows)
        record(folder, [f"{name}.jsonl" for name in names])
        longest = self.datamodule.longest
        cut = count_cut(Pairs.open(self.datamodule.folder / "test.pairs").source_lengths[rows], longest)
        write_json(report, {"family": self.family, "data": self.model.data,
                            "verifier": self.params.family(self.family).verifier, "sources_cut": cut,
                            "decoders": {**(others or {}), **{name: self.model.quality[name] for name in names}}})
        report_cut(cut, len(rows), longest)


def _limits(batches: float | None) -> bool:
    """Whether a limit of Lightning's excludes anything: 1.0 is all batches, 1 is one."""
    return batches is not None and not (isinstance(batches, float) and batches == 1.0)


def test(family: str, decoders: list[str] | None, options: list[str], in_place: bool) -> None:
    """Translate, check, score and write a family's hypotheses and quality.

    Args:
        family: a block of `families`.
        decoders: entries of `decoders`; None: all of the family, and the files of any other decoders are removed.
        options: of Lightning's command line.
        in_place: write the pipeline's artifacts also if there are options.

    Raises:
        PipelineError: unknown names; a checkpoint that is missing, damaged or of another vocabulary; a damaged report
            of the other decoders; or an option that cannot be honoured.
    """
    params = load_params()
    for name in decoders or params.decoders_of(family):
        params.decoder(name)
    if options:  # the user also chooses the devices
        TestCLI(params, family, decoders, options, in_place)
        return
    lengths = Pairs.open(layout.BPE / "test.pairs").source_lengths + 1
    processes = useful_processes(len(EvaluationBatches(lengths, budget=params.evaluation.batch_tokens)))
    devices = ["--trainer.accelerator", "cpu", "--trainer.devices", str(processes)] if processes > 1 else []

    def take_part() -> None:
        TestCLI(params, family, decoders, devices, in_place=True)
    run_together(take_part, processes)


def _read_figures(report: Path) -> dict[str, Any]:
    """The figures of every decoder, from the file that `_write` writes; empty where there is no such file.

    Raises:
        PipelineError: it is damaged.
    """
    if not report.exists():
        return {}
    content = read_json(report)
    if not isinstance(content, dict) or not isinstance(content.get("decoders"), dict):
        raise PipelineError(f"{report}: holds no figures of decoders; test the family without --decoder, which writes "
                            "it again")
    figures: dict[str, Any] = content["decoders"]
    return figures
