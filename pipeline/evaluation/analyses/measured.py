"""What `evaluate` and `speed` measured of every decoder, for the analyses that plot it against a setting."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.evaluation.rows import Name, read_speed, timed_decoders
from pipeline.files import read_json


@dataclass(frozen=True)
class Measured:
    """A decoder's quality and speed, one sentence at a time."""

    bleu: float
    milliseconds: float
    """Per sentence."""
    speedup: float
    """Against the baseline's beam 5."""
    interval: tuple[float, float]
    """The 95 % interval of the speedup."""
    accepted_per_call: float | None = None
    """None where nothing is drafted."""

    def metric(self) -> dict[str, float]:
        """The entry of a metrics file."""
        return {"bleu": self.bleu, "milliseconds": self.milliseconds, "speedup_vs_beam5": self.speedup,
                "speedup_low": self.interval[0], "speedup_high": self.interval[1]}


@dataclass(frozen=True)
class Measurements:
    """All decoders of a run."""

    sentences: str
    """The sentences that were timed: `long`, or `all` where no sentence is long."""
    decoders: dict[Name, Measured]


def read_measurements(quality: Path, speed: Path) -> Measurements:
    """Read the figures of all timed decoders.

    Args:
        quality: folder of `<family>.json`.
        speed: file of `speed.speed_report`.

    Raises:
        PipelineError: a file is absent or damaged, or a decoder was timed but not scored.
    """
    report = read_speed(speed)
    sentences = "long" if report["long_sentences"] else "all"
    scores = {family: read_json(quality / f"{family}.json") for family in {name[0] for name in timed_decoders(report)}}
    decoders = {}
    for entry in report["contestants"]:
        family, decoder = entry["family"], entry["decoder"]
        scored = scores[family].get("decoders", {}).get(decoder, {})
        if "bleu" not in scored:
            raise PipelineError(f"{quality / family}.json: decoder {decoder!r} of family {family!r} was timed but not "
                                "scored; run `dvc repro`")
        time, speedup = ("_long", "") if sentences == "long" else ("", "_all")
        ratio, low, high = entry[f"speedup_vs_beam5{speedup}"]
        decoders[family, decoder] = Measured(scored["bleu"], entry[f"ms_per_sentence{time}"], ratio, (low, high),
                                             scored.get("accepted_per_call"))
    return Measurements(sentences, decoders)
