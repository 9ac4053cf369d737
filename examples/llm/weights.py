"""Weights of a model folder: arrays of `.safetensors` files by name, mapped into memory and not copied."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8,
}  # fmt: skip
"""Element types of safetensors that these models have."""

MAX_HEADER_BYTES = 100_000_000
"""Largest header, that of the `safetensors` library; a wrong length is refused before it is read."""


def read_safetensors(path: Path) -> dict[str, Array]:
    """Map a file of 8 bytes (the length n of the header), n bytes of JSON, and data.

    Returns:
        Read-only arrays by name.

    Raises:
        ValueError: The file is cut off, or its header states types, shapes or offsets that do not fit the file.
    """
    size = path.stat().st_size
    if size < 8:
        raise ValueError(f"{path}: {size} bytes are no safetensors file")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise ValueError(f"{path}: a header of {length} bytes in a file of {size}; copy the file again")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise ValueError(f"{path}: the header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is no JSON object")
    data: Array = np.memmap(path, np.uint8, "r", 8 + length) if size > 8 + length else np.empty(0, np.uint8)
    header.pop("__metadata__", None)
    return {name: _tensor(path, name, entry, data) for name, entry in header.items()}


def _tensor(path: Path, name: str, entry: Any, data: Array) -> Array:
    """Return one array of a file.

    entry: its part of the header, which is checked. data: the bytes of the file after the header, u8[n].
    """
    try:
        dtype, shape, (begin, end) = np.dtype(DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        count = math.prod(shape)
        is_valid = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: tensor '{name}' has a wrong entry in the header: {error!r}") from None
    if not is_valid or end > len(data) or end - begin != count * dtype.itemsize:
        raise ValueError(
            f"{path}: tensor '{name}' of {entry['dtype']} and shape {shape} is stated at bytes {begin} to {end} of "
            f"{len(data)}"
        )
    return _read_only(np.frombuffer(data, dtype, count, begin).reshape(shape) if count else np.empty(shape, dtype))


def _read_only(array: Array) -> Array:
    """Forbid writing to an array, and return it."""
    array.flags.writeable = False
    return array


def file_of(model: str | Path, name: str) -> Path:
    """Return the path of a file of a model: in its folder, or beside its GGUF file.

    Raises:
        FileNotFoundError: There is no such file; the message says what a model consists of.
    """
    path = Path(model).with_name(name) if Path(model).is_file() else Path(model) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; a model is a folder with config.json, model.safetensors and tokenizer.json, or a "
            "GGUF file beside a tokenizer.json"
        )
    return path


class MissingWeightError(KeyError, ValueError):
    """A model has no weight of a name that its architecture needs."""

    __str__ = ValueError.__str__  # without the quotes of a KeyError


class Weights(Mapping[str, Array]):
    """Arrays of a model folder by name, from `model.safetensors`, or from the files that an index lists."""

    def __init__(self, folder: str | Path) -> None:
        """Map the files of a folder. Raise ValueError for an index that names files outside of it."""
        self.folder = Path(folder)
        index = self.folder / "model.safetensors.index.json"
        names = {"model.safetensors"}
        if index.exists():
            names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        if any(Path(name).name != name for name in names):  # an index may not read files of other folders
            raise ValueError(f"{index}: files are in the folder itself, but it names {sorted(names)}")
        self._arrays: dict[str, Array] = {}
        for name in sorted(names):
            self._arrays |= read_safetensors(file_of(folder, name))

    def __getitem__(self, name: str) -> Array:
        """Return an array. Raise MissingWeightError, whose message names the folder, if there is none."""
        try:
            return self._arrays[name]
        except KeyError:
            raise MissingWeightError(f"{self.folder} has no weight '{name}'") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
