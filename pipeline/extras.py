"""The libraries that not everybody needs, and what installs them."""

from pipeline.errors import PipelineError

EXTRAS = {
    "ctranslate2": "peers", "datasets": "huggingface", "dvc": "pipeline", "dvclive": "pipeline", "errant": "errant",
    "huggingface_hub": "hub", "jsonargparse": "pipeline", "lxml": "tmx", "matplotlib": "pipeline", "polib": "po",
    "prometheus_client": "serve", "pyarrow": "scale", "pytorch_lightning": "pipeline", "rich": "pipeline",
    "ruamel": "pipeline", "sacrebleu": "pipeline", "sacremoses": "pipeline", "sentencex": "split",
    "shtab": "completion", "starlette": "serve", "torchmetrics": "pipeline", "transformers": "huggingface",
    "uvicorn": "serve", "zstandard": "scale",
}
"""The extra of pyproject.toml that installs each library which the package imports and does not always need."""


def missing(library: str, where: str) -> PipelineError:
    """The error where a library of `EXTRAS` is not installed.

    Args:
        library: by the name by which it is imported.
        where: the command, option or file that needs it.

    >>> print(missing("polib", "strings.po"))
    strings.po: needs polib, which is not installed; run pip install 'fast-nmt-decoding[po]'
    """
    return PipelineError(f"{where}: needs {library}, which is not installed; run pip install "
                         f"'fast-nmt-decoding[{EXTRAS[library]}]'")
