"""Accessors of operations: names, attributes, operand groups, and the error for operations without a lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

T = TypeVar("T")

UNREGISTERED = UnregisteredOp.name
"""Name of the class of operations that no dialect declares; their own name is an attribute."""


# Returns the operands of an operation as a tuple, `_operands`, where xDSL has it. `op.operands` is a view of this tuple
# whose accesses take several times as long.
operands_of: Callable[[Operation], Sequence[SSAValue]] = attrgetter(
    "_operands" if "_operands" in Operation.__annotations__ else "operands"
)


def op_name(op: Operation) -> str:
    """Return the name of an operation, also of one that no dialect registers."""
    name = op.name
    return cast(UnregisteredOp, op).op_name.data if name == UNREGISTERED else name


def attribute(op: Operation, name: str) -> Attribute | None:
    """Return an attribute by name, inherent (a property of the operation) or discardable; None if it has none."""
    value = op.properties.get(name)
    return op.attributes.get(name) if value is None else value


def integer(op: Operation, name: str, default: int | None = None) -> int:
    """Return an integer attribute of an operation; `default` if it is missing and a default is given.

    Raises:
        CompileError: The attribute is missing, or no integer.
    """
    value = attribute(op, name)
    if value is None and default is not None:
        return default
    if isinstance(value, IntegerAttr):
        return int(value.value.data)
    raise CompileError(f"{op_name(op)}: attribute '{name}' must be an integer, got {value}")


def gpu_dimension(op: Operation) -> int:
    """Return the dimension that an operation of the gpu dialect names: 0, 1 or 2 for x, y or z."""
    from xdsl.dialects import gpu  # programs for CPUs have no such operations

    dimension = attribute(op, "dimension")
    assert isinstance(dimension, gpu.DimensionAttr)
    return "xyz".index(dimension.data.value)


def integers(op: Operation, name: str) -> tuple[int, ...]:
    """Return the integers of an attribute, a dense array or an array of integer attributes; () if it is missing."""
    value = attribute(op, name)
    if value is None:
        return ()
    if isinstance(value, DenseArrayBase):
        return tuple(map(int, value.get_values()))
    if isinstance(value, ArrayAttr):
        return tuple(int(item.value.data) for item in value.data if isinstance(item, IntegerAttr))
    return ()


def segments(op: Operation, count: int) -> list[list[SSAValue]]:
    """Return the operands of an operation in the `count` groups that `operandSegmentSizes` states.

    Raises:
        CompileError: The attribute states another number of groups.
    """
    sizes = integers(op, "operandSegmentSizes")
    if len(sizes) != count:
        raise unsupported(op)
    operands = iter(operands_of(op))
    return [list(islice(operands, size)) for size in sizes]


def mixed_values(
    op: Operation, name: str, dynamic: Sequence[SSAValue], read: Callable[[SSAValue], int | T]
) -> list[int | T]:
    """Return the integers of the attribute `name`; for each `DYNAMIC_INDEX`, `read` of the next value of `dynamic`.

    `static_sizes = [4, DYNAMIC_INDEX]` with the operand %n as `dynamic` gives [4, read(%n)].
    """
    values = iter(dynamic)
    return [read(next(values)) if value == DYNAMIC_INDEX else value for value in integers(op, name)]


def reassociation(op: Operation) -> list[list[int]]:
    """Return the attribute `reassociation` of a reshape: for each merged axis, the axes that it is merged from.

    [[0, 1], [2]] merges 2x3x4 into 6x4; a reshape that splits 6x4 into 2x3x4 has the same attribute.
    """
    listed = attribute(op, "reassociation")
    if not isinstance(listed, ArrayAttr):
        raise unsupported(op)
    groups: list[list[int]] = []
    for group in listed.data:
        if not isinstance(group, ArrayAttr):
            raise unsupported(op)
        groups.append([int(item.value.data) for item in group.data if isinstance(item, IntegerAttr)])
    return groups


def counts_indices(loop: Operation) -> bool:
    """Return whether the counter of an `scf.for` is an index, compared as signed, as in the loops that passes emit."""
    return isinstance(loop.operands[0].type, IndexType) and attribute(loop, "unsignedCmp") is None


def affine_map(op: Operation, name: str = "map") -> AffineMap:
    """Return a mandatory affine map attribute of an operation."""
    map_ = attribute(op, name)
    assert isinstance(map_, AffineMapAttr)
    return map_.data


def bound_groups(op: Operation, name: str) -> list[int]:
    """Return for each dimension of an `affine.parallel` how many results of a map bound it.

    name: the attribute with the counts, `lowerBoundsGroups` or `upperBoundsGroups`.
    """
    groups = attribute(op, name)  # dense elements in programs that xDSL reads, an array in others
    values = getattr(groups, "get_values", None)
    return [int(value) for value in values()] if values is not None else list(integers(op, name))


def symbol(op: Operation, name: str) -> str:
    """Return the name in a symbol or string attribute; of a nested symbol, `@a::@b`, the last one.

    Raises:
        CompileError: The attribute is missing, or of another kind.
    """
    reference = attribute(op, name)
    if isinstance(reference, SymbolRefAttr):
        return str(
            reference.nested_references.data[-1].data
            if reference.nested_references.data
            else reference.root_reference.data
        )
    if isinstance(reference, StringAttr):
        return str(reference.data)
    raise CompileError(f"{op_name(op)}: attribute '{name}' must be a symbol, got {reference}")


def unsupported(op: Operation) -> CompileError:
    """Return the error for an operation without a lowering."""
    name = op_name(op)
    return CompileError(
        f"operation '{name}' cannot be compiled into a kernel",
        location_of(op),
        "kernels are written in func, arith, math, memref, affine, scf, cf and hal.interface operations",
    )


def reverse_post_order(entry: Block) -> Iterator[Block]:
    """Return the blocks that are reachable from `entry`, each after all blocks that dominate it."""
    done: list[Block] = []  # in post-order: each block after its successors
    seen = {entry}
    stack: list[tuple[Block, int]] = [(entry, 0)]  # the path to the current block, each with its next successor
    while stack:
        block, next_successor = stack.pop()
        successors = block.last_op.successors if block.last_op is not None else ()
        if next_successor == len(successors):
            done.append(block)
            continue
        stack.append((block, next_successor + 1))
        successor = successors[next_successor]
        if successor not in seen:
            seen.add(successor)
            stack.append((successor, 0))
    return reversed(done)


def quoted(name: str) -> str:
    """Return a symbol as LLVM writes it, in quotes, with escapes for unusual characters."""
    return '"' + "".join(c if (c.isalnum() and c.isascii()) or c in "._-$" else _escape(c) for c in name) + '"'


def c_string(text: str) -> tuple[int, str]:
    """Return the number of bytes of a string constant, with its final NUL, and its text in LLVM IR."""
    data = text.encode() + b"\0"
    return len(data), "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)


def _escape(character: str) -> str:
    """Return the UTF-8 bytes of a character as escapes of LLVM, a backslash and two hexadecimal digits for each."""
    return "".join(f"\\{byte:02X}" for byte in character.encode())


INT_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Predicates of `arith.cmpi`, by their numbers."""


FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
"""Predicates of `arith.cmpf`, by their numbers."""


def flags(op: Operation, name: str) -> str:
    """Return the flags of an attribute, `fastmath` or `overflowFlags`, as LLVM text, with a space after each."""
    data = getattr(attribute(op, name), "data", None)
    if not data:
        return ""
    texts = [str(getattr(flag, "value", flag)) for flag in data]  # a flag is a member of an enum or a string
    return "".join(f"{text} " for text in sorted(texts))


KERNEL_RETURNS = tuple(f"{dialect}.return" for dialect in ("func", "util", "flow", "stream", "hal"))
"""Operations that end a function."""

LEAVES = frozenset(KERNEL_RETURNS) | {
    "scf.yield",
    "affine.yield",
    "scf.condition",
    "scf.reduce",
    "scf.reduce.return",
    "scf.forall.in_parallel",
    "memref.alloca_scope.return",
}
"""Terminators without a lowering: the lowering of the operation around them handles their operands."""
