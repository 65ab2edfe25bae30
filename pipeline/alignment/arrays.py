"""Named arrays in one file that is mapped into memory, not read: a safetensors file, which has just that layout."""

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import PipelineError
from pipeline.files import atomic_path

_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000  # bytes, as the safetensors library has it
_ALIGNMENT = 8
_KINDS = {"U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8", "F32": "<f4", "F64": "<f8"}
_NAMES = {np.dtype(kind): name for name, kind in _KINDS.items()}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all; equal content is equal bytes.

    Not by the safetensors library, which shuffles the metadata.
    """
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)  # so that all of them are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, array in ordered:
        end = begin + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with atomic_path(path) as aside, open(aside, "wb") as file:
        file.write(_LENGTH.pack(len(text)) + text)
        for _, array in ordered:
            file.write(np.ascontiguousarray(array).data)


def map_arrays(path: Path, remedy: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays of a safetensors file as read-only views of the map, and its metadata.

    Args:
        path: the file.
        remedy: what to do when it is no good, for the error message.

    Raises:
        PipelineError: absent, unreadable, truncated, or not safetensors.
    """
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            start = file.read(_LENGTH.size)
            length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else size
            if length > _LONGEST_HEADER or _LENGTH.size + length > size:
                raise PipelineError(f"{path}: truncated or not a safetensors file; {remedy}")
            header = json.loads(file.read(length))
        metadata = {name: str(text) for name, text in header.pop("__metadata__", {}).items()}
        payload = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))[_LENGTH.size + length:]
        if len(payload) < max((entry["data_offsets"][1] for entry in header.values()), default=0):
            raise PipelineError(f"{path}: truncated; {remedy}")
        arrays = {name: _array(payload, **entry) for name, entry in header.items()}
    except FileNotFoundError:
        raise PipelineError(f"{path}: not found; {remedy}") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}; {remedy}") from None
    except (ValueError, LookupError, TypeError, AttributeError):  # not JSON, or not of this shape
        raise PipelineError(f"{path}: not a safetensors file; {remedy}") from None
    return arrays, metadata


def _array(payload: NDArray[np.uint8], dtype: str, shape: list[int], data_offsets: tuple[int, int]) -> NDArray[Any]:
    begin, end = data_offsets
    if begin < 0 or min(shape, default=0) < 0:
        raise ValueError  # what counts from the end would be taken for something else
    return payload[begin:end].view(_KINDS[dtype]).reshape(shape)
