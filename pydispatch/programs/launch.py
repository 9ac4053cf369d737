"""Calls of kernels in Python that a traced program records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, func, tensor
from xdsl.ir import SSAValue

from pydispatch.graph.dtypes import DTYPES
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.kernels.kernel import KernelSource
from pydispatch.operations import elementwise
from pydispatch.operations.python_kernels import function_of_kernel
from pydispatch.operations.shapes import element
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import dtype_from
from pydispatch.programs.trace import Trace


def launch(kernel: KernelSource, args: Sequence[Any], grid: Sequence[Any] | None) -> None:
    """Record the call of a kernel; arrays that it writes have new elements from here on.

    The kernel becomes a function of the program's module, which is called with the arguments and returns the new
    contents of the arrays that it writes. A kernel `scale(x, out)` that writes `out` is recorded as:

        %new = func.call @scale_0(%x, %out) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>

    and `out` has the elements %new in the statements that follow.

    Args:
        kernel: The kernel.
        args: Values of its parameters without the static ones, in order.
        grid: Count of workgroups along x, y and z, numbers or symbolic sizes; None for the kernel's own grid.
    """
    trace = next(argument.program_trace for argument in args if isinstance(argument, Array))
    with trace.here():
        if len(args) != len(kernel.passed):
            names = ", ".join(argument.name for argument in kernel.passed)
            raise trace.fail(f"kernel '{kernel.name}' takes {len(kernel.passed)} arguments ({names}), got {len(args)}")
        has_grid_arguments = grid is not None  # the function then has three more parameters, the counts of workgroups
        lowered, function = function_of_kernel(trace, kernel, has_grid_arguments)
        if lowered.prints:
            raise trace.fail(
                f"kernel '{kernel.name}' prints, which kernels in programs do not",
                "leave print out, or call the kernel outside of the program",
            )
        types = list(function.function_type.inputs)
        values = [_value(trace, kernel, index, argument, types[index]) for index, argument in enumerate(args)]
        for argument in grid or ():  # further arguments of the function, of i64
            values.append(trace.add(arith.IndexCastOp(trace.index(argument), DTYPES["i64"].element)).result)
        call = trace.add(func.CallOp(function.sym_name.data, values, list(function.function_type.outputs)))
        for index, result in zip(lowered.written, call.results, strict=True):  # positions of the arguments it writes
            array = args[index]
            if not isinstance(array, Array):
                raise trace.fail(
                    f"kernel '{kernel.name}' writes '{kernel.passed[index].name}', which is no array of the program",
                    "make one first: out = numpy.zeros_like(x)",
                )
            array.tensor = trace.wrap(array.tensor.dtype, array.shape, _cast(trace, result, array.tensor))


def _cast(trace: Trace, value: SSAValue, like: Tensor) -> SSAValue:
    """Cast a tensor value to the type of `like`, which has the same sizes.

    The types may differ in which of the sizes are static: tensor<4x?xf32> and tensor<?x8xf32>.
    """
    type = tensor_type(like.dtype.element, like.shape)
    return value if value.type == type else trace.add(tensor.CastOp(value, type)).dest


def _value(trace: Trace, kernel: KernelSource, index: int, argument: Any, ir_type: Any) -> SSAValue:
    """Return an argument of a kernel as an SSA value of the type of its parameter in the kernel's function.

    The argument of a scalar parameter is a number or an array of one element, which is converted to the parameter's
    type. That of an array parameter must have its element type and rank.

    Args:
        trace: The program that calls the kernel.
        kernel: The kernel.
        index: Position of the parameter in `kernel.passed`, the parameters without the static ones.
        argument: The argument.
        ir_type: Type of the parameter, in which other sizes may be static than in the program's.

    Raises:
        CompileError: The argument is an array of another element type or rank, or one of several elements for a scalar.
    """
    parameter = kernel.passed[index]
    assert parameter.type is not None
    dtype = dtype_from(_type_of_name(parameter.type.dtype))
    if parameter.type.shape is None:
        scalar = trace.tensor_of(argument, dtype)
        if any(size != 1 for size in scalar.shape):
            raise trace.fail(f"'{parameter.name}' of kernel '{kernel.name}' is {parameter.type}, and this is {scalar}",
                             "pass a number or an array of one element: x[0]")  # fmt: skip
        return element(trace, elementwise.convert(trace, scalar, dtype))
    operand = trace.tensor_of(argument)
    rank = len(parameter.type.shape)
    if operand.dtype != dtype or operand.rank != rank:
        raise trace.fail(f"'{parameter.name}' of kernel '{kernel.name}' is {parameter.type}, and this is {operand}",
                         f"convert it: x.astype(numpy.{dtype.numpy})")  # fmt: skip
    value = trace.value(operand)
    # The cast changes which sizes are static: tensor<4xf32> to tensor<?xf32>.
    return value if value.type == ir_type else trace.add(tensor.CastOp(value, ir_type)).dest


def _type_of_name(name: str) -> Any:
    """Return the DType of kernels and patterns that has this name, such as "f32"."""
    from pydispatch.patterns.types import DType

    return DType(name)
