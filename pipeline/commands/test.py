"""Translate the test split under every decoder of a family and score it.

Writes data/hypotheses/FAMILY and reports/quality/FAMILY.json.

Any option of LightningCLI may follow, for example --ckpt_path FILE, or --trainer.devices 2 --trainer.accelerator cpu
(the figures do not depend on the number of devices). With options, the files go to a folder of their own unless
--in-place is among them.

With --model, score that model folder or checkpoint under any of its decoders, on the test split or on files, by the
block `evaluation` of params.yaml, and print the figures.

Sources that are longer than the model's limit are cut; their number is printed and in the JSON.
"""

import argparse
from pathlib import Path

from pipeline import layout
from pipeline.documents.plain import read_utf8
from pipeline.errors import PipelineError
from pipeline.files import check_output
from pipeline.model_options import add_model_arguments, open_model
from pipeline.params import load_params
from pipeline.training import options

PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument("--decoder", action="append", metavar="NAME",
                        help="an entry of `decoders`; repeat it for several (default: all of the family or of the "
                             "model folder; greedy for hf:NAME)")
    parser.add_argument("--input", type=Path, help="sources for the --model (default: the test split)")
    parser.add_argument("--reference", type=Path, action="append",
                        help="their translations, one per line; repeat it for several")
    parser.add_argument("--output", type=Path, help="JSON of the --model's figures")
    parser.add_argument("--device", help="cpu, cuda or auto (default), for the --model")
    options.add_arguments(parser, in_place="data/hypotheses/FAMILY and reports/quality/FAMILY.json")


def run(arguments: argparse.Namespace, overrides: list[str]) -> None:
    own = [name for name in ("input", "reference", "output", "device", "source_language", "target_language")
           if getattr(arguments, name) is not None]
    if arguments.model is None:
        if own:
            raise PipelineError(f"--{own[0].replace('_', '-')}: is of --model; a family is tested on the test split of "
                                "its corpus, on the device of --trainer.accelerator")
        load_params().family(arguments.family)
        from pipeline.evaluation.test import test

        test(arguments.family, arguments.decoder, overrides + ["--help"] * arguments.help_lightning, arguments.in_place)
        return
    lightning = overrides + ["--help-lightning"] * arguments.help_lightning + ["--in-place"] * arguments.in_place
    if lightning:
        raise PipelineError(f"{lightning[0]}: is not an option of test --model, which does not use Lightning")
    if (arguments.input is None) != (arguments.reference is None):
        raise PipelineError("--input, --reference: belong together; give both, or none for the test split")
    files = [arguments.input or layout.CORPUS / "test.source", *(arguments.reference or layout.references("test"))]
    sources, *references = [list(read_utf8(path)) for path in files]
    for path, lines in zip(files[1:], references, strict=True):
        if len(lines) != len(sources):
            raise PipelineError(f"--reference: {path} has {len(lines)} lines and {files[0]} {len(sources)}; line i of "
                                "one must translate line i of the other")
    if arguments.output is not None:
        check_output(arguments.output, *files)
    import numpy as np

    from pipeline.corpus.padding import count_cut, report_cut
    from pipeline.evaluation.one_model import score_model
    from pipeline.files import replacing, write_json

    evaluation, opened = load_params().evaluation, open_model(arguments)
    model, decoders = opened.model, arguments.decoder or (opened.decoders if opened.checkpoint is None else ["greedy"])
    figures = score_model(opened.settings, evaluation, model, decoders, sources, references,
                          arguments.device or "auto")
    cut = count_cut(np.array([len(ids) for ids in model.encode(sources)]), model.longest)
    report_cut(cut, len(sources), model.longest)
    for name, one in figures.items():
        print(f"{arguments.model} {name}: BLEU {one['bleu']:.2f}, chrF {one['chrf']:.2f}, TER {one['ter']:.2f}, "
              f"{one['calls']:.2f} calls per sentence")
    if arguments.output is not None:
        write_json(arguments.output, {"model": arguments.model, "sources_cut": cut, "decoders": figures}, replacing)
