"""Entry point of the ONNX frontend: reads a model file into a program."""

from __future__ import annotations

import os
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch.errors import CompileError, Location
from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.operators import OPERATORS
from pydispatch.frontends.onnx.protobuf import FormatError
from pydispatch.frontends.onnx.tensors import Files, ModelFault, map_file
from pydispatch.frontends.onnx.trace import OnnxTracer
from pydispatch.frontends.source import ReadOptions
from pydispatch.graph.builder import Builder


def read(source: str | os.PathLike[str] | bytes, options: ReadOptions | None = None) -> ModuleOp:
    """Return the program of an ONNX model.

    The function is named `main`. Weights remain memory-mapped views of the files, or are left out of the program and
    named as in the model (`options.weights`).

    Args:
        source: The path of a model, or its bytes. External weights can only be found if a path is passed.
        options: Shapes, constants and kernels from the caller, and where weights go; None for the defaults.

    Raises:
        CompileError: The file is invalid or a node is not supported; the error names the file and the node.
    """
    path = None if isinstance(source, (bytes, bytearray, memoryview)) else Path(source)
    filename = str(path) if path is not None else "<onnx>"
    try:
        data = memoryview(source) if path is None else map_file(path)  # type: ignore[arg-type]
        source_model = model.ModelProto.read(data.cast("B"))
    except (FormatError, ModelFault) as fault:
        raise CompileError(f"this is no ONNX model: {fault}", Location(filename, 0, 0)) from None
    options = options or ReadOptions()
    builder = Builder(filename, options.weights)
    tracer = OnnxTracer(builder, source_model, Files(path.parent if path is not None else None), OPERATORS, options)
    tracer.main()
    return builder.module
