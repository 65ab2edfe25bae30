"""sacreBLEU's BLEU by the name of a tokenizer: of the evaluation, and of the validations that choose by it."""

from typing import Any

from sacrebleu.metrics.bleu import BLEU

from pipeline.errors import PipelineError


def make_bleu(tokenizer: str, **options: Any) -> BLEU:
    """sacreBLEU's BLEU with a tokenizer and further options of its own.

    Raises:
        PipelineError: the tokenizer is unknown, or its package or files are not installed.
    """
    if tokenizer not in BLEU.TOKENIZERS:
        raise PipelineError(f"evaluation: BLEU tokenizer {tokenizer!r} is unknown; use one of "
                            f"{', '.join(sorted(filter(None, BLEU.TOKENIZERS)))}")
    try:
        return BLEU(tokenize=tokenizer, **options)
    except (ImportError, RuntimeError, OSError) as error:
        raise PipelineError(f"evaluation: BLEU tokenizer {tokenizer!r} cannot start "
                            f"({' '.join(str(error).split())}); install its package or files") from error
