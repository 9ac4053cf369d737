"""Contracts of exports: the requirements of a generated kernel, as a function of its constants.

A contract is part of a variant's module, as a function with the attribute `pyd.export_contract`: `func.func
@export.contract(scalars, sizes) -> (x, y, z, bytes of each binding, bytes of each binding that a workgroup accesses)`.
The last group is absent if unknown.

The contract is stored with the machine code (`compiler/host/contract_program.py`, docs/artifact.md), so that an edited
host program cannot pass a kernel smaller buffers than it was compiled for.
"""

from __future__ import annotations

from xdsl.dialects import arith, cf, func
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, TensorType, UnitAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from pydispatch.compiler.analysis.in_place import GRID
from pydispatch.compiler.analysis.kinds import MOST_BINDINGS
from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.kernel_ir.words import words_of
from pydispatch.compiler.kernels.loops.frame import Kernel, sizes_of
from pydispatch.compiler.outline.bounds import check_bounds
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import dtype_bits
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.values import constant_index

CONTRACT = "pyd.export_contract"
"""Attribute that marks a function as a contract."""
SUFFIX = ".contract"
"""Suffix that is appended to an export's name to name its contract."""
WRITTEN = "pyd.written"
"""Attribute with a bit mask of the bindings that the kernel writes."""


def contract_of(source: func.FuncOp, kernel: Kernel) -> func.FuncOp:
    """Build the contract of a kernel: a function that checks the sizes of a dispatch, and returns its grid and the
    bytes of memory that it accesses.

    Args:
        source: The dispatch function, over tensors.
        kernel: The kernel that was generated from it.
    """
    return _Contract(source, kernel).build()


class _Contract:
    """Builder of a contract: a function of a dispatch's scalars that checks sizes and returns grid and memory needs.

    The methods that begin with `_emit` and `_check` append operations to the function.

    Attributes:
        source: The dispatch function.
        kernel: The kernel that was generated from it.
        scalars: Scalar arguments of the dispatch function, with the dynamic sizes.
        block: Body of the contract function.
        known: Scalar of the dispatch function → its argument of the contract function.
        words: Index of a 32-bit push constant word → the argument of the contract function that begins there.
    """

    def __init__(self, source: func.FuncOp, kernel: Kernel) -> None:
        """Create the body of the contract function, whose arguments are the scalars of `source`."""
        self.source, self.kernel = source, kernel
        self.scalars = [a for a in source.body.block.args if not isinstance(a.type, TensorType)]
        self.block = Block(arg_types=[a.type for a in self.scalars])
        # A value of `source` -> the value of the contract function that equals it.
        self.known: dict[SSAValue, SSAValue] = dict(zip(self.scalars, self.block.args, strict=True))
        # The kernel reads scalars from 32-bit words: for (i64, f32), words 0 and 1, then word 2.
        self.words: dict[int, BlockArgument] = {}  # index of the first word of a scalar -> the scalar
        word_index = 0
        for scalar, argument in zip(self.scalars, self.block.args, strict=True):
            self.words[word_index] = argument
            word_index += words_of(scalar.type, location_of(source))

    def build(self) -> func.FuncOp:
        """Build the contract function.

        It asserts that the sizes of a dispatch are valid. It returns the grid of the dispatch, the bytes of its
        bindings, and the bytes that a workgroup accesses of each binding.
        """
        self._check_sizes()
        # The attribute GRID is a grid that the program itself states, for a dispatch that it wrote by hand. The kernel
        # then accesses the slices that the program states, without checks of bounds.
        if GRID not in self.source.attributes:
            self._check_bounds()
        results = [*self._grid(), *self._bytes()]
        # `tiles` has, for each binding, the bytes of the tile that one workgroup accesses; it is empty if unknown.
        results += [self._emit_number(tile_bytes) for tile_bytes in self.kernel.tiles]
        self._emit(func.ReturnOp(*results))
        name = self.source.sym_name.data + SUFFIX
        types = [a.type for a in self.scalars], [IndexType() for _ in results]
        contract = func.FuncOp(name, types, Region(self.block))
        contract.attributes[CONTRACT] = UnitAttr()
        contract.attributes[WRITTEN] = self._written_mask()
        set_location(contract, self.source)
        return contract

    def _written_mask(self) -> IntegerAttr:
        """Return the mask with bit i set if the kernel writes binding i; raise CompileError for too many bindings."""
        bindings = self.kernel.layout.bindings
        if len(bindings) > MOST_BINDINGS:
            raise CompileError(
                f"one operation with {len(bindings)} tensors; {MOST_BINDINGS} are supported",
                location_of(self.source),
                "join tensors, or compute the results one by one",
            )
        mask = sum(1 << i for i, binding in enumerate(bindings) if not binding.read_only)
        return IntegerAttr(mask - (1 << 64) if mask >> 63 else mask, i64)  # bit 63 is the sign of the attribute's i64

    def _emit(self, op: Operation) -> SSAValue | None:
        """Append an operation to the contract function, and return its first result, if it has one."""
        set_location(op, self.source)
        self.block.add_op(op)
        return op.results[0] if op.results else None

    def _emit_value(self, op: Operation) -> SSAValue:
        """Append an operation to the contract function, and return its result."""
        result = self._emit(op)
        assert result is not None
        return result

    def _emit_number(self, value: int) -> SSAValue:
        """Append a constant of type index to the contract function, and return it."""
        return self._emit_value(arith.ConstantOp.from_int_and_width(value, IndexType()))

    def _require(self, holds: SSAValue, message: str) -> None:
        """Append an assertion that `holds` is true to the contract function; `message` is its error."""
        self._emit(cf.AssertOp(holds, message))

    def _check_sizes(self) -> None:
        """Append assertions to the contract function that no size of the dispatch is negative."""
        for index, size in enumerate(sizes_of(self.source)):
            holds = self._emit_value(arith.CmpiOp(self.known[size], self._emit_number(0), "sge"))
            self._require(holds, f"size {index} is negative")

    def _check_bounds(self) -> None:
        """Append the size checks that the host does before a dispatch to the contract function.

        The kernel relies on these checks, and the host program may have been edited since it was compiled. Example: for
        `tensor.extract_slice %a[2] [%n] [1]` with the size %d of %a, the check is `%n ule max(%d - 2, 0)`, where %n and
        %d are arguments of the contract function. Checks that depend on elements of tensors are left out.
        """
        # Insert the checks into a copy of the dispatch function, which is discarded.
        copy = self.source.clone()
        block = copy.body.block
        mapping: dict[SSAValue, SSAValue] = {
            inner: self.known[outer]
            for inner, outer in zip(block.args, self.source.body.block.args, strict=True)
            if outer in self.known
        }
        sizes = Sizes()  # which sizes are known, or equal
        operations = list(block.ops)
        for op in operations:
            for result in op.results:
                sizes.record_value(result)
            sizes.record_equal_sizes(op)
        check_bounds(operations, sizes)  # inserts the checks as cf.assert into `block`
        # Copy the checks that depend on scalars alone; others read values that the contract function does not have.
        for op in block.ops:
            if isinstance(op, cf.AssertOp):
                holds = self._copy(op.operands[0], mapping)
                if holds is not None:
                    self._require(holds, op.msg.data)

    def _grid(self) -> list[SSAValue]:
        """Return the numbers of workgroups along x, y and z that a dispatch may have at most, as index values.

        They are the results of the export's count region. A number is -1, for no limit, if the program states the grid
        itself, or if the number depends on other values than sizes.
        """
        if GRID in self.source.attributes:
            return [self._emit_number(-1)] * 3
        count = self.kernel.count.block  # its arguments are the device and the sizes
        mapping: dict[SSAValue, SSAValue] = {
            a: self.known[s] for a, s in zip(count.args[1:], sizes_of(self.source), strict=True)
        }
        last = count.last_op
        assert isinstance(last, hal.ReturnOp)
        counts = [self._copy(v, mapping) for v in last.operands]
        return [self._emit_number(-1) if v is None else v for v in counts]

    def _bytes(self) -> list[SSAValue]:
        """Emit, for each binding, the number of bytes up to the last one that the kernel accesses; return the numbers.

        The number is the largest end of the kernel's views of the binding: for views of `memref<?x4xf32>` with %n rows
        and of `memref<8xf32>` at byte 64, it is max(%n * 16, 64 + 32). Views whose sizes the kernel itself computes are
        left out; without other views, the number is 0. Append assertions that each number is below 2^63.
        """
        ends: list[SSAValue | None] = [None] * len(self.kernel.layout.bindings)  # by binding; None if no view is known
        mapping: dict[SSAValue, SSAValue] = {}  # value of the kernel → its value in the contract function
        for op in walk(self.kernel.function):
            if isinstance(op, hal.InterfaceBindingSubspanOp):
                end = self._extent(op, mapping)
                if end is None:  # the kernel computes sizes of the view, so that nothing can be required
                    continue
                binding = op.binding.value.data
                other_end = ends[binding]  # of the earlier views of the binding
                ends[binding] = end if other_end is None else self._emit_value(arith.MaxUIOp(other_end, end))
        sizes = [self._emit_number(0) if n is None else n for n in ends]
        # The host stops a call if a computation of a contract overflows 64 bits (docs/program.md). So sizes are correct
        # as unsigned numbers, and those that are not negative as i64 are below 2^63.
        for binding, value in enumerate(sizes):
            if not isinstance(value.owner, arith.ConstantOp):
                holds = self._emit_value(arith.CmpiOp(value, self._emit_number(0), "sge"))
                self._require(holds, f"binding {binding} would have more than 2^63 bytes")
        return sizes

    def _extent(self, op: hal.InterfaceBindingSubspanOp, mapping: dict[SSAValue, SSAValue]) -> SSAValue | None:
        """Return the end of a view of a binding, in bytes from its start.

        Return None if the sizes or the offset of the view depend on anything but push constants and constants.
        `mapping` has the values of the kernel that were copied into the contract function, and receives new ones.
        """
        type_ = op.results[0].type
        assert isinstance(type_, MemRefType)
        dynamic_dims = iter(op.dynamic_dims)
        static_count, dynamic_count = 1, None  # products of the static and of the dynamic sizes
        for size in type_.get_shape():
            if size >= 0:
                static_count *= size
                continue
            value = self._copy(next(dynamic_dims), mapping)
            if value is None:
                return None
            dynamic_count = value if dynamic_count is None else self._emit_value(arith.MuliOp(dynamic_count, value))
        if static_count == 0:  # no byte is accessed, wherever the view begins
            return self._emit_number(0)
        bits = dtype_bits(dtype_of(type_.element_type, location_of(op)))
        return self._end_of_view(op, mapping, self._byte_count(static_count, dynamic_count, bits))

    def _byte_count(self, static_count: int, dynamic_count: SSAValue | None, bits: int) -> SSAValue:
        """Return the bytes that static_count * dynamic_count elements of `bits` bits take in memory, rounded up.

        A `dynamic_count` of None counts as 1.
        """
        element_bytes = max(1, -(-bits // 8))  # -(-a // b) is a / b, rounded up
        # Elements of 2 or 4 bits share bytes; those of other widths below 8, such as i1, have a byte each.
        elements_per_byte = 8 // bits if bits in (2, 4) else 1
        if dynamic_count is None:
            return self._emit_number(-(-static_count // elements_per_byte) * element_bytes)
        byte_count = dynamic_count
        if static_count != 1:
            byte_count = self._emit_value(arith.MuliOp(dynamic_count, self._emit_number(static_count)))
        if elements_per_byte > 1:
            byte_count = self._emit_value(arith.CeilDivUIOp(byte_count, self._emit_number(elements_per_byte)))
        elif element_bytes > 1:
            byte_count = self._emit_value(arith.MuliOp(byte_count, self._emit_number(element_bytes)))
        return byte_count

    def _end_of_view(
        self, op: hal.InterfaceBindingSubspanOp, mapping: dict[SSAValue, SSAValue], byte_count: SSAValue
    ) -> SSAValue | None:
        """Emit the sum of the byte offset and the `byte_count` of a view of a binding, and return it.

        Return None if the offset depends on more than scalars. For `mapping` see `_copy`.
        """
        if op.byte_offset is None or constant_index(op.byte_offset) == 0:
            return byte_count
        start = self._copy(op.byte_offset, mapping)
        return None if start is None else self._emit_value(arith.AddiOp(byte_count, start))

    def _copy(self, value: SSAValue, mapping: dict[SSAValue, SSAValue]) -> SSAValue | None:
        """Copy the operations that compute a value from push constants and constants into the contract function.

        Loads of push constants are replaced by arguments of this function: of the kernel's
        `%n = hal.interface.constant.load ordinal(0); %c = arith.ceildivui %n, %c64`, it gets
        `arith.ceildivui %scalar0, %c64`.

        Args:
            value: A value of the kernel, of its grid, or of the dispatch function.
            mapping: Value → its value in the contract function; receives those that are copied.

        Returns:
            The value in the contract function; None if it depends on anything else, such as an element of a tensor.
        """
        known = mapping.get(value)
        if known is not None:
            return known
        op = value.owner
        # A load of a push constant: `words` has the argument by the index of its first 32-bit word.
        if isinstance(op, hal.InterfaceConstantLoadOp):
            known = self.words.get(op.ordinal.value.data)
            if known is not None and known.type == value.type:  # else the load reads a part of a scalar
                mapping[value] = known
                return known
            return None
        # Any other operation, after its operands. Only dialects whose operations have no side effects are copied.
        if isinstance(op, Block) or op.regions or op.name.split(".")[0] not in ("arith", "affine", "math"):
            return None
        for operand in op.operands:
            if self._copy(operand, mapping) is None:
                return None
        copy = op.clone(mapping)
        set_location(copy, self.source)
        self.block.add_op(copy)
        return mapping[value]
