"""Lowering of `flow.call` in straight-line host code to a host command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

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

    A tied result is in the memory of an argument, which the command overwrites; other results get new memory. Scalars
    are passed by value. Raises CompileError for a result that is no tensor, and for unsupported types.

    Args:
        straight: Builder of the straight-line function of the host program.
        op: The call.
    """
    assert isinstance(op, CallOp) and isinstance(op.declared, FunctionType)
    lowering = _CallLowering(straight, op, op.callee.root_reference.data)
    tied_arguments = {op.tied_argument(i) for i in range(len(op.results_))} - {None}  # indices; None: a new tensor
    for index, declared in enumerate(op.declared.inputs):
        if not isinstance(declared, TensorType):
            lowering.add_scalar(index, declared)
        else:
            lowering.add_argument(index, declared, is_overwritten=index in tied_arguments)
    for index, declared in enumerate(op.declared.outputs):
        if not isinstance(declared, TensorType):
            raise CompileError(
                f"'@{lowering.name}' cannot return {declared}", location_of(op), "host commands return tensors"
            )
        lowering.add_result(index, declared)
    lowering.finish()


@dataclass
class _CallLowering:
    """Operands of one `flow.call` while it is lowered: all arguments are added in order, then all results.

    Attributes:
        straight: The function that receives the code.
        op: The call.
        name: Name of the called function.
        operands: Types of the command's operands so far: those of arguments, then of results that are not tied.
        tensors: The tensors among the operands, with their access by the command.
        tensor_of_argument: Index of a tensor argument -> its tensor.
        constants: Registers of the 32-bit words of scalar operands.
        sizes: Registers of the dynamic sizes of all tensors.
    """

    straight: Straight
    op: CallOp
    name: str
    operands: list[HostOperand] = field(default_factory=list)
    tensors: list[tuple[HostTensor, Access]] = field(default_factory=list)
    tensor_of_argument: dict[int, HostTensor] = field(default_factory=dict)
    constants: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def add_scalar(self, index: int, declared: Attribute) -> None:
        """Add argument `index`, a scalar of the type `declared`, to the command: its operand and its two words."""
        bits = bit_width(declared)
        if bits is None or bits > 64:  # None: no scalar
            raise CompileError(
                f"operand {index} of '@{self.name}' has the type {declared}", location_of(self.op),
                "host commands take tensors and scalars of up to 64 bits",
            )  # fmt: skip
        self.operands.append(HostOperand(dtype_of(declared, location_of(self.op)), sizes=None))
        # The low and the high 32 bits of the register:
        self.constants += both_words(self.straight.registers[self.op.arguments[index]])

    def add_argument(self, index: int, declared: TensorType[Attribute], is_overwritten: bool) -> None:
        """Add argument `index`, a tensor. is_overwritten: a result is tied to it."""
        value = self.op.arguments[index]
        tensor = _overwritten_tensor(self.straight, self.op, value) if is_overwritten else self.straight.tensors[value]
        self.tensor_of_argument[index] = tensor
        self._add(tensor, declared, Access.READ_WRITE if is_overwritten else Access.READ, f"operand {index}")

    def add_result(self, index: int, declared: TensorType[Attribute]) -> None:
        """Add result `index`: a new tensor, or the memory of the argument that the result is tied to."""
        straight, op = self.straight, self.op
        shape = straight.shape(declared, op.dims_of_result(index), op)
        dtype = dtype_of(declared.element_type, location_of(op))
        tied = op.tied_argument(index)
        if tied is None:
            tensor = straight.new_tensor(shape, dtype)
            self._add(tensor, declared, Access.WRITE, f"result {index}")
        else:
            # The command writes the argument: it gets no further tensor for the result.
            # Types of the result and the argument may differ, so the run-time check compares their sizes in bytes.
            target = self.tensor_of_argument[tied]
            size_name = f"result {index} of '@{self.name}', tied to operand {tied}: size in bytes"
            straight.require_equal(straight.size(target), straight.bytes_of(shape, dtype), size_name, op)
            tensor = HostTensor(
                storage=target.storage, dims=shape, dtype=dtype, offset=target.offset, length=target.length
            )
        straight.put(op.results_[index], tensor)

    def _add(self, tensor: HostTensor, declared: TensorType[Attribute], access: Access, operand: str) -> None:
        """Add a tensor operand to the command.

        The command receives each size that is dynamic in the type `declared`. For each static size, the function checks
        at run time that the tensor has it: a tensor may have dynamic sizes where the command has static ones.

        access: whether the command reads or writes it. operand: name of the operand in messages.
        """
        straight, op = self.straight, self.op
        for axis, (size, declared_size) in enumerate(zip(tensor.dims, declared.get_shape(), strict=True)):
            if declared_size < 0:
                self.sizes.append(size)
            else:
                straight.require_equal(
                    size, straight.function.constant(declared_size), f"{operand} of '@{self.name}', axis {axis}", op
                )
        shape = tuple(n if n >= 0 else -1 for n in declared.get_shape())
        self.operands.append(HostOperand(dtype_of(declared.element_type, location_of(op)), shape, access))
        self.tensors.append((tensor, access))

    def finish(self) -> None:
        """Add the host command with all operands to the program and to the function's commands."""
        _check_limits(self.op, self.name, self.operands)
        index = self.straight.executables.program.add_command(HostCommand(self.name, tuple(self.operands)))
        self.straight.commands.host_command(index, self.sizes, self.constants, self.tensors)


def _overwritten_tensor(straight: Straight, op: CallOp, value: SSAValue) -> HostTensor:
    """Return the tensor that the command overwrites in place: the operand, or a copy of it.

    It is a copy, for example, if another operand is in the same memory, which the command would overwrite.
    """
    storage = straight.tensors[value].storage
    operands = [straight.tensors[a] for a in op.arguments if a in straight.tensors]
    operands_in_memory = sum(1 for t in operands if t.storage is storage)
    return straight.in_place(value, other_reads_memory=operands_in_memory > 1)


def _check_limits(op: CallOp, name: str, operands: list[HostOperand]) -> None:
    """Raise CompileError if the operands of host command `name` are too many scalars, tensors or dimensions in all."""
    ranks = [len(o.sizes) for o in operands if o.sizes is not None]
    counts = (("scalars", len(operands) - len(ranks), MAX_SCALARS), ("tensors", len(ranks), MAX_TENSORS),
             ("dimensions", sum(ranks), MAX_SIZES))  # fmt: skip
    for unit, count, limit in counts:
        if count > limit:
            raise CompileError(f"'@{name}' takes {count} {unit}, a host command at most {limit}", location_of(op))


ROWS: dict[str, Callable[[Straight, Operation], None]] = {"flow.call": call}
"""Name of an operation → function that lowers it."""
