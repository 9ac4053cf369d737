"""Lowering of `flow.dispatch` in straight-line host code: its grid, constants and bindings.

Code is emitted into the function that `straight` builds. Sizes and scalars are in registers, which are named by their
indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.host.commands import Binding, HostTensor
from pydispatch.compiler.host.scalar_table import ULE
from pydispatch.compiler.host.straight import Straight
from pydispatch.compiler.kernel_ir.words import bit_width, words_of
from pydispatch.compiler.outline.dispatches import tied_operands
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import both_words
from pydispatch.formats.program.program import HIGH_WORD, Opcode
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal


def dispatch(straight: Straight, op: Operation) -> None:
    """Lower a `flow.dispatch`: emit checks of the sizes of operands, and add the command.

    For example,

        %r = flow.dispatch @ex::@neg[%n](%x, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}

    adds a dispatch with the grid that @neg computes from the workload %n. Its constants are the low and the high 32-bit
    word of %n. Its bindings are %x and a new tensor of %n elements, which it writes. A result that is tied to an
    operand adds no binding: the dispatch then writes the binding of the operand.

    Raises CompileError if its operands do not fit the layout of the export: its numbers of constants and bindings.
    """
    assert isinstance(op, flow.DispatchOp)
    executables = straight.executables
    executable, export = executables.find(op.entry_points.data, op)
    workload = [straight.registers[v] for v in op.workload]
    export_register, grid = executables.grid(straight.function, executable, export, workload, op)
    layout = executables.layout(executable, export)
    alignment = executables.alignment(executable)
    words, binding_of_argument = _arguments(straight, op, export, alignment)
    new_bindings = _bind_results(straight, op, export, alignment, binding_of_argument)
    # Constants and bindings in the form of the export's layout.
    words = _words_of_layout(straight, words, layout.constants, op, export)
    bindings = [*binding_of_argument.values(), *new_bindings]
    bindings = _in_binding_order(bindings, op, declared=executables.binding_order(executable, export))
    if len(bindings) != len(layout.bindings):
        raise CompileError(
            f"'@{export}' has {len(layout.bindings)} bindings in its layout, the dispatch gives {len(bindings)}",
            location_of(op),
            "tensor operands come first, in order, then the results that are not tied to an operand",
        )
    # Bytes of each binding that a workgroup accesses: dispatches with equal slices may run tile by tile.
    slice_bytes = executables.slice_bytes(executable, export)
    straight.commands.dispatch(export_register, grid, words, bindings, slice_bytes)


def _bind_results(
    straight: Straight, op: flow.DispatchOp, export: str, alignment: int, binding_of_argument: dict[int, Binding]
) -> list[Binding]:
    """Create the tensors of a dispatch's results, and return the bindings of those that are not tied to an operand.

    The binding of a tied result replaces that of its operand in `binding_of_argument`.

    Args:
        straight: The function that receives the code.
        op: The dispatch.
        export: Name of its export, for messages.
        alignment: Alignment in bytes that the executable requires.
        binding_of_argument: Index of a tensor operand -> its binding.
    """
    new_bindings: list[Binding] = []
    result_dims = iter(op.result_dims)
    for result, tied in zip(op.results, tied_operands(op), strict=True):
        if not isinstance(result.type, TensorType):
            raise CompileError(f"a dispatch cannot return {result.type}", location_of(op), "its results are tensors")
        shape = straight.shape(result.type, [next(result_dims) for n in result.type.get_shape() if n < 0], op)
        dtype = dtype_of(result.type.element_type, location_of(op))
        if tied < 0:  # not tied to an operand
            tensor = straight.new_tensor(shape, dtype)
            new_bindings.append(Binding(tensor, is_written=True))
        else:
            tensor = _tied_result(straight, op, export, tied, result.type, shape, alignment)
            binding_of_argument[tied] = Binding(tensor, is_written=True)
        straight.put(result, tensor)
    return new_bindings


def _arguments(
    straight: Straight, op: flow.DispatchOp, export: str, alignment: int
) -> tuple[list[int], dict[int, Binding]]:
    """Emit checks of the sizes of the operands of a dispatch, and return what the command passes for them.

    Returns:
        Registers of the 32-bit words of all scalar operands, and the binding of each tensor operand, in order, by the
        operand's index. A tensor that is not aligned to `alignment` bytes is bound as a copy, unless a result is tied
        to it: the caller then replaces its binding by that of the result.
    """
    tied = tied_operands(op)
    words: list[int] = []
    binding_of_argument: dict[int, Binding] = {}
    dims = iter(op.argument_dims)
    for index, value in enumerate(op.arguments):
        if not isinstance(value.type, TensorType):
            words += _constant_words(straight, value, op)
            continue
        # The tensor must have the sizes that the dispatch states: static ones, or operands in braces.
        tensor = straight.tensors[value]
        dynamic = [next(dims) for size in value.type.get_shape() if size < 0]
        declared = straight.shape(value.type, dynamic, op)
        for axis, (actual_size, declared_size) in enumerate(zip(tensor.dims, declared, strict=True)):
            straight.require_equal(actual_size, declared_size, f"operand {index} of '@{export}', axis {axis}", op)
        bound = tensor if index in tied else _aligned(straight, tensor, alignment)
        binding_of_argument[index] = Binding(bound, is_written=False)
    return words, binding_of_argument


def _tied_result(
    straight: Straight, op: flow.DispatchOp, export: str, tied: int, type: Attribute, shape: tuple[int, ...],
    alignment: int,
) -> HostTensor:  # fmt: skip
    """Return the tensor of a result that overwrites an operand: the operand's memory, or a copy of it.

    The copy is needed if the operand is read later, is no temporary of the function, shares its storage with another
    operand of the dispatch, or is not aligned. Checks are emitted that result and operand have equal sizes, or, if
    their types differ, as many bytes.

    Args:
        straight: The function that receives the code.
        op: The dispatch.
        export: Name of its export, for messages.
        tied: Index of the operand.
        type: Type of the result.
        shape: Registers of the sizes of the result.
        alignment: Alignment in bytes that the executable requires.
    """
    value = op.arguments[tied]
    source = straight.tensors[value]
    dtype = dtype_of(cast("TensorType[Attribute]", type).element_type, location_of(op))
    name = f"result tied to operand {tied} of '@{export}'"
    if type == value.type:
        for axis, (actual_size, declared_size) in enumerate(zip(source.dims, shape, strict=True)):
            straight.require_equal(actual_size, declared_size, f"{name}, axis {axis}", op)
    else:  # another view of the same memory
        straight.require_equal(straight.size(source), straight.bytes_of(shape, dtype), f"{name}, size in bytes", op)
    operands = [straight.tensors[a] for a in op.arguments if a in straight.tensors]
    operands_in_memory = sum(1 for t in operands if t.storage is source.storage)
    target = straight.in_place(value, other_reads_memory=operands_in_memory > 1)
    if _aligned_offset(straight, target, alignment) is None:
        target = straight.copy_of(target)
    return HostTensor(storage=target.storage, dims=shape, dtype=dtype, offset=target.offset, length=target.length)


def _aligned_offset(straight: Straight, tensor: HostTensor, alignment: int) -> int | None:
    """Return the register of a tensor's byte offset if it is known to be a multiple of `alignment` bytes, else None.

    For a tensor that is its whole storage, the result is NONE, which is no register: its offset is 0.
    """
    if not tensor.is_part or alignment <= 1:  # storages themselves begin at an aligned address
        return tensor.offset
    offset = straight.function.constant_value(tensor.offset)
    is_aligned = offset is not None and offset % alignment == 0
    return tensor.offset if is_aligned else None


def _aligned(straight: Straight, tensor: HostTensor, alignment: int) -> HostTensor:
    """Return the tensor, or a copy if its offset may not be a multiple of `alignment` bytes."""
    return tensor if _aligned_offset(straight, tensor, alignment) is not None else straight.copy_of(tensor)


def _scalars_of(op: flow.DispatchOp) -> list[SSAValue]:
    """Return the operands of a dispatch that are passed as constants."""
    return [v for v in op.arguments if not isinstance(v.type, TensorType)]


def _constant_words(straight: Straight, value: SSAValue, op: Operation) -> list[int]:
    """Return the one or two 32-bit words of a scalar operand: registers, with HIGH_WORD set for the upper half.

    Registers hold integers sign-extended, but kernels take narrow ones zero-extended to a word.
    """
    register = straight.registers[value]
    count = words_of(value.type, location_of(op))
    bits = bit_width(value.type) or 64  # an index has none of its own
    if isinstance(value.type, IntegerType) and bits < 32:
        register = straight.function.unary(Opcode.ZEXT, register, width=bits)
    return both_words(register)[:count]


def _words_of_layout(
    straight: Straight, words: list[int], expected: int, op: flow.DispatchOp, export: str
) -> list[int]:
    """Return as many of the 32-bit words of a dispatch's scalars as the layout of the export expects.

    A hand-written layout may have one word for an `index`, which has two: then only low words are returned, and checks
    are emitted that the values fit. Raises CompileError if the layout expects another number.

    Args:
        straight: The function that receives the checks.
        words: Registers of all words, with HIGH_WORD set for upper halves.
        expected: Number of words of the layout.
        op: The dispatch.
        export: Name of its export, for messages.
    """
    if len(words) == expected:
        return words
    # Without upper words, an index must be below 2^32: check it at run time.
    low = [w for w in words if not w & HIGH_WORD]
    only_indices_have_two_words = all(v.type == IndexType() or words_of(v.type) == 1 for v in _scalars_of(op))
    if len(low) == expected and only_indices_have_two_words:
        limit = straight.function.constant((1 << 32) - 1)
        for value in _scalars_of(op):
            if value.type == IndexType():
                register = straight.registers[value]
                fits = straight.function.compare(Opcode.CMP, ULE, register, limit)
                straight.function.check(
                    fits, f"operand of '@{export}': {{a}} does not fit the 32-bit constant of its layout"
                )
        return low
    raise CompileError(
        f"'@{export}' takes {expected} constants, the dispatch gives {len(words)} 32-bit words", location_of(op),
        "scalars of more than 32 bits take two words, low and high; `constants` of the layout counts words",
    )  # fmt: skip


def _in_binding_order(bindings: list[Binding], op: Operation, *, declared: Attribute | None) -> list[Binding]:
    """Return the bindings in the order that `hal.interface.bindings` of the dispatch, or else of the export, states.

    Entry i of the attribute is the ordinal of binding i: the bindings [x, y, result] with
    [#hal.interface.binding<1>, #hal.interface.binding<0>, #hal.interface.binding<2>] give [y, x, result].

    Raises CompileError if the attribute does not list each ordinal once.

    Args:
        bindings: The bindings in the order of operands, then of results that are not tied.
        op: The dispatch.
        declared: The attribute of the export; None for none. Without either attribute, the order stays.
    """
    explicit = op.attributes.get("hal.interface.bindings", declared)
    if explicit is None:
        return bindings
    entries = explicit.data if isinstance(explicit, ArrayAttr) else (None,)  # (None,) fails the test below
    if not all(isinstance(b, hal.InterfaceBindingAttr) for b in entries):
        raise CompileError("hal.interface.bindings is not a list of bindings", location_of(op),
                           "write [#hal.interface.binding<0>, ...], one for each tensor")  # fmt: skip
    order = [cast(hal.InterfaceBindingAttr, b).ordinal.data for b in entries]
    if sorted(order) != list(range(len(bindings))):
        raise CompileError(f"hal.interface.bindings {order} does not number {len(bindings)} bindings", location_of(op))
    binding_of_ordinal = dict(zip(order, bindings, strict=True))
    return [binding_of_ordinal[i] for i in range(len(order))]


ROWS: dict[str, Callable[[Straight, Operation], None]] = {"flow.dispatch": dispatch}
"""Name of an operation → function that lowers it."""
