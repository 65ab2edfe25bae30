"""The exponent of a decoder's length penalty, compared on the validation split."""

from collections.abc import Iterable
from functools import partial

from pipeline import layout
from pipeline.corpus.bpe import Tokenizer
from pipeline.decoding.settings import make_decoder, with_penalty
from pipeline.evaluation.clock import clock_device
from pipeline.evaluation.speed import Contestant
from pipeline.evaluation.validation import ValidationSample
from pipeline.model.checkpoint import load_checkpoint
from pipeline.params import Params


def score_exponents(params: Params, family: str, decoder: str, exponents: Iterable[float],
                    sentences: int | None) -> dict[float, float]:
    """BLEU of a trained family under a decoder, by the exponent of its length penalty, in ascending order.

    Args:
        params: of the folder that holds data/ and checkpoints/.
        family, decoder: names in params; the decoder has a length penalty.
        exponents: to compare.
        sentences: how many of the validation split BLEU is measured on, None: all.

    Raises:
        PipelineError: unknown names, no such checkpoint, or a decoder of another kind than the family.
    """
    device, tokenizer = clock_device(params.speed), Tokenizer.load(layout.BPE)
    network, _ = load_checkpoint(layout.checkpoint(family), tokenizer.digest, params.family(family).order)
    longest, entry = network.settings.max_length, params.decoder(decoder)
    sample, network = ValidationSample(params, tokenizer, device, sentences, longest), network.to(device)

    def bleu(alpha: float) -> float:
        decode = make_decoder(decoder, with_penalty(decoder, entry, alpha), params.length_limit(longest))
        return sample.bleu(Contestant(family, f"{decoder}, exponent {alpha:g}", partial(decode, network)))

    return {alpha: bleu(alpha) for alpha in sorted(set(exponents))}
