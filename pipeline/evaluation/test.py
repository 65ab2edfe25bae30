"""The Lightning CLI's `test` of one family: the test split under every decoder, on any number of devices.

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
from pipeline.corpus.bpe import Tokenizer
from pipeline.corpus.datamodule import Batch
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
from pipeline.files import read_json, remove, write_json
from pipeline.model.checkpoint import load_checkpoint
from pipeline.model.quantised import in_format
from pipeline.params import load_params
from pipeline.training.command_line import ConfiguredCLI, family_config
from pipeline.training.quiet import quiet_lightning

Part = TypeVar("Part")


class Drafts(NamedTuple):
    """The costs and the effect of drafting in a batch."""

    calls: int
    """Calls of the drafter, summed over the sentences."""
    ties: int | None
    """Sentences that differ from greedy search by a numerical tie; None where the decoder may give another output."""


class TestModule(lightning.LightningModule):
    """A trained family under one or several decoders."""

    def __init__(self, family: str, decoders: tuple[str, ...]) -> None:
        """Args:
            family: a block of `families` in params.yaml, trained.
            decoders: entries of `decoders`.
        """
        super().__init__()
        params = load_params()
        self.family = family
        self.tokenizer = Tokenizer.load(layout.BPE)
        self.network, self.config = load_checkpoint(layout.checkpoint(family), self.tokenizer.digest,
                                                    params.family(family).order)
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
        sources = layout.read_lines(layout.CORPUS / "test.source")
        references = [layout.read_lines(path) for path in layout.references("test")]
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


def test(family: str, decoders: list[str] | None, overrides: list[str]) -> None:
    """Translate, check, score and write a family's hypotheses and quality.

    Args:
        family: a block of `families`.
        decoders: entries of `decoders`; None: all of the family, and the files of any other decoders are removed.
        overrides: options of the Lightning CLI.

    Raises:
        PipelineError: unknown names; a checkpoint that is missing, damaged or of another vocabulary; or a damaged
            report of the other decoders.
    """
    params = load_params()
    params.family(family)
    names = tuple(decoders or params.decoders_of(family))
    for name in names:
        params.decoder(name)
    # A test of named decoders leaves the figures of the others as they are.
    others = _read_figures(_report(family)) if decoders else None
    sentences = len(layout.read_lines(layout.CORPUS / "test.target"))
    # With options for Lightning, the user also chooses the devices.
    processes = 1 if overrides else useful_processes(-(-sentences // params.evaluation.batch_rows))
    devices = ["--trainer.accelerator", "cpu", "--trainer.devices", str(processes)] if processes > 1 else []
    quiet_lightning()
    config = _config(family, names)

    def take_part() -> None:
        cli = ConfiguredCLI(TestModule, config, [*devices, *overrides])
        cli.trainer.test(cli.model, cli.datamodule, verbose=False)
        if cli.trainer.is_global_zero:
            _write(cli, others)
        cli.trainer.strategy.barrier()  # no process returns while the first one still writes
    run_together(take_part, processes)


def _write(cli: ConfiguredCLI, others: dict[str, Any] | None) -> None:
    """Write hypotheses and figures, and print the figures.

    Args:
        cli: after the test.
        others: figures of other decoders, to be kept; None: there are none, and their hypotheses are removed.
    """
    family, names = cli.model.family, cli.model.decoders
    folder, report = layout.HYPOTHESES / family, _report(family)
    remove(report)  # so that a run that is killed here leaves no figures of former hypotheses
    if others is None:
        remove(folder)
    sentences = len(layout.read_lines(layout.CORPUS / "test.target"))
    for name in names:
        write_hypotheses(folder / f"{name}.jsonl", cli.model.lines[name], sentences)
    quality = {name: cli.model.quality[name] for name in names}
    longest = cli.datamodule.longest
    cut = count_cut(Pairs.open(cli.datamodule.folder / "test.pairs").source_lengths, longest)
    write_json(report, {"family": family, "data": cli.model.config["training"]["data"],
                        "verifier": load_params().family(family).verifier, "sources_cut": cut,
                        "decoders": {**(others or {}), **quality}})
    report_cut(cut, sentences, longest)
    for name, figures in quality.items():
        print(f"{family} {name}: BLEU {figures['bleu']:.2f}, chrF {figures['chrf']:.2f}, "
              f"TER {figures['ter']:.2f}, {figures['calls']:.2f} calls per sentence")


def _report(family: str) -> Path:
    return layout.REPORTS / "quality" / f"{family}.json"


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


def _config(family: str, decoders: tuple[str, ...]) -> dict[str, Any]:
    params = load_params()
    config = family_config(params, family, Tokenizer.load(layout.BPE))
    # Not its precision: however a model was trained, its translations are those of `translate` and of the clock.
    kept = ("use_distributed_sampler", "enable_checkpointing", "enable_model_summary", "enable_progress_bar")
    return {
        "seed_everything": params.seed,
        "trainer": {**{key: config["trainer"][key] for key in kept}, "logger": False},
        "model": {"family": family, "decoders": list(decoders)},
        "data": config["data"],
    }
