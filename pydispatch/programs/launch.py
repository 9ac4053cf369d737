"""Kernels written in Python that programs call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.ir import SSAValue

from pydispatch import ir
from pydispatch.frontends.graph.dtypes import DTYPES
from pydispatch.frontends.graph.values import Tensor, tensor_type
from pydispatch.frontends.ops import elementwise
from pydispatch.frontends.ops.shapes import element
from pydispatch.kernels.ascii_names import ascii_names
from pydispatch.kernels.kernel import KernelSource
from pydispatch.kernels.module import EXECUTABLE, Lowered
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import dtype_from
from pydispatch.programs.trace import Trace


def launch(kernel: KernelSource, args: Sequence[Any], grid: Sequence[Any] | None) -> None:
    """Record the call of a kernel; arrays that it writes have new elements from here on.

    grid: three numbers or sizes of workgroups; None for the kernel's own grid.
    """
    trace = next(argument.trace for argument in args if isinstance(argument, Array))
    with trace.here():
        if len(args) != len(kernel.passed):
            names = ", ".join(argument.name for argument in kernel.passed)
            raise trace.fail(f"kernel '{kernel.name}' takes {len(kernel.passed)} arguments ({names}), got {len(args)}")
        lowered, function = _function(trace, kernel, grid is not None)
        types = list(function.function_type.inputs)
        values = [_value(trace, kernel, index, argument, types[index]) for index, argument in enumerate(args)]
        for argument in grid or ():
            values.append(trace.add(arith.IndexCastOp(trace.index(argument), DTYPES["i64"].element)).result)
        call = trace.add(func.CallOp(function.sym_name.data, values, list(function.function_type.outputs)))
        for index, result in zip(lowered.written, call.results, strict=True):
            array = args[index]
            if not isinstance(array, Array):
                raise trace.fail(
                    f"kernel '{kernel.name}' writes '{kernel.passed[index].name}', which is no array of the program",
                    "make one first: out = numpy.zeros_like(x)",
                )
            array.tensor = trace.wrap(array.tensor.dtype, array.shape, _cast(trace, result, array.tensor))


def _cast(trace: Trace, value: SSAValue, like: Tensor) -> SSAValue:
    """Cast a tensor value to the type of another tensor, which may have other static sizes."""
    type = tensor_type(like.dtype.element, like.shape)
    return value if value.type == type else trace.add(tensor.CastOp(value, type)).dest


def _value(trace: Trace, kernel: KernelSource, index: int, argument: Any, type: Any) -> SSAValue:
    """Return an argument of a kernel as a value of the type of its parameter.

    Raise CompileError if it does not match.
    """
    parameter = kernel.passed[index]
    assert parameter.type is not None
    dtype = dtype_from(_named(parameter.type.dtype))
    if parameter.type.shape is None:
        return element(trace, elementwise.convert(trace, trace.tensor_of(argument, dtype), dtype))
    operand = trace.tensor_of(argument)
    rank = len(parameter.type.shape)
    if operand.dtype != dtype or operand.rank != rank:
        raise trace.fail(f"'{parameter.name}' of kernel '{kernel.name}' is {parameter.type}, and this is {operand}",
                         f"convert it: x.astype(numpy.{dtype.numpy})")  # fmt: skip
    value = trace.value(operand)
    return value if value.type == type else trace.add(tensor.CastOp(value, type)).dest


def _named(name: str) -> Any:
    from pydispatch.patterns.types import DType

    return DType(name)


def _function(trace: Trace, kernel: KernelSource, grid_in_call: bool) -> tuple[Lowered, func.FuncOp]:
    """Return a lowered kernel and its host function, which is added to the module on first use."""
    known: dict[tuple[int, bool], tuple[Lowered, func.FuncOp]] = trace.__dict__.setdefault("launched", {})
    lowered_function = known.get((id(kernel), grid_in_call))
    if lowered_function is None:
        lowered = kernel.lowered(grid_in_call)
        name = f"{kernel.name}_{len(known)}"
        text = lowered.program(name).replace(EXECUTABLE, f"@{name}_kernel")
        module = ir.parse(ascii_names(text), kernel.name)
        function = None
        for op in list(module.body.block.ops):
            op.detach()
            trace.module.body.block.add_op(op)
            if isinstance(op, func.FuncOp):
                function = op
        assert function is not None
        function.properties["sym_visibility"] = StringAttr("private")
        assert isinstance(function.function_type, FunctionType)
        lowered_function = known[id(kernel), grid_in_call] = lowered, function
    return lowered_function
