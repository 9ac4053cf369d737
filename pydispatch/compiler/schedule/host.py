"""One host function → one function of the host program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IndexType,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.dispatch.executables import tied_operands
from pydispatch.compiler.dispatch.form import symbol_name
from pydispatch.compiler.schedule.commands import CommandList, Storage, Tensor
from pydispatch.compiler.schedule.constants import Constants, dense_array
from pydispatch.compiler.schedule.exports import Executables
from pydispatch.compiler.schedule.scalars import Registers, ScalarLowering
from pydispatch.compiler.schedule.types import dtype_of
from pydispatch.compiler.words import bit_width, words_of
from pydispatch.errors import CompileError
from pydispatch.formats.program import (
    HIGH_WORD,
    Argument,
    BufferKind,
    Function,
    Op,
    Program,
    Result,
    element_bytes,
)
from pydispatch.ir import flow, hal
from pydispatch.ir.location import location_of

RETURNS = ("func.return", "util.return")


class HostFunction:
    """Walks one function; `lower` adds it to the program."""

    def __init__(self, op: Operation, executables: Executables, constants: Constants) -> None:
        self.op = op
        self.executables, self.constants = executables, constants
        type = cast(FunctionType, op.properties["function_type"])
        self.function: Function = executables.program.add_function(symbol_name(op), str(type))
        self.scalars = ScalarLowering(self.function)
        self.registers: Registers = {}
        self.tensors: dict[SSAValue, Tensor] = {}
        self.origins: dict[int, str] = {}
        self.checked: set[frozenset[int]] = set()
        self.commands = CommandList()
        self.transients: list[Storage] = []
        self.ended = False

    def lower(self) -> None:
        """CompileError, at its place, for anything that host code cannot be made of."""
        blocks = list(self.op.regions[0].blocks)
        if len(blocks) != 1:
            raise CompileError(
                f"function '@{self.function.name}' has control flow between blocks", location_of(self.op),
                "branches in host code are not supported",
            )  # fmt: skip
        for number, argument in enumerate(blocks[0].args):
            self._argument(number, argument)
        for op in blocks[0].ops:
            row = ROWS.get(op.name)
            if row is not None:
                row(self, op)
            elif any(isinstance(r.type, TensorType) for r in op.results) or not self.scalars.lower(op, self.registers):
                note = "it is made of dispatches, arith and math on tensors and scalars, tensor.dim and tensor.cast"
                raise CompileError(f"'{op.name}' is not supported in host code", location_of(op), note)
        if not self.ended:
            raise CompileError(f"function '@{self.function.name}' does not return", location_of(self.op))

    # -- arguments

    def _argument(self, number: int, value: SSAValue) -> None:
        name = value.name_hint or f"arg{number}"
        if isinstance(value.type, TensorType):
            shape = value.type.get_shape()
            dtype = dtype_of(value.type.element_type, location_of(self.op))
            argument = Argument(dtype, tuple(d if d >= 0 else -1 for d in shape), name)
            self.function.add_argument(argument)
            dims = []
            for axis, size in enumerate(shape):
                if size >= 0:
                    dims.append(self.function.constant(size))
                    continue
                register = self.function.emit(Op.DIM, number, axis)
                self.origins[register] = f"dimension {axis} of argument {number} ('{name}')"
                dims.append(register)
            storage = Storage(BufferKind.ARGUMENT, 0, number, argument.buffer)
            self.tensors[value] = Tensor(storage, tuple(dims), dtype)
            return
        bits = bit_width(value.type)
        if bits is None or (isinstance(value.type, IntegerType) and bits > 64):
            raise CompileError(
                f"argument {number} ('{name}') has the type {value.type}", location_of(self.op),
                "arguments are tensors and scalars of up to 64 bits",
            )  # fmt: skip
        self.function.add_argument(Argument(dtype_of(value.type, location_of(self.op)), None, name))
        self.registers[value] = self.function.emit(Op.SCALAR, number)
        self.origins[self.registers[value]] = f"argument {number} ('{name}')"

    # -- values

    def bytes_of(self, dims: Sequence[int], dtype: int) -> int:
        """The register of the bytes of a dense tensor."""
        return self.function.multiply([*dims, self.function.constant(element_bytes(dtype))])

    def describe(self, register: int) -> str:
        value = self.function.constant_value(register)
        return self.origins.get(register, "its declared size" if value is not None else "a computed size")

    def require_equal(self, a: int, b: int, what: str, op: Operation) -> None:
        """Both sizes must agree in every call; known ones are compared now."""
        known_a, known_b = self.function.constant_value(a), self.function.constant_value(b)
        if known_a is not None and known_b is not None and known_a != known_b:
            raise CompileError(f"{what}: {known_a} is not {known_b}", location_of(op))
        if frozenset((a, b)) in self.checked:
            return
        self.checked.add(frozenset((a, b)))
        place = location_of(op)
        where = f" ({op.name} at {Path(place.file).name}:{place.line}:{place.column})" if place else ""
        self.function.check_equal(
            a, b, f"{what}: {self.describe(a)} is {{a}}, {self.describe(b)} is {{b}}; they must be equal{where}"
        )

    def shape(self, type: Attribute, dynamic: Sequence[SSAValue], op: Operation) -> tuple[int, ...]:
        """Registers of the sizes of a type whose dynamic ones are given."""
        assert isinstance(type, TensorType)
        rest = iter(dynamic)
        dims = []
        for size in type.get_shape():
            if size >= 0:
                dims.append(self.function.constant(size))
            else:
                value = next(rest, None)
                if value is None:
                    raise CompileError(
                        f"a dynamic size of {type} is missing", location_of(op), "write it in braces: {%size}"
                    )
                dims.append(self.registers[value])
        return tuple(dims)

    def new_tensor(self, dims: tuple[int, ...], dtype: int) -> Tensor:
        storage = Storage(BufferKind.TRANSIENT, self.bytes_of(dims, dtype))
        self.transients.append(storage)
        return Tensor(storage, dims, dtype)

    # -- operations

    def constant(self, op: Operation) -> None:
        result = op.results[0]
        if not isinstance(result.type, TensorType):
            self.scalars.lower(op, self.registers)
            return
        value = op.properties["value"]
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise CompileError(f"constant of kind {value.name} is not supported", location_of(op))
        if not list(result.uses):
            return
        dtype = dtype_of(result.type.element_type, location_of(op))
        array = dense_array(value, dtype)
        dims = tuple(self.function.constant(d) for d in result.type.get_shape())
        storage = Storage(BufferKind.CONSTANT, 0, self.constants.add(array))
        self.tensors[result] = Tensor(storage, dims, dtype)

    def dim(self, op: Operation) -> None:
        tensor = self.tensors[op.operands[0]]
        axis = self.function.constant_value(self.registers[op.operands[1]])
        if axis is None or not 0 <= axis < len(tensor.dims):
            raise CompileError(f"axis {'of tensor.dim is not a constant' if axis is None else axis} "
                               f"does not name one of {len(tensor.dims)} axes", location_of(op))  # fmt: skip
        self.registers[op.results[0]] = tensor.dims[axis]

    def cast(self, op: Operation) -> None:
        """tensor.cast: the static sizes of the result are checked."""
        tensor = self.tensors[op.operands[0]]
        type = op.results[0].type
        assert isinstance(type, TensorType)
        dims = list(tensor.dims)
        for axis, size in enumerate(type.get_shape()):
            if size >= 0:
                fixed = self.function.constant(size)
                self.require_equal(dims[axis], fixed, f"axis {axis} of a cast to {type}", op)
                dims[axis] = fixed
        self.tensors[op.results[0]] = Tensor(tensor.storage, tuple(dims), tensor.dtype)

    def pass_through(self, op: Operation) -> None:
        for operand, result in zip(op.operands, op.results, strict=True):
            if operand in self.tensors:
                self.tensors[result] = self.tensors[operand]
            else:
                self.registers[result] = self.registers[operand]

    def dispatch(self, op: Operation) -> None:
        assert isinstance(op, flow.DispatchOp)
        executable, export = self.executables.find(op.entry_points.data, op)
        workload = [self.registers[v] for v in op.workload]
        number, grid = self.executables.grid(self.function, executable, export, workload, op)
        layout = self.executables.layout(executable, export)
        words: list[int] = []
        bindings: list[tuple[Storage, bool]] = []
        operands: dict[int, int] = {}  # argument of the dispatch -> its place among the bindings
        dims = iter(op.argument_dims)
        for index, value in enumerate(op.arguments):
            if not isinstance(value.type, TensorType):
                words += self.constant_words(value, op)
                continue
            tensor = self.tensors[value]
            dynamic = [next(dims) for size in value.type.get_shape() if size < 0]
            for axis, (have, said) in enumerate(zip(tensor.dims, self.shape(value.type, dynamic, op), strict=True)):
                self.require_equal(have, said, f"operand {index} of '@{export}', axis {axis}", op)
            operands[index] = len(bindings)
            bindings.append((tensor.storage, False))
        result_dims = iter(op.result_dims)
        for result, tied in zip(op.results, tied_operands(op), strict=True):
            type = result.type
            if not isinstance(type, TensorType):
                raise CompileError(f"a dispatch cannot return {type}", location_of(op), "its results are tensors")
            shape = self.shape(type, [next(result_dims) for size in type.get_shape() if size < 0], op)
            dtype = dtype_of(type.element_type, location_of(op))
            if tied < 0:
                self.tensors[result] = self.new_tensor(shape, dtype)
                bindings.append((self.tensors[result].storage, True))
                continue
            source = self.tensors[op.arguments[tied]]
            what = f"result tied to operand {tied} of '@{export}'"
            if type == op.arguments[tied].type:
                for axis, (have, said) in enumerate(zip(source.dims, shape, strict=True)):
                    self.require_equal(have, said, f"{what}, axis {axis}", op)
            else:  # Another view of the same memory.
                self.require_equal(
                    self.bytes_of(source.dims, source.dtype), self.bytes_of(shape, dtype), f"{what}, size in bytes", op
                )
            storage = self.in_place(op.arguments[tied], op)
            self.tensors[result] = Tensor(storage, shape, dtype)
            bindings[operands[tied]] = (storage, True)
        words = self.fit_words(words, layout.constants, op, export)
        bindings = self.order_bindings(bindings, op, self.executables.binding_order(executable, export))
        if len(bindings) != len(layout.bindings):
            raise CompileError(
                f"'@{export}' has {len(layout.bindings)} bindings in its layout, the dispatch gives {len(bindings)}",
                location_of(op),
                "tensor operands come first, in order, then the results that are not tied to an operand",
            )
        self.commands.dispatch(number, grid, words, bindings)

    def constant_words(self, value: SSAValue, op: Operation) -> list[int]:
        """The words of a scalar operand: registers, + HIGH_WORD for the upper half."""
        register = self.registers[value]
        words = words_of(value.type, location_of(op))
        bits = bit_width(value.type) or 64
        if isinstance(value.type, IntegerType) and bits < 32:
            register = self.function.emit(Op.ZEXT, register, 0, 0, bits)
        return [register, register | HIGH_WORD][:words]

    def fit_words(self, words: list[int], expected: int, op: Operation, export: str) -> list[int]:
        """Layouts written by hand may take the low half of an `index` alone."""
        if len(words) == expected:
            return words
        low = [w for w in words if not w & HIGH_WORD]
        if len(low) == expected and all(v.type == IndexType() or words_of(v.type) == 1 for v in scalars_of(op)):
            limit = self.function.constant((1 << 32) - 1)
            for value in scalars_of(op):
                if value.type == IndexType():
                    register = self.registers[value]
                    fits = self.function.emit(Op.CMP, register, limit, 0, 64 + 7 * 256)
                    self.function.check(
                        fits, f"operand of '@{export}': {{a}} does not fit the 32-bit constant of its layout"
                    )
            return low
        raise CompileError(
            f"'@{export}' takes {expected} constants, the dispatch gives {len(words)} 32-bit words", location_of(op),
            "scalars of more than 32 bits take two words, low and high; `constants` of the layout counts words",
        )  # fmt: skip

    def order_bindings(
        self, bindings: list[tuple[Storage, bool]], op: Operation, declared: Attribute | None
    ) -> list[tuple[Storage, bool]]:
        """The order that `hal.interface.bindings` of the dispatch or else of the export gives."""
        explicit = op.attributes.get("hal.interface.bindings", declared)
        if explicit is None:
            return bindings
        entries = explicit.data if isinstance(explicit, ArrayAttr) else (None,)
        if not all(isinstance(b, hal.InterfaceBindingAttr) for b in entries):
            raise CompileError("hal.interface.bindings is not a list of bindings", location_of(op),
                               "write [#hal.interface.binding<0>, ...], one for each tensor")  # fmt: skip
        order = [cast(hal.InterfaceBindingAttr, b).ordinal.data for b in entries]
        if sorted(order) != list(range(len(bindings))):
            raise CompileError(
                f"hal.interface.bindings {order} does not number {len(bindings)} bindings", location_of(op)
            )
        placed = dict(zip(order, bindings, strict=True))
        return [placed[i] for i in range(len(order))]

    def in_place(self, value: SSAValue, op: Operation) -> Storage:
        """The memory that `op` may write the tensor `value` in: its own, or a copy where it is still needed."""
        tensor = self.tensors[value]
        storage = tensor.storage
        shared = sum(
            1 for a in cast(flow.DispatchOp, op).arguments if a in self.tensors and self.tensors[a].storage is storage
        )
        if storage.kind is BufferKind.TRANSIENT and shared == 1 and not self.needed_after(storage, op):
            return storage
        copy = self.new_tensor(tensor.dims, tensor.dtype).storage
        self.commands.copy(storage, copy, copy.size)
        return copy

    def needed_after(self, storage: Storage, op: Operation) -> bool:
        """Whether anything behind `op` reads a value that lives in `storage`."""
        later = op.next_op
        while later is not None:
            for value in later.operands:
                if value in self.tensors and self.tensors[value].storage is storage and later.name != "tensor.dim":
                    return True
            later = later.next_op
        return False

    def finish(self, op: Operation) -> None:
        """The return: results get their memory, then commands are ordered and everything is laid out."""
        self.ended = True
        taken: set[int] = set()
        placed: list[Storage] = []
        for number, value in enumerate(op.operands):
            if value not in self.tensors:
                self._scalar_result(value)
                continue
            tensor = self.tensors[value]
            size = self.bytes_of(tensor.dims, tensor.dtype)
            storage = tensor.storage
            if storage.kind is not BufferKind.TRANSIENT or id(storage) in taken:
                storage = Storage(BufferKind.RESULT, size, number)
                self.commands.copy(tensor.storage, storage, size)
            else:
                storage.kind, storage.index, storage.size = BufferKind.RESULT, number, size
            taken.add(id(storage))
            placed.append(storage)
            self.function.results.append(Result(tensor.dtype, tensor.dims, name=value.name_hint or ""))
        self.commands.assign_regions()
        touched = self.commands.storages()
        for storage in dict.fromkeys([*touched, *placed]):
            self.place(storage)
        results = iter(placed)
        for result in self.function.results:
            if result.dims is not None:
                result.buffer = next(results).buffer
        self.commands.emit(self.function)

    def _scalar_result(self, value: SSAValue) -> None:
        register = self.registers[value]
        if isinstance(value.type, IntegerType) and value.type.width.data == 1:
            register = self.function.emit(Op.ZEXT, register, 0, 0, 1)
        self.function.results.append(Result(dtype_of(value.type, location_of(self.op)), None, register=register))

    def place(self, storage: Storage) -> None:
        if storage.kind is BufferKind.RESULT:
            storage.buffer = self.function.add_result_buffer(storage.index, storage.size)
        elif storage.kind is BufferKind.TRANSIENT:
            storage.buffer = self.function.add_transient(storage.size)
        elif storage.kind is BufferKind.CONSTANT:
            storage.buffer = self.function.add_constant_buffer(storage.index)


def scalars_of(op: Operation) -> list[SSAValue]:
    assert isinstance(op, flow.DispatchOp)
    return [v for v in op.arguments if not isinstance(v.type, TensorType)]


ROWS: dict[str, Callable[[HostFunction, Operation], None]] = {
    "arith.constant": HostFunction.constant,
    "tensor.dim": HostFunction.dim,
    "tensor.cast": HostFunction.cast,
    "util.optimization_barrier": HostFunction.pass_through,
    "flow.dispatch": HostFunction.dispatch,
    **dict.fromkeys(RETURNS, HostFunction.finish),
}


def schedule(module: ModuleOp) -> tuple[Program, Constants]:
    """The host program of a module whose executables are all `hal.executable`."""
    program = Program()
    executables = Executables(module, program)
    constants = Constants(program)
    for op in module.body.block.ops:
        if op.name not in ("func.func", "util.func") or not op.regions[0].blocks:
            continue
        visibility = op.properties.get("sym_visibility")
        if visibility is not None and cast(Any, visibility).data == "private":
            continue
        HostFunction(op, executables, constants).lower()
    return program, constants
