"""Lowering of a list of operations without branches to one straight-line function of the host program.

Scalars and sizes are in registers of the function, which are named by their indices. A tensor is a `HostTensor`: a
range of memory, the registers of its sizes (`dims`), and a word for its element type (`dtype`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.host.chains import form_chains
from pydispatch.compiler.host.commands import CommandList, HostTensor, Storage
from pydispatch.compiler.host.scalars import Registers, ScalarLowering
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.tensor_ops.terms import Product, Stated, Sum
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import element_bits
from pydispatch.formats.program.program import NONE, BufferKind, FunctionArgument, Opcode, ProgramFunction, Result
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.values import Dim

if TYPE_CHECKING:
    from pydispatch.compiler.host.constants import Constants
    from pydispatch.compiler.host.exports import Executables

SIZE_QUERIES = ("tensor.dim", "tensor.rank")
"""Operations that read only the sizes of a tensor, never its elements."""

END = 1 << 60
"""Position of the reads of results, after those of all operations."""

Rules = Mapping[str, Callable[[Any, Operation], None]]
"""Name of an operation on tensors, and the function that lowers it, given a `Straight` and the operation."""


class Straight:
    """Builder of one straight-line function of the host program, without branches.

    Call `argument` for each argument, then `lower` with the operations, then `finish`.

    Attributes:
        function: The function.
        executables: The executables that it may dispatch.
        constants: The constants of the program.
        host_function: The host function that is lowered, or whose segment is; errors state its location if no operation
            has caused them.
        rules: Name of an operation on tensors → function that lowers it (`host/rules.py: tensor_rules`).
        scalars: Lowering of scalar operations into the function.
        registers: Scalar → register of its value.
        tensors: Tensor → its memory and sizes.
        commands: Commands so far: dispatches, copies and fills.
        position: Index of the operation that is being lowered.
    """

    def __init__(
        self, function: ProgramFunction, executables: Executables, constants: Constants, host_function: Operation,
        rules: Rules,
    ) -> None:  # fmt: skip
        """Begin the function without registers, tensors and commands. The class explains the arguments."""
        self.function, self.executables, self.constants = function, executables, constants
        self.host_function, self.rules = host_function, rules
        self.scalars = ScalarLowering(function)
        self.registers: Registers = {}
        self.tensors: dict[SSAValue, HostTensor] = {}
        self.commands = CommandList(function)
        self.position = 0  # of the operation that is being lowered, among those of `lower`
        self._origins: dict[int, str] = {}  # register → the argument that its value comes from, for messages
        self._checked: set[frozenset[int]] = set()  # pairs of registers whose equality the function already checks
        self._last_use: dict[SSAValue, int] = {}  # tensor → position of the last operation that reads it
        self._residents: dict[Storage, list[SSAValue]] = {}  # storage → the tensors in it, also overwritten ones

    # -- arguments

    def argument(self, value: SSAValue, name: str = "") -> None:
        """Add `value` as the next argument of the function. `name` is shown in messages; by default its name hint.

        Raises CompileError for types that are no tensors and no scalars of up to 64 bits.
        """
        index = len(self.function.arguments)
        name = name or value.name_hint or f"arg{index}"
        location = location_of(self.host_function)
        if isinstance(value.type, TensorType):
            self.put(value, self._tensor_argument(value.type, index, name))
            return
        bits = bit_width(value.type)
        if bits is None or (isinstance(value.type, IntegerType) and bits > 64):
            raise CompileError(
                f"argument {index} ('{name}') has the type {value.type}", location,
                "arguments are tensors and scalars of up to 64 bits",
            )  # fmt: skip
        self.function.add_argument(FunctionArgument(dtype_of(value.type, location), dims=None, name=name))
        self.registers[value] = self.function.scalar_argument(index)
        # Messages about sizes that are equal to this register name the argument.
        self._origins[self.registers[value]] = f"argument {index} ('{name}')"

    def _tensor_argument(self, type_: TensorType[Attribute], index: int, name: str) -> HostTensor:
        """Add argument `index` of the function, a tensor, and return it. name: its name in messages."""
        shape = type_.get_shape()
        dtype = dtype_of(type_.element_type, location_of(self.host_function))
        argument = FunctionArgument(dtype, tuple(d if d >= 0 else -1 for d in shape), name)
        self.function.add_argument(argument)
        # Registers of the sizes: constants, or read from the argument at each call. Messages about a register that was
        # read name the dimension (`_origins`).
        dims = []
        for axis, size in enumerate(shape):
            if size >= 0:
                dims.append(self.function.constant(size))
                continue
            register = self.function.emit(Opcode.DIM, index, axis)
            self._origins[register] = f"dimension {axis} of argument {index} ('{name}')"
            dims.append(register)
        storage = Storage(BufferKind.ARGUMENT, index=index, buffer=argument.buffer)
        return HostTensor(storage, tuple(dims), dtype)

    # -- operations

    def lower(self, ops: Sequence[Operation], outputs: Iterable[SSAValue]) -> None:
        """Lower `ops` in order. outputs: the values that `finish` will return.

        Raises CompileError at an operation that straight-line host code does not support.
        """
        # Queries of sizes read registers: they do not keep the memory of a tensor from being overwritten in place.
        self._last_use = {
            value: position for position, op in enumerate(ops) if op.name not in SIZE_QUERIES for value in op.operands
        }
        self._last_use |= dict.fromkeys(outputs, END)
        for position, op in enumerate(ops):
            self.position = position  # `is_live` compares it with last uses
            rule = self.rules.get(op.name)
            if rule is not None:
                rule(self, op)
                continue
            is_on_scalars = not any(isinstance(r.type, TensorType) for r in op.results)
            is_lowered = is_on_scalars and self.scalars.lower(op, self.registers)
            if not is_lowered:
                raise unsupported(op, supported=self.rules)

    def put(self, value: SSAValue, tensor: HostTensor) -> None:
        """Record the memory and sizes of `value`."""
        self.tensors[value] = tensor
        self._residents.setdefault(tensor.storage, []).append(value)

    def is_live(self, storage: Storage) -> bool:
        """Return whether an operation after the current one reads a value in `storage`."""
        return any(self._last_use.get(value, -1) > self.position for value in self._residents.get(storage, ()))

    # -- sizes

    def bytes_of(self, dims: Sequence[int], dtype: int) -> int:
        """Emit the size of a dense tensor in bytes, rounded up to whole bytes, and return its register.

        dims: registers of its sizes. dtype: word that encodes its element type.
        """
        bits = element_bits(dtype)
        if bits >= 8:
            return self.function.multiply([*dims, self.function.constant(bits // 8)])
        packed = self.function.multiply([*dims, self.function.constant(bits)])
        known = self.function.constant_value(packed)
        if known is not None:
            return self.function.constant(-(-known // 8))
        return self.function.binary(Opcode.CEILDIVU, packed, self.function.constant(8))

    def add(self, lhs: int, rhs: int) -> int:
        """Emit a sum at 64 bits, and return its register; constants are folded."""
        known_a, known_b = self.function.constant_value(lhs), self.function.constant_value(rhs)
        if known_a is not None and known_b is not None:
            return self.function.constant(known_a + known_b)
        if known_a == 0 or known_b == 0:
            return rhs if known_a == 0 else lhs
        return self.function.binary(Opcode.ADD, lhs, rhs)

    def describe(self, register: int) -> str:
        """Return what the size in a register is, for messages, such as "dimension 0 of argument 1 ('x')"."""
        is_constant = self.function.constant_value(register) is not None
        other_size = "its declared size" if is_constant else "a computed size"  # not of an argument
        return self._origins.get(register, other_size)

    def require_equal(self, lhs: int, rhs: int, size_name: str, op: Operation) -> None:
        """Emit a check that two registers, which have sizes, are equal: it fails the call if they differ.

        Raises CompileError if both are constants and differ; equal constants need no check. A check that was emitted
        before is not repeated.

        Args:
            lhs, rhs: The registers.
            size_name: Name of the size, with which the message begins, such as "operand 0 of '@mul', axis 1".
            op: The operation that requires it, for the location.
        """
        known_a, known_b = self.function.constant_value(lhs), self.function.constant_value(rhs)
        if known_a is not None and known_b is not None and known_a != known_b:
            raise CompileError(f"{size_name}: {known_a} is not {known_b}", location_of(op))
        if frozenset((lhs, rhs)) in self._checked:  # in either order
            return
        self._checked.add(frozenset((lhs, rhs)))
        # Emits nothing for one register, or for equal constants. A failing check replaces {a} and {b} by the values.
        self.function.check_equal(
            lhs,
            rhs,
            f"{size_name}: {self.describe(lhs)} is {{a}}, {self.describe(rhs)} is {{b}}; they must be equal{where(op)}",
        )

    def shape(self, type: Attribute, dynamic: Sequence[SSAValue], op: Operation) -> tuple[int, ...]:
        """Return the registers of the sizes of a tensor type.

        Args:
            type: The type.
            dynamic: Its dynamic sizes, in order.
            op: The operation that states them. Raises CompileError there if one is missing.
        """
        assert isinstance(type, TensorType)
        remaining = iter(dynamic)
        dims = []  # registers
        for size in type.get_shape():
            if size >= 0:
                dims.append(self.function.constant(size))
            else:  # a dynamic size, the next of `dynamic`
                value = next(remaining, None)
                if value is None:
                    raise CompileError(
                        f"a dynamic size of {type} is missing", location_of(op), "write it in braces: {%size}"
                    )
                dims.append(self.registers[value])
        return tuple(dims)

    def size_register(self, stated: Stated | None, op: Operation) -> int:
        """Return the register of a size of a result of `op`, which the rule of `op` (`TensorOp.size`) states as a term.

        A term is an integer, an index value, a size of another tensor, or a sum or product of terms. The product of
        Dim(%x, 0) and 4 gives a register with 4 times the size of axis 0 of the tensor %x.

        Raises CompileError if host code cannot compute it: for None, a size that the rule does not state, and for an
        `SizeElement`, an element of a tensor of sizes.
        """
        if isinstance(stated, int):
            return self.function.constant(stated)
        if isinstance(stated, SSAValue):
            return self.registers[stated]
        if isinstance(stated, Dim):
            return self.tensors[stated.tensor].dims[stated.axis]
        if isinstance(stated, Product):
            return self.function.multiply([self.size_register(part, op) for part in stated.parts])
        if isinstance(stated, Sum):
            first, *rest = (self.size_register(part, op) for part in stated.parts)
            return reduce(self.add, rest, first)
        raise CompileError(f"host code does not know the sizes of the result of '{op.name}'", location_of(op))

    # -- memory

    def new_tensor(self, dims: tuple[int, ...], dtype: int) -> HostTensor:
        """Return a new tensor in transient memory of its own."""
        return HostTensor(Storage(BufferKind.TRANSIENT, size=self.bytes_of(dims, dtype)), dims, dtype)

    def size(self, tensor: HostTensor) -> int:
        """Return the register of a tensor's size in bytes."""
        return tensor.length if tensor.is_part else self.bytes_of(tensor.dims, tensor.dtype)

    def copy_of(self, tensor: HostTensor) -> HostTensor:
        """Emit a copy of a tensor, and return it."""
        copy = self.new_tensor(tensor.dims, tensor.dtype)
        self.commands.copy(tensor, copy, copy.storage.size)
        if tensor.storage.kind is BufferKind.ARGUMENT and not tensor.is_part:
            copy.storage.copied_from = tensor.storage  # a result may share its memory (`_reuse_arguments`)
        return copy

    def in_place(self, value: SSAValue, *, other_reads_memory: bool) -> HostTensor:
        """Return a tensor that the current operation may overwrite: that of `value`, or a copy.

        It is a copy if an operation reads the memory later, if the memory is no transient of this function, or if
        the operation reads another operand in the memory of `value` (`other_reads_memory`), which would be overwritten.
        """
        tensor = self.tensors[value]
        is_transient = tensor.storage.kind is BufferKind.TRANSIENT
        if is_transient and not other_reads_memory and not self.is_live(tensor.storage):
            return tensor
        return self.copy_of(tensor)

    # -- the end

    def finish(self, values: Sequence[SSAValue], names: Sequence[str] = ()) -> None:
        """Define the results of the function, order its commands and assign memory to its buffers.

        Until then, commands refer to storages: ranges of memory that are not yet buffers of the function.

        Args:
            values: The results.
            names: Their names; empty for none.
        """
        # The results, which may add copies to the commands.
        storages: list[Storage] = []  # of the results that are tensors
        for index, (value, name) in enumerate(zip(values, names or [""] * len(values), strict=True)):
            if value in self.tensors:
                tensor = self.tensors[value]
                storages.append(self._result_storage(tensor, index))
                self.function.results.append(Result(tensor.dtype, tensor.dims, name=name))
            else:
                self._scalar_result(value, name)
        # The order of the commands: a region is a set of commands that may run at the same time. The two calls after it
        # use the regions: results may share memory with arguments, and dispatches may run tile by tile.
        self.commands.assign_regions()
        self._reuse_arguments(storages)
        form_chains(self.commands.commands)  # may shrink transients, before they become buffers
        for storage in dict.fromkeys([*self.commands.storages(), *storages]):
            self._assign_buffer(storage)
        tensor_results = [result for result in self.function.results if result.dims is not None]
        for result, storage in zip(tensor_results, storages, strict=True):
            result.buffer = storage.buffer
        self.commands.emit(self.function)  # all storages have buffers now

    def _result_storage(self, tensor: HostTensor, index: int) -> Storage:
        """Return the storage of result `index`, the tensor `tensor`.

        If the tensor is a whole transient storage, that becomes the storage of the result. Any other tensor is copied
        into a new storage. A copy of a whole argument is recorded in `copied_from`: the result may then share the
        memory of the argument (`_reuse_arguments`).
        """
        storage, size = tensor.storage, self.size(tensor)
        if storage.kind is BufferKind.TRANSIENT and not tensor.is_part:
            storage.kind, storage.index, storage.size = BufferKind.RESULT, index, size
            return storage
        copy = Storage(BufferKind.RESULT, size=size, index=index)
        if storage.kind is BufferKind.ARGUMENT and not tensor.is_part:
            copy.copied_from = storage
        self.commands.copy(tensor, HostTensor(copy, tensor.dims, tensor.dtype), size)
        return copy

    def _reuse_arguments(self, result_storages: Sequence[Storage]) -> None:
        """Tie each result that begins as a copy of an argument to the argument, if no later command reads that.

        A caller may then pass the same memory for both.
        """
        tied: set[Storage] = set()  # arguments; each may be tied to one result
        for storage in result_storages:
            source = storage.copied_from
            if source is None or source in tied or not self.commands.may_share(source, storage):
                continue
            tied.add(source)
            self.function.results[storage.index].tied = source.index

    def _scalar_result(self, value: SSAValue, name: str) -> None:
        """Add a scalar to the results of the function."""
        register = self.registers[value]
        if isinstance(value.type, IntegerType) and value.type.width.data == 1:  # callers expect 1 for true, not -1
            register = self.function.unary(Opcode.ZEXT, register, width=1)
        dtype = dtype_of(value.type, location_of(self.host_function))
        self.function.results.append(Result(dtype, dims=None, register=register, name=name))

    def _assign_buffer(self, storage: Storage) -> None:
        """Assign a buffer of the function to a storage that has none. Arguments have theirs from the start."""
        if storage.buffer != NONE:
            return
        if storage.kind is BufferKind.RESULT:
            storage.buffer = self.function.add_result_buffer(storage.index, storage.size)
        elif storage.kind is BufferKind.TRANSIENT:
            storage.buffer = self.function.add_transient(storage.size, storage.tile_bytes)
        elif storage.kind is BufferKind.CONSTANT:
            storage.buffer = self.function.add_constant_buffer(storage.index)


def where(op: Operation) -> str:
    """Return the location of an operation for run-time messages: ` (tensor.cast at model.mlir:3:5)`."""
    location = location_of(op)
    return f" ({op.name} at {location.short()})" if location else ""


def unsupported(op: Operation, *, supported: Iterable[str]) -> CompileError:
    """Return the error for an operation that host code does not support.

    supported: names of the operations on tensors that it supports, for the message.
    """
    if op.name == "tensor.extract":
        note = "an element of a tensor is read back between two dispatches only"
    elif any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
        known = sorted(name for name in supported if name.startswith(("tensor.", "flow.", "hal.", "util.")))
        note = f"on tensors the host knows dispatches and {', '.join(known)}"
    else:
        note = "the host computes with arith, math and affine on scalars, and with scf, cf, util.global and check"
    return CompileError(f"'{op.name}' is not supported in host code", location_of(op), note)
