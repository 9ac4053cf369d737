"""Common part of the entry point emitters of all shader languages.

It maps SSA values to values of the language, represents memrefs by indices, and traverses regions.

V: the type by which the language refers to a runtime value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Generic, TypeVar

from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation, Region, SSAValue

from pydispatch.compiler.emit.shaders.definitions import Definitions
from pydispatch.compiler.emit.shaders.iterations import Iterations
from pydispatch.compiler.emit.shaders.values import (
    MAX_PRIVATE,
    MemRef,
    Root,
    flatten,
    passed_index_count,
    register_width,
    unflatten,
)
from pydispatch.compiler.kernel_ir.bindings import bindings_of
from pydispatch.compiler.kernel_ir.index_width import index_width
from pydispatch.compiler.kernel_ir.indices import IndexArithmetic
from pydispatch.compiler.kernel_ir.kernel import MARKS_LINES, Layout
from pydispatch.compiler.kernel_ir.readers import LEAVES, attribute, op_name, unsupported
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel
from pydispatch.compiler.kernel_ir.types import checked_memref, layout_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

V = TypeVar("V")
"""Type of a runtime value of the shader language: a name of WGSL, or an id of SPIR-V."""
Table = Mapping[str, Callable[[Any, Operation], None]]
"""Name of an operation -> function that emits shader code for it."""


class ShaderFunction(IndexArithmetic[V], Generic[V]):
    """Emitter of one entry point, for any shader language.

    A subclass for each language implements the methods that raise NotImplementedError. Its creator calls `region` with
    the body; that calls a lowering for each operation, which reads operands with `get` or `memref`, and `define`s
    results.

    Values of V name runtime values of the language. An index is a V, or an int if it is known at compile time.

    Attributes:
        table: Lowering of each operation, by operation name.
        ops: Operations of the entry point, by name.
        size, invocations: Invocations of a workgroup along each dimension, and in all.
        values: Kernel IR value -> its value in the language: a V, an int, or the descriptor of a memref.
        op: The operation that is being lowered, which errors name.
        bindings: Ordinal of a binding -> its alignment, and whether it is only read.
        declared_size, layout: Workgroup size (0s if none is declared), and constants and bindings, of the export.
        iterations: Count of the loop iterations of an invocation.
        marks_lines: Whether code states its source lines.
        index_width: Bits of an index, 32 or 64.
    """

    handle_type: type
    """V at run time, to tell values from memrefs and from numbers known while compiling."""

    definitions: Definitions
    """The functions and constant tables of the module."""

    constant_keys: tuple[str, ...]
    """The key of each word of the executable constants."""

    def __init__(self, table: Table, kernel: Kernel) -> None:
        """Begin the function of `kernel`, an entry point or a helper, which the lowerings in `table` emit."""
        self.table, self.ops, self.size, self.invocations = table, kernel.ops, kernel.size, prod(kernel.size)
        self.values: dict[SSAValue, Any] = {}  # kernel IR value -> its operand in the shader language
        self.op: Operation = kernel.function  # until `region` sets it to each operation that it lowers
        self.bindings = bindings_of(kernel.ops)
        self.declared_size, self.layout = (1, 1, 1), Layout(0, ())  # of a helper; an entry point gets its export's
        self.iterations = Iterations()  # counts the loop iterations of an invocation
        self.function = kernel.function
        self.marks_lines = MARKS_LINES in kernel.function.attributes
        width = attribute(kernel.function, "pyd.index_width")  # stated by generated kernels, not by those of programs
        self.index_width = int(width.value.data) if isinstance(width, IntegerAttr) else index_width(kernel.ops)

    def constant(self, value: int, type_: Attribute) -> V:
        """Return an integer constant of a scalar type, in the width of the registers of this type."""
        raise NotImplementedError

    def index_value(self, value: int | V) -> V:
        """Return an index as a V; a known one becomes a constant."""
        raise NotImplementedError

    def divide(self, lhs: int | V, rhs: int, is_remainder: bool = False) -> int | V:
        """Return the quotient, or the remainder (`is_remainder`), of a non-negative index and the positive `rhs`."""
        raise NotImplementedError

    def invocation(self) -> V:
        """Return the number of the invocation in its workgroup, as an index."""
        raise NotImplementedError

    def component(self, built_in: str, dimension: int) -> V:
        """Return component `dimension`, 0 to 2, of a built-in vector such as SPIR-V's "WorkgroupId", as an index."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Emit a workgroup barrier that also makes the memory writes of all invocations visible."""
        raise NotImplementedError

    def at_entry(self, key: object, make: Callable[[], V]) -> V:
        """Return the cached value of `key`; on a miss, call `make` for it.

        The code of `make` is emitted at the beginning of the function, where it dominates all code.
        """
        raise NotImplementedError

    # Values

    def get(self, value: SSAValue) -> V:
        """Return a scalar as a runtime value of the shader language; a number known while compiling becomes a constant.

        Such a value is a V, of which `handle_type` is the Python class.
        """
        operand = self.values[value]
        if type(operand) is self.handle_type:  # the exact type, nearly always: isinstance is slower
            return operand  # type: ignore[return-value]
        if isinstance(operand, MemRef):
            raise unsupported(self.op)
        return operand if isinstance(operand, self.handle_type) else self.constant(operand, value.type)  # type: ignore[return-value]

    def int_or_value(self, value: SSAValue) -> int | V:
        """Return the runtime value (V) of a scalar, or an int if the scalar is known while compiling."""
        operand = self.values[value]
        if type(operand) is MemRef:
            raise unsupported(self.op)
        return operand

    def memref(self, value: SSAValue) -> MemRef:
        """Return the descriptor of a memref."""
        operand = self.values[value]
        if not isinstance(operand, MemRef):
            raise unsupported(self.op)
        return operand

    def define(self, value: SSAValue, operand: int | V | MemRef) -> None:
        """Record what a kernel IR value is in the language: a V, an int known while compiling, or a memref."""
        self.values[value] = operand

    def width(self, type_: Attribute) -> int:
        """Return the bits of the register of a scalar type: 1, 32 or 64."""
        return register_width(type_, self.index_width)

    def error(self, message: str, note: str | None = None) -> CompileError:
        """Return an error at the operation that is being lowered."""
        return CompileError(message, location_of(self.op), note)

    # Values that travel

    def parts(self, values: Sequence[SSAValue]) -> list[V]:
        """Return the runtime values (V) that pass kernel IR values to another block, such as the body of a loop.

        `self.values` maps a kernel IR value to a V, to an int known while compiling, or to the descriptor of a memref.
        A V is passed as it is, an int as a constant, and a memref as several indices (`flatten`): its base, and its
        offset, sizes and strides as far as they are dynamic.
        """
        parts: list[V] = []
        for value in values:
            operand = self.values[value]
            if type(operand) is self.handle_type:  # a V: nearly always
                parts.append(operand)  # type: ignore[arg-type]
            elif isinstance(operand, MemRef):
                assert isinstance(value.type, MemRefType)
                parts += [self.index_value(part) for part in flatten(operand, value.type)]
            else:
                parts.append(self.get(value))  # a constant
        return parts

    def define_from_parts(self, values: Sequence[SSAValue], parts: Sequence[V], roots: Sequence[Root | None]) -> None:
        """Define values from the runtime values (V) that represent them: the inverse of `parts`.

        The parts of a memref are its base, and its dynamic offset, sizes and strides. For values of the types f32 and
        `memref<?x4xf32>`, whose size 0 is dynamic, `parts` are [the float, base, size 0].

        Args:
            values: Arguments of a block, or results of an operation.
            parts: The parts of all values, in order.
            roots: The storage of each value that is a memref, None for others. It is known while compiling, so that no
                part represents it.
        """
        if len(parts) == len(values) and not any(roots):  # scalars only, the frequent case: each is its one part
            self.values.update(zip(values, parts, strict=True))
            return
        remaining = list(parts)
        for value, root in zip(values, roots, strict=True):
            if isinstance(value.type, MemRefType):
                assert root is not None
                count = passed_index_count(value.type)
                self.define(value, unflatten(list(remaining[:count]), value.type, root))
                remaining = remaining[count:]
            else:
                self.define(value, remaining.pop(0))

    def roots(self, values: Sequence[SSAValue]) -> list[Root | None]:
        """Return the storage of each value that is a memref, None for others."""
        operands = (self.values[value] for value in values)
        return [operand.root if isinstance(operand, MemRef) else None for operand in operands]

    def require_same_roots(self, roots: Sequence[Root | None], values: Sequence[SSAValue]) -> None:
        """Raise CompileError if memrefs that are merged are in different storage.

        Args:
            roots: Storage of each merged value, or block argument; None for scalars.
            values: The values that another branch passes.
        """
        if not any(roots):  # scalars only
            return
        for root, other in zip(roots, self.roots(values), strict=True):
            if root is not None and (other is None or root.key != other.key):
                raise self.error(
                    "a memref that may lie in one of two buffers cannot be compiled into a kernel for this target",
                    "choose between loaded elements instead",
                )

    def storage(self, type_: Attribute) -> tuple[MemRefType, int]:
        """Return the memref type and the number of elements of an allocation or table.

        The number is at least 1, since arrays of shaders have at least one element.

        Raises:
            CompileError: A size is dynamic.
        """
        memref = checked_memref(type_)
        _, sizes, strides = layout_of(memref)
        if any(part is None for part in (*sizes, *strides)):
            raise self.error(
                f"storage of type {memref} has no size known while compiling",
                "kernels have no allocator: take the largest size, or pass scratch memory as a binding",
            )
        return memref, max(1, prod(size for size in sizes if size is not None))

    def check_private(self, memref: MemRefType, count: int) -> None:
        """Raise CompileError if an allocation of `count` elements in each invocation exceeds `MAX_PRIVATE` bytes."""
        element_bits = max(32, self.width(memref.element_type))  # a truth value takes 32 bits, too
        byte_size = count * element_bits // 8
        if byte_size > MAX_PRIVATE:
            raise self.error(
                f"an invocation needs {byte_size} bytes of its own for {memref}, the limit is {MAX_PRIVATE}",
                "use workgroup memory (memref.alloc with #gpu.address_space<workgroup>) or another binding",
            )

    def part_types(self, values: Sequence[SSAValue]) -> list[Any]:
        """Return the types, in the shader language, of the runtime values that `parts` returns for `values`."""
        raise NotImplementedError

    # Control flow

    def as_uniform(self, op: Operation, handle: V, value: SSAValue) -> V:
        """Return a condition or bound of the control flow `op` in a form that the language accepts as uniform.

        WGSL demands such a form around a barrier: a value that it knows to be equal in all invocations of a workgroup.
        For other languages the result is `handle`, the V of `value`.
        """
        return handle

    def equals(self, lhs: V, rhs: V) -> V:
        """Emit the comparison of two indices, and return the truth value."""
        raise NotImplementedError

    def choose(
        self, condition: V, then: Callable[[], list[V]], other: Callable[[], list[V]], types: Sequence[Any]
    ) -> list[V]:
        """Emit a condition of which one branch runs, and return the merged results.

        Args:
            condition: A truth value.
            then: Emits the branch that runs if the condition holds, and returns its results.
            other: Emits the other branch, and returns its results.
            types: Types of the results, in the language.
        """
        raise NotImplementedError

    @contextmanager
    def at_source_line(self, op: Operation) -> Iterator[None]:
        """Mark the code that is emitted in this context with the source line of an operation; used if `marks_lines`."""
        raise NotImplementedError

    # Regions

    def region(self, region: Region) -> Operation:
        """Emit a region of one block whose arguments are defined, up to its terminator, and return the terminator."""
        block = region.first_block
        assert block is not None
        if block is not region.last_block:
            raise CompileError(
                "branches between blocks cannot be compiled into a kernel for this target",
                location_of(block.last_op or self.op),
                "write them with scf.if, scf.for and scf.while",
            )
        table, op = self.table, self.op
        following = block.first_op
        try:
            while following is not None:
                self.op = op = following
                following = op.next_op
                lowering = table.get(op.name) or self._lowering_of_unregistered(op)
                if lowering is None:
                    return op
                if not self.marks_lines:
                    lowering(self, op)
                    continue
                with self.at_source_line(op):
                    lowering(self, op)
        except CompileError as error:
            # Helpers of lowerings raise errors without a location: the operation that is being lowered has it.
            if error.location is None and location_of(op) is not None:
                raise CompileError(error.message, location_of(op), error.note) from None
            raise
        raise AssertionError("a block without terminator")  # the verifier refuses it

    def _lowering_of_unregistered(self, op: Operation) -> Callable[[Any, Operation], None] | None:
        """Return the lowering of an operation whose name is an attribute; None for a terminator of a region.

        Raises:
            CompileError: There is no lowering.
        """
        name = op_name(op)
        if name in LEAVES:
            return None
        lowering = self.table.get(name)
        if lowering is None:
            raise unsupported(op)
        return lowering

    def yielded(self, region: Region, roots: list[Root | None]) -> list[V]:
        """Emit a region, and return the parts of the values that it yields: the runtime values that represent them.

        An absent region, such as an omitted `else`, yields nothing.

        Args:
            region: A region of one block, whose arguments are defined.
            roots: The storage that each yielded memref must be in; None for scalars. An empty list gets the storage of
                the values that this region yields: branches of one operation share a list, which the first one fills.
        """
        if region.first_block is None:
            return []
        operands = list(self.region(region).operands)
        if not roots:
            roots.extend(self.roots(operands))
        self.require_same_roots(roots, operands)
        return self.parts(operands)
