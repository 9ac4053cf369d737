"""Lowering of `flow.call` in straight-line host code to a host command."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.host.commands import HostTensor
from pydispatch.compiler.host.straight import Straight
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import Access, both_words
from pydispatch.formats.program.program import HostCommand, HostOperand
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.flow.calls import CallOp

MAX_SCALARS, MAX_TENSORS, MAX_SIZES = 32, 64, 128  # limits of a host command, see docs/program.md


def call(straight: Straight, op: Operation) -> None:
    """Lower a `flow.call`: emit checks of the sizes of operands and results, and add the host command.

    A tied result is in the memory of an argument, which the command overwrites; other results get new memory. Raises
    CompileError for unsupported types.
    """
    assert isinstance(op, CallOp) and isinstance(op.declared, FunctionType)
    name = op.callee.root_reference.data
    tied_arguments = {op.tied_argument(i) for i in range(len(op.results_))} - {None}  # indices; None: a new tensor
    operands: list[HostOperand] = []
    tensors: list[tuple[HostTensor, Access]] = []
    constants: list[int] = []  # registers of the words of scalar operands
    sizes: list[int] = []  # registers of the dynamic sizes of all tensors

    def add(tensor: HostTensor, declared: TensorType, access: Access, what: str) -> None:
        """Add a tensor operand. Pass its dynamic sizes to the command, and check those that `declared` states.

        what: name of the operand in messages.
        """
        for axis, (size, declared_size) in enumerate(zip(tensor.dims, declared.get_shape(), strict=True)):
            if declared_size < 0:
                sizes.append(size)
            else:
                straight.require_equal(
                    size, straight.function.constant(declared_size), f"{what} of '@{name}', axis {axis}", op
                )
        shape = tuple(n if n >= 0 else -1 for n in declared.get_shape())
        operands.append(HostOperand(dtype_of(declared.element_type, location_of(op)), shape, access))
        tensors.append((tensor, access))

    tensor_index: dict[int, int] = {}  # index of an argument → its index among the tensors
    for index, (value, declared) in enumerate(zip(op.arguments, op.declared.inputs.data, strict=True)):
        if isinstance(declared, TensorType):
            tensor = _overwritten_tensor(straight, op, value) if index in tied_arguments else straight.tensors[value]
            tensor_index[index] = len(tensors)
            add(tensor, declared, Access.READ_WRITE if index in tied_arguments else Access.READ, f"operand {index}")
            continue
        bits = bit_width(declared)
        if bits is None or bits > 64:  # None: no scalar
            raise CompileError(
                f"operand {index} of '@{name}' has the type {declared}", location_of(op),
                "host commands take tensors and scalars of up to 64 bits",
            )  # fmt: skip
        operands.append(HostOperand(dtype_of(declared, location_of(op)), sizes=None))
        constants += both_words(straight.registers[value])  # the low and the high 32 bits of the register
    for index, (result, declared) in enumerate(zip(op.results_, op.declared.outputs.data, strict=True)):
        if not isinstance(declared, TensorType):
            raise CompileError(f"'@{name}' cannot return {declared}", location_of(op), "host commands return tensors")
        tied = op.tied_argument(index)
        shape = straight.shape(declared, op.dims_of_result(index), op)
        dtype = dtype_of(declared.element_type, location_of(op))
        if tied is None:
            target_tensor = straight.new_tensor(shape, dtype)
            add(target_tensor, declared, Access.WRITE, f"result {index}")
        else:
            # The memory of the argument is the result; the run-time check compares their sizes in bytes.
            target, _access = tensors[tensor_index[tied]]
            what = f"result {index} of '@{name}', tied to operand {tied}: size in bytes"
            straight.require_equal(straight.size(target), straight.bytes_of(shape, dtype), what, op)
            target_tensor = HostTensor(
                storage=target.storage, dims=shape, dtype=dtype, offset=target.offset, length=target.length
            )
        straight.put(result, target_tensor)
    _check_limits(op, name, operands)
    index = straight.executables.program.add_command(HostCommand(name, tuple(operands)))
    straight.commands.host_command(index, sizes, constants, tensors)


def _overwritten_tensor(straight: Straight, op: CallOp, value: SSAValue) -> HostTensor:
    """Return the tensor that the command overwrites in place: the operand, or a copy of it.

    It is a copy, for example, if another operand is in the same memory, which the command would overwrite.
    """
    storage = straight.tensors[value].storage
    operands = [straight.tensors[a] for a in op.arguments if a in straight.tensors]
    return straight.in_place(value, operands_in_memory=sum(1 for t in operands if t.storage is storage))


def _check_limits(op: CallOp, name: str, operands: list[HostOperand]) -> None:
    """Raise CompileError if a host command takes too many scalars, tensors or dimensions."""
    ranks = [len(o.sizes) for o in operands if o.sizes is not None]
    counts = (("scalars", len(operands) - len(ranks), MAX_SCALARS), ("tensors", len(ranks), MAX_TENSORS),
             ("dimensions", sum(ranks), MAX_SIZES))  # fmt: skip
    for what, count, limit in counts:
        if count > limit:
            raise CompileError(f"'@{name}' takes {count} {what}, a host command at most {limit}", location_of(op))


ROWS: dict[str, Callable[[Straight, Operation], None]] = {"flow.call": call}
"""Name of an operation → function that lowers it."""
