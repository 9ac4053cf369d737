"""Calls of kernels written in Python."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import FunctionType, StringAttr

from pydispatch import ir
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.kernels.ascii_names import ascii_names
from pydispatch.kernels.kernel import KernelSource
from pydispatch.kernels.module import EXECUTABLE, Lowered
from pydispatch.locations import GeneratedText


def call_kernel(builder: Builder, kernel: KernelSource, operands: Sequence[Tensor]) -> list[Tensor]:
    """Call a kernel, whose parameters are views, on its own grid rather than on one that the call chooses.

    `operands` are the tensors of its parameters, in order, of their element types and ranks.

    Returns:
        A tensor for each parameter that the kernel writes, with the shape of its operand.
    """
    lowered, function = function_of_kernel(builder, kernel)
    values = []
    for operand, type in zip(operands, function.function_type.inputs, strict=True):
        value = builder.value(operand)
        # The sizes may be static here and dynamic in the kernel: a cast changes only the type.
        values.append(value if value.type == type else builder.add(tensor.CastOp(value, type)).dest)  # type: ignore[arg-type]
    # The call, whose results get the static sizes of their operands.
    call = builder.add(func.CallOp(function.sym_name.data, values, list(function.function_type.outputs)))
    results = []
    for index, result in zip(lowered.written, call.results, strict=True):
        dtype, shape = operands[index].dtype, operands[index].shape
        type = tensor_type(dtype.element, shape)
        value = result if result.type == type else builder.add(tensor.CastOp(result, type)).dest
        results.append(builder.wrap(dtype, shape, value))
    return results


def function_of_kernel(
    builder: Builder, kernel: KernelSource, grid_in_call: bool = False
) -> tuple[Lowered, func.FuncOp]:
    """Return a lowered kernel and the function that launches it, which are added to the module on first use.

    For a kernel `add` the module gets `stream.executable private @add_0_kernel`, the code, and `func.func private
    @add_0`, which dispatches it over the grid. The function's arguments are those of the kernel except static ones; it
    returns the new contents of the views that the kernel writes (`Lowered.written`).

    Args:
        builder: The builder of the program.
        kernel: The kernel.
        grid_in_call: Whether the function takes the numbers of workgroups along three axes as its last arguments; else
            the grid is the kernel's own.
    """
    known = builder.kernel_functions
    lowered_function = known.get((kernel, grid_in_call))
    if lowered_function is None:
        lowered = kernel.lowered(grid_in_call)
        name = builder.unused_name(f"{kernel.name}_{len(known)}")
        # The text names the executable of every kernel alike; a module may have several.
        text = lowered.program(name).replace(EXECUTABLE, f"@{name}_kernel")
        module = ir.parse(GeneratedText(ascii_names(text)), kernel.name)
        function = None
        for op in list(module.body.block.ops):  # the executable with the kernel, and the function that launches it
            op.detach()
            builder.module.body.block.add_op(op)
            if isinstance(op, func.FuncOp):
                function = op
        assert function is not None
        function.properties["sym_visibility"] = StringAttr("private")
        assert isinstance(function.function_type, FunctionType)
        lowered_function = known[kernel, grid_in_call] = lowered, function
    return lowered_function
