"""Loading of the sources that `compile` accepts: text, files, modules, and models through the frontends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr

from pydispatch import ir
from pydispatch.errors import InvalidArgumentError, SystemError_
from pydispatch.files import is_text, read_head
from pydispatch.frontends.mlir.frontend import DialectFrontend
from pydispatch.frontends.mlir.read import path_from, read_file
from pydispatch.frontends.remedies import remedy_of_object
from pydispatch.frontends.source import HEAD, Frontend, ReadOptions, frontends
from pydispatch.ir.combine import combine
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow.parameter import FlowParameterAttr
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.dialects.util.dialect import GlobalOp

_STRUCTURE = frozenset({"builtin", "func"})
"""Dialects of modules and functions, which a program in any frontend's dialect may contain too."""


SOURCE = "pyd.source"
"""Attribute of a nested module that holds one of several sources. The name of the module is the key of the source."""


def load_source(source: Any, what: str = "source", options: ReadOptions | None = None) -> tuple[ModuleOp, list[Path]]:
    """Load the module of a source, and return it with the files that were read: none for text and objects.

    The caller may change the module. It may contain operations of StableHLO and TOSA. Of a mapping it contains a named
    module for each source. `lower_input` lowers both.

    Args:
        source: MLIR text, a path, a module, what a frontend reads, or a mapping from names to these.
        what: Name of the parameter that the source was passed as, for messages.
        options: Options of the frontends.

    Raises:
        InvalidArgumentError: The argument is of no type or file that can be read.
        CompileError: The text or model has an error.
    """
    options = options or ReadOptions()
    if isinstance(source, Mapping):
        return _load_several(source, what, options)
    # MLIR text and modules have no frontend: options `inputs` and `constants`, which are for models, are refused.
    if isinstance(source, ModuleOp):
        _check_inputs(None, options)
        _check_weights(source, what, options)
        return source.clone(), []
    if is_text(source):
        _check_inputs(None, options)
        return ir.parse(source), []
    if not isinstance(source, (str, os.PathLike)):
        for frontend in frontends():
            if frontend.reads_object(source):
                _check_inputs(frontend, options)
                return frontend.read(source, options), []
        if remedy := remedy_of_object(source):
            raise InvalidArgumentError(f"{what}: got {remedy}")
    path = path_from(what, source)
    reader = reader_of(path)
    _check_inputs(reader, options)
    return (read_file(path, source) if reader is None else reader.read(path, options)), [path]


def _check_inputs(frontend: Frontend | None, options: ReadOptions) -> None:
    """Raise InvalidArgumentError if `inputs` or `constants` are given for a source that they do not apply to."""
    if (options.inputs or options.constants) and (frontend is None or not frontend.takes_inputs):
        raise InvalidArgumentError(
            "inputs= and constants= are for ONNX models, and inputs= with tune= for kernels with configs=; state the "
            "shapes and values in the program itself"
        )


def _check_weights(module: ModuleOp, what: str, options: ReadOptions) -> None:
    """Raise InvalidArgumentError if the caller wants weights left out that the module already has."""
    globals_ = [op.initial_value for op in module.body.block.ops if isinstance(op, GlobalOp)]
    is_embedded = any(isinstance(value, NumPyArrayAttr) for value in globals_)
    # A module whose weights are left out may have arrays, too, such as a random state.
    is_left_out = any(isinstance(value, FlowParameterAttr) for value in globals_)
    if options.weights == "external" and is_embedded and not is_left_out:
        raise InvalidArgumentError(
            f'{what}: the module has its weights already; state weights="external" where it is traced: '
            'pydispatch.jax_source(..., weights="external")'
        )


def _load_several(sources: Mapping[Any, Any], what: str, options: ReadOptions) -> tuple[ModuleOp, list[Path]]:
    """Load a mapping from function names to sources.

    Return a module that contains a module for each source, with its key as name and the attribute SOURCE, and the files
    that were read. `what` is the name of the parameter, for messages.
    """
    if not sources:
        raise InvalidArgumentError(f"{what}: an empty mapping; expected sources by the names of their functions")
    if options.inputs or options.constants:
        raise InvalidArgumentError(
            "inputs= and constants= are for one source, and there are several; state shapes and constants in the models"
        )
    modules, paths = [], []
    for name, source in sources.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidArgumentError(f"{what}: {name!r} is no name of a function; expected an identifier")
        module, files = load_source(source, f"{what}[{name!r}]", options)
        module.sym_name = StringAttr(name)
        module.attributes[SOURCE] = UnitAttr()
        modules.append(module)
        paths += files
    return ModuleOp(modules), paths


def reader_of(path: Path) -> Frontend | None:
    """Return the frontend that reads a file, by its first bytes; None for MLIR text.

    Return None also for a path without a regular file, such as a pipe or a missing file: the reader of MLIR text reads
    it or reports the error.
    """
    head = _head(path)
    return next((frontend for frontend in frontends() if head and frontend.reads_file(path, head)), None)


def lower_input(module: ModuleOp, options: ReadOptions) -> ModuleOp:
    """Lower operations of frontends' dialects, such as StableHLO, combine several sources, and return the program.

    A module with operations of one frontend, such as one of stablehlo and func, is translated by it as a whole. If it
    also has operations of other dialects, such as linalg, each operation of a `DialectFrontend` is lowered in place. A
    module that `load_source` returned for several sources has a nested module for each of them (attribute SOURCE).
    These are lowered one by one and combined into one program.

    Returns:
        The program: the same module, which may be changed, or a new one.
    """
    sources = [op for op in module.ops if isinstance(op, ModuleOp) and SOURCE in op.attributes]
    if sources:
        programs = []
        for source in sources:
            source.detach()
            del source.attributes[SOURCE]
            assert source.sym_name is not None
            programs.append((source.sym_name.data, lower_input(source, options)))
        return combine(programs)
    used = frozenset(op.name.partition(".")[0] for op in walk(module))  # names of dialects
    readers = [frontend for frontend in frontends() if not frontend.dialects.isdisjoint(used)]
    if not readers:
        return module
    # Mixable: can lower single operations. Other frontends read whole modules only, and report operations of other
    # dialects as errors.
    mixable = [frontend for frontend in readers if isinstance(frontend, DialectFrontend)]
    is_of_one_dialect_frontend = len(mixable) == len(readers) == 1 and _reads_whole(mixable[0], used)
    if not mixable or is_of_one_dialect_frontend:
        return readers[0].read(module, options)
    from pydispatch.frontends.mixed import lower_mixed

    return lower_mixed(module, mixable, options)


def _reads_whole(frontend: DialectFrontend, used: frozenset[str]) -> bool:
    """Return whether a frontend can translate a whole module whose operations are of the dialects `used`.

    Besides its own `dialects`, it can translate its `companions`, and those that every module has, such as func.
    """
    return used <= frontend.dialects | frontend.companions | _STRUCTURE


def _head(path: Path) -> bytes:
    """Return the first HEAD bytes of a file; b"" for a path that is no regular file or cannot be read.

    The reader reports such a path, or reads it as MLIR text if it is a pipe, which can be read only once.
    """
    if not os.path.isfile(path):  # noqa: PTH113  (Path.is_file raises for a name that is too long)
        return b""
    try:
        return read_head(path, HEAD)
    except SystemError_:
        return b""
