"""Named arrays in one safetensors file that is mapped into memory, not read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from pipeline.checksums import check
from pipeline.errors import PipelineError
from pipeline.files import atomic_path

_LENGTH = 8
"""Bytes of the number that is the header's length. The header is a multiple of them, so that all arrays are aligned."""
_KINDS = {"U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "F32": "<f4", "F64": "<f8", "I64": "<i8"}
"""In the order of the safetensors library, which writes the last ones first."""


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file completely or not at all; equal content gives equal bytes."""
    # The bytes that the safetensors library would write, which would copy all arrays.
    ordered = sorted(((name, np.ascontiguousarray(array)) for name, array in arrays.items()),
                     key=lambda item: (-list(_KINDS).index(_kind(item[1])), item[0]))
    described, end = {}, 0
    for name, array in ordered:
        described[name] = {"dtype": _kind(array), "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    header = json.dumps({"__metadata__": dict(metadata), **described}).encode()
    header += b" " * (-len(header) % _LENGTH)
    with atomic_path(path) as aside, open(aside, "wb") as file:
        file.write(len(header).to_bytes(_LENGTH, "little") + header)
        for _, array in ordered:
            file.write(array.reshape(-1).view(np.uint8).data)


def _kind(array: NDArray[Any]) -> str:
    code = array.dtype.newbyteorder("<").str.replace("|", "")
    for name, known in _KINDS.items():
        if code == known:
            return name
    raise ValueError(f"an array of {array.dtype} cannot be written")


def map_arrays(path: Path, remedy: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays of a safetensors file as read-only views of the mapped file, and its metadata.

    Raises:
        PipelineError: the file is absent, unreadable, damaged, or not safetensors; the message ends with a remedy.
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
    check(path)
    return arrays, metadata
