"""Loading of the sources that `compile` accepts: text, files, modules, and models through the frontends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.files import open_binary
from pydispatch.frontends.mlir.frontend import DialectFrontend
from pydispatch.frontends.mlir.read import is_text, path_from, read_file
from pydispatch.frontends.source import HEAD, Frontend, ReadOptions, frontends
from pydispatch.ir.core.walk import walk

_TRACED = frozenset({"builtin", "check", "func", "interpreter"})
"""Dialects that may be in a module that one frontend reads as a whole."""


def load_source(source: Any, what: str = "source", options: ReadOptions | None = None) -> tuple[ModuleOp, Path | None]:
    """Load the module of a source, and return it with its file when it came from one. The caller may change the module.
    Operations of StableHLO and TOSA are still in it: see `lower_input`.

    source: MLIR text, a path, a module, or what a frontend reads. what: the parameter, for messages.
    InvalidArgumentError for what is no source, CompileError for one that is wrong.
    """
    options = options or ReadOptions()
    if isinstance(source, ModuleOp):
        return source.clone(), None
    if is_text(source):
        return ir.parse(source), None
    if not isinstance(source, (str, os.PathLike)):
        for frontend in frontends():
            if frontend.reads_object(source):
                return frontend.read(source, options), None
    path = path_from(what, source)
    reader = reader_of(path)
    return (read_file(path) if reader is None else reader.read(path, options)), path


def reader_of(path: Path) -> Frontend | None:
    """Return the frontend of a model's file; None for MLIR text, and for a path that is no regular file, which its
    reader refuses.
    """
    head = _head(path)
    return next((frontend for frontend in frontends() if head and frontend.reads_file(path, head)), None)


def lower_input(module: ModuleOp, options: ReadOptions) -> ModuleOp:
    """Lower operations of frontends' dialects, and return the module without them; it may be another one.

    A module of one such dialect is read by its frontend as a whole; in one with other dialects as well each operation
    is lowered where it is stored.
    """
    used = frozenset(op.name.partition(".")[0] for op in walk(module))
    readers = [frontend for frontend in frontends() if not frontend.dialects.isdisjoint(used)]
    if not readers:
        return module
    mixable = [frontend for frontend in readers if isinstance(frontend, DialectFrontend)]
    if not mixable or (len(readers) == 1 and used <= readers[0].dialects | _TRACED):
        return readers[0].read(module, options)
    from pydispatch.frontends.mixed import lower_mixed

    return lower_mixed(module, mixable, options)


def _head(path: Path) -> bytes:
    """Return the first bytes of a file; b"" for a path that is no regular file, which the reader refuses
    or reads once.
    """
    if not os.path.isfile(path):  # noqa: PTH113  (Path.is_file raises for a name that is too long)
        return b""
    with open_binary(path) as stream:
        return stream.read(HEAD)
