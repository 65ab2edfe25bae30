"""Named arrays in one safetensors file that is mapped into memory, not read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pipeline.errors import PipelineError
from pipeline.files import atomic_path

_LENGTH = 8
"""Bytes of the number that is the header's length. The header is a multiple of them, so that all arrays are aligned."""
_KINDS = {"U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8", "F32": "<f4", "F64": "<f8"}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file completely or not at all; equal content gives equal bytes."""
    content = memoryview(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    # The library writes the metadata in a different order every time.
    header = json.dumps({"__metadata__": dict(metadata), **json.loads(bytes(content[_LENGTH:start]))}).encode()
    header += b" " * (-len(header) % _LENGTH)
    with atomic_path(path) as aside, open(aside, "wb") as file:
        file.write(len(header).to_bytes(_LENGTH, "little") + header)
        file.write(content[start:])


def map_arrays(path: Path, remedy: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays of a safetensors file as read-only views of the mapped file, and its metadata.

    Raises:
        PipelineError: the file is absent, unreadable, truncated, or not safetensors; the message ends with the remedy.
    """
    try:
        content = np.asarray(np.memmap(path, np.uint8, "r"))
        with safe_open(path, "np") as file:  # which checks that the arrays are contiguous up to the end
            metadata = dict(file.metadata() or {})
            shapes = {name: (one.get_dtype(), one.get_shape()) for name in file.offset_keys()
                      for one in [file.get_slice(name)]}
        arrays: dict[str, NDArray[Any]] = {}
        end = len(content)
        for name, (kind, shape) in reversed(shapes.items()):
            begin = end - np.dtype(_KINDS[kind]).itemsize * int(np.prod(shape))
            arrays[name], end = content[begin:end].view(_KINDS[kind]).reshape(shape), begin
    except FileNotFoundError:
        raise PipelineError(f"{path}: not found; {remedy}") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; {remedy}") from None
    except (SafetensorError, ValueError, KeyError):  # an empty file, or an unknown type
        raise PipelineError(f"{path}: truncated or not a safetensors file; {remedy}") from None
    return arrays, metadata
