"""Reader of `.pt2` archives: the program, and the weights as views of the mapped file."""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch import files
from pydispatch.errors import CompileError, Location
from pydispatch.formats.storage.stored_zip import ZipFault, members_of
from pydispatch.frontends.torch.json_value import JsonValue, ProgramFault, parse
from pydispatch.frontends.torch.schema import ExportedProgram, TensorMeta
from pydispatch.frontends.torch.schema_reader import read_program, read_tensor_meta
from pydispatch.graph.dtypes import DType

if TYPE_CHECKING:
    import numpy as np

_MAX_ELEMENTS = 1 << 59
"""Limit of the product of an empty array's non-zero sizes: with elements of 16 bytes, NumPy refuses 2^63 bytes."""
_MAX_EXPANDED_BYTES = 1 << 30
"""Maximum size of a weight with all its elements, if it has more of them than the file stores: strides of 0 repeat
elements. Without a limit, a small hostile file could cause an allocation of any size."""


@dataclass(frozen=True)
class StoredArray:
    """Weight of a file: its element type, and its elements in the NumPy type `dtype.numpy`, a view of the file if
    possible.
    """

    dtype: DType
    array: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Model:
    """Contents of a `.pt2` file: an exported program of PyTorch and its arrays.

    Attributes:
        name: Name of the file without folder and suffix.
        program: The graph and its signature.
        weights: Parameters and buffers, by name.
        constants: Other tensors that the graph reads, by name.
    """

    name: str
    program: ExportedProgram
    weights: dict[str, StoredArray]
    constants: dict[str, StoredArray]


def read(source: str | os.PathLike[str] | bytes, name: str = "model.pt2") -> Model:
    """Read a model from a path or from the bytes of a file. Raise CompileError for invalid contents.

    name: name of the file if only its bytes are passed, for messages and the model's name.
    """
    data: bytes | mmap.mmap
    if isinstance(source, bytes):
        data = source
    else:
        name = os.fspath(source)
        with files.open_mapped(name) as stream:
            is_empty = os.fstat(stream.fileno()).st_size == 0  # mmap refuses an empty file
            data = b"" if is_empty else mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _read(memoryview(data), Path(name).stem)
    except (ProgramFault, ZipFault) as fault:
        raise CompileError(str(fault), Location(name, 0, 0)) from None
    except RecursionError:
        raise CompileError("graphs are inside of graphs too many times", Location(name, 0, 0)) from None


class _Archive:
    """Members of the archive, by their path below its single top folder."""

    def __init__(self, data: memoryview) -> None:
        """Index the members of the archive `data`. Raise ProgramFault unless they are in a single top folder."""
        members = members_of(data)
        roots = {name.partition("/")[0] for name in members}
        if len(roots) != 1:
            raise ProgramFault(f"expected one folder in the archive, got {len(roots)}: it is no .pt2 file")
        (root,) = roots
        self.members = {name[len(root) + 1 :]: content for name, content in members.items()}

    def member(self, name: str) -> memoryview:
        """Return the bytes of a member. Raise ProgramFault if it is absent."""
        if name not in self.members:
            raise ProgramFault(f"the archive has no member '{name:.120}': it is no .pt2 file, or broken")
        return self.members[name]

    def text(self, name: str) -> str:
        """Return the text of a member that is one word, cut to 40 bytes, since error messages show it."""
        return bytes(self.member(name)[:40]).decode("ascii", "replace").strip()

    def json(self, name: str) -> JsonValue:
        """Return a member as parsed JSON."""
        return parse(self.member(name), name)


def _read(data: memoryview, name: str) -> Model:
    """Read the model in an archive. Raise ProgramFault for unsupported formats and invalid contents."""
    archive = _Archive(data)
    if (kind := archive.text("archive_format")) != "pt2":
        raise ProgramFault(f"the archive is of the format '{kind}', not pt2")
    if (version := archive.text("archive_version")) != "0":
        raise ProgramFault(f"the archive has version '{version}'; 0 is known")
    if (order := archive.text("byteorder")) != "little":
        raise ProgramFault(f"its byte order is '{order}'; export the model on a little-endian machine")
    models = sorted(n for n in archive.members if n.startswith("models/") and n.endswith(".json"))
    if len(models) != 1:
        raise ProgramFault(f"the archive has {len(models)} models ({', '.join(models)[:200]}); expected one")
    model = models[0][len("models/") : -len(".json")]  # "model" for "models/model.json"
    return Model(
        name,
        read_program(archive.json(models[0])),
        _arrays(archive, f"data/weights/{model}_weights_config.json"),
        _arrays(archive, f"data/constants/{model}_constants_config.json"),
    )


def _arrays(archive: _Archive, config: str) -> dict[str, StoredArray]:
    """Return the arrays that a configuration lists, by name. Names with equal views of one storage share one object.

    A storage is a member with the bytes of one or more arrays; an array is a view of it with sizes, strides and an
    offset. The configuration has, under "config", an entry for each array:

        "0.weight": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"sizes": ..., "strides": ..., ...}}

    Args:
        archive: The archive.
        config: Path of the JSON member, such as "data/weights/model_weights_config.json". The storages are members of
            its folder.

    Raises:
        ProgramFault: An entry is a pickled object, or an array exceeds its storage.
    """
    folder = config.rpartition("/")[0]
    views: dict[tuple[str, TensorMeta], StoredArray] = {}  # (path of the storage, layout) -> array
    arrays: dict[str, StoredArray] = {}
    for name, entry in archive.json(config).get("config").items():
        if entry.get("use_pickle").truth() or entry.maybe("tensor_meta") is None:
            raise entry.fault("it is a pickled object, which is not loaded: that would run code of the file")
        meta = entry.get("tensor_meta")
        path = entry.get("path_name").text()
        key = (path, read_tensor_meta(meta))
        if key not in views:
            views[key] = _view(archive.member(f"{folder}/{path}"), key[1], meta)
        arrays[name] = views[key]
    return arrays


def _view(storage: memoryview, meta: TensorMeta, where: JsonValue) -> StoredArray:
    """Return the elements that sizes, strides and an offset (in elements) select from the bytes of a storage.

    Raise ProgramFault if they exceed the storage, are not static numbers, or repeat its elements so often that a copy
    needs too much memory; the message begins with the path of `where`, the weight's JSON.
    """
    import numpy as np

    # Check the layout. Symbolic sizes, which weights cannot have, are left out of both lists, so a shorter list shows
    # that there was one.
    sizes, strides = ([n for n in listed if isinstance(n, int)] for listed in (meta.sizes, meta.strides))
    offset = meta.offset
    if len(sizes) < len(meta.sizes) or len(strides) < len(meta.strides) or not isinstance(offset, int):
        raise where.fault("the sizes, strides and offset of a weight must be numbers")
    if meta.dtype.bits < 8 and not meta.dtype.is_bool:
        raise where.fault(f"weights of {meta.dtype} are not supported")
    # Check that all elements are in the storage.
    item = meta.dtype.numpy.itemsize
    count, stored = math.prod(sizes), len(storage) // item
    if count == 0:  # no element to check, but the sizes may be too large for NumPy
        return StoredArray(meta.dtype, np.zeros(_checked_empty_sizes(sizes, where), meta.dtype.numpy))
    # For sizes (2, 3), strides (3, 1) and offset 4 the last element has index 4 + 1 * 3 + 2 * 1 = 9.
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if last >= stored:
        raise where.fault(f"its last element has index {last} in a storage of {stored} elements")
    # Strides such as 0 repeat elements: a small storage may have a view whose copy would not fit in memory.
    if count > stored and count * item > _MAX_EXPANDED_BYTES:
        raise where.fault(f"{count} elements repeat those of a storage of {stored}: they would need too much memory")
    # Bools are compared with 0, because a file may have bytes other than 0 and 1, which are no valid bools of NumPy.
    kind = np.dtype(np.uint8) if meta.dtype.is_bool else meta.dtype.numpy
    flat = np.frombuffer(storage, kind, stored)[offset:]
    view = np.lib.stride_tricks.as_strided(flat, sizes, [s * item for s in strides], writeable=False)
    return StoredArray(meta.dtype, view != 0 if meta.dtype.is_bool else view)


def _checked_empty_sizes(sizes: list[int], where: JsonValue) -> list[int]:
    """Return the sizes of an empty array unchanged. Raise ProgramFault if NumPy would refuse them.

    NumPy limits the product of the non-zero sizes even if another size is 0.
    """
    if math.prod(n for n in sizes if n) >= _MAX_ELEMENTS:
        raise where.fault(f"the sizes {sizes} are out of range")
    return sizes
