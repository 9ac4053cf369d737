"""A `.pt2` file: the program that it holds, and its weights as views of the file."""

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
from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.torch.json_value import JsonValue, ProgramFault, parse
from pydispatch.frontends.torch.schema import ExportedProgram, TensorMeta, read_program, read_tensor_meta

if TYPE_CHECKING:
    import numpy as np

_MAX_EXPANDED = 1 << 30
"""Bytes that a weight may have when its elements are repeated by strides of 0, and its file is smaller than that."""


@dataclass(frozen=True)
class StoredArray:
    """A weight. dtype: what the elements are; array: a view of the file, of the type `dtype.numpy`."""

    dtype: DType
    array: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Model:
    """A program and its arrays. weights: parameters and buffers by their names; constants: other tensors."""

    name: str
    program: ExportedProgram
    weights: dict[str, StoredArray]
    constants: dict[str, StoredArray]


def read(source: str | os.PathLike[str] | bytes, name: str = "model.pt2") -> Model:
    """Return a model of a file, or of its bytes. CompileError names the file and what is wrong in it."""
    data: bytes | mmap.mmap
    if isinstance(source, bytes):
        data = source
    else:
        name = os.fspath(source)
        with files.open_mapped(name) as stream:
            empty = os.fstat(stream.fileno()).st_size == 0
            data = b"" if empty else mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _read(memoryview(data), Path(name).stem)
    except (ProgramFault, ZipFault) as fault:
        raise CompileError(str(fault), Location(name, 0, 0)) from None
    except RecursionError:
        raise CompileError("graphs are inside of graphs too many times", Location(name, 0, 0)) from None


class _Archive:
    """The members of a file below its one folder."""

    def __init__(self, data: memoryview) -> None:
        members = members_of(data)
        roots = {name.partition("/")[0] for name in members}
        if len(roots) != 1:
            raise ProgramFault(f"expected one folder in the archive, got {len(roots)}: it is no .pt2 file")
        (root,) = roots
        self.members = {name[len(root) + 1 :]: content for name, content in members.items()}

    def member(self, name: str) -> memoryview:
        if name not in self.members:
            raise ProgramFault(f"the archive has no member '{name:.120}': it is no .pt2 file, or broken")
        return self.members[name]

    def text(self, name: str) -> str:
        return bytes(self.member(name)[:40]).decode("ascii", "replace").strip()

    def json(self, name: str) -> JsonValue:
        return parse(self.member(name), name)


def _read(data: memoryview, name: str) -> Model:
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
    model = models[0][len("models/") : -len(".json")]
    return Model(
        name,
        read_program(archive.json(models[0])),
        _arrays(archive, f"data/weights/{model}_weights_config.json"),
        _arrays(archive, f"data/constants/{model}_constants_config.json"),
    )


def _arrays(archive: _Archive, config: str) -> dict[str, StoredArray]:
    """Return the arrays that a table names. Equal views of one storage are one array."""
    folder = config.rpartition("/")[0]
    views: dict[tuple[str, TensorMeta], StoredArray] = {}
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
    """Return the elements that sizes, strides and an offset choose from a storage. Fault when they lie outside."""
    import numpy as np

    sizes, strides = ([n for n in listed if isinstance(n, int)] for listed in (meta.sizes, meta.strides))
    offset = meta.offset
    if len(sizes) < len(meta.sizes) or len(strides) < len(meta.strides) or not isinstance(offset, int):
        raise where.fault("the sizes of a weight are not numbers")
    if meta.dtype.bits < 8 and not meta.dtype.is_bool:
        raise where.fault(f"weights of {meta.dtype} are not supported")
    item = meta.dtype.numpy.itemsize
    count, there = math.prod(sizes), len(storage) // item
    if count == 0:
        return StoredArray(meta.dtype, np.zeros(_within(sizes, where), meta.dtype.numpy))
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if last >= there:
        raise where.fault(f"its last element is number {last} of a storage of {there}")
    if count > there and count * item > _MAX_EXPANDED:
        raise where.fault(f"{count} elements are made of a storage of {there}")
    kind = np.dtype(np.uint8) if meta.dtype.is_bool else meta.dtype.numpy
    flat = np.frombuffer(storage, kind, there)[offset:]
    view = np.lib.stride_tricks.as_strided(flat, sizes, [s * item for s in strides], writeable=False)
    return StoredArray(meta.dtype, view != 0 if meta.dtype.is_bool else view)


def _within(sizes: list[int], where: JsonValue) -> list[int]:
    """Return sizes of which one may be 0. Fault when the product of the other sizes is out of range."""
    if math.prod(n for n in sizes if n) >= 1 << 59:
        raise where.fault(f"the sizes {sizes} are out of range")
    return sizes
