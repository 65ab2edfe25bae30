"""Model folders on the Hugging Face Hub."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError
from pipeline.extras import missing
from pipeline.interop.folder import MARKER
from pipeline.interop.model_folder import CARD, check_files, read_settings


def push_to_hub(folder: str | Path, name: str, *, private: bool = True, api: Any = None) -> str:
    """Upload a model folder to a repository, which afterwards has the same files and no others.

    Args:
        folder: of `python -m pipeline export folder`; it is checked as when it is opened.
        name: of the repository, USER/MODEL; it is created if there is none. All other files of an earlier export are
            deleted, and its card is replaced.
        private: whether a repository that is created can be read by its owner only; an existing one stays as it is.
        api: a `huggingface_hub.HfApi`; None: one with the login of this machine (`hf auth login`).

    Returns:
        The address of the commit.

    Raises:
        PipelineError: it is not a complete model folder, huggingface_hub is not installed, the repository has files and
            is not an earlier export, or the hub refuses it or cannot be reached.
    """
    folder = Path(folder)
    settings = read_settings(folder)
    check_files(folder, settings)
    if api is None:
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise missing("huggingface_hub", "push_to_hub") from None
        api = HfApi(library_name="fast-nmt-decoding", library_version=settings.version)
    try:
        api.create_repo(name, private=private, exist_ok=True)
        _check_replaceable(name, api.list_repo_files(name))
        commit = api.upload_folder(
            repo_id=name, folder_path=folder, allow_patterns=[MARKER, CARD, *settings.files], delete_patterns="*",
            commit_message=f"{settings.family}, written by fast-nmt-decoding {settings.version}")
    except PipelineError:
        raise
    except Exception as error:  # the library's exceptions have no common base class
        raise PipelineError(f"{name}: cannot be uploaded ({type(error).__name__}: {' '.join(str(error).split())}); "
                            "check the name, the network and the login (hf auth login)") from error
    return str(commit.commit_url)


def _check_replaceable(name: str, files: Collection[str]) -> None:
    """Raise a PipelineError unless a repository is an earlier export or has nothing but what the hub writes itself."""
    others = sorted({*files} - {".gitattributes", CARD})
    if others and MARKER not in others:
        raise PipelineError(f"{name}: exists and is not an earlier export (it has {others[0]} and no {MARKER}), and an "
                            "upload deletes all other files; name another repository, or delete this one first")
