"""Lowering of one element of any tensor of a dispatch function to kernel IR.

`Elements.at` computes an element by the rules of its producers. No intermediate is stored unless `materialize`
assigned a buffer to it. Code is emitted at the outermost loop where its indices are available. The same element is
computed once per loop level, so that reductions that depend on a row only are computed before the loop over the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    MemRefType,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.kernel import OWN_BYTE
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import table_of, workgroup_memory
from pydispatch.compiler.kernels.ops.tensors import collapsed, covers, tensor_type, zero_attribute
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import info_of
from pydispatch.ir.values import constant_index


@dataclass
class RowBuffer:
    """Memory for the elements that a tensor has in one row, filled where they are first computed, and then loaded.

    A row is the set of elements whose leading indices are `Elements.row`; the kernel computes row after row.

    Attributes:
        buffer: The memory.
        index_map: Map from indices of the tensor to those of the buffer; None for the same indices.
        dims: Sizes of the tensor.
        filled: Builder of the loop that fills the buffer; None as long as there is none.
    """

    buffer: SSAValue
    index_map: IndexMap | None
    dims: list[Index]
    filled: Builder | None = None

    def is_loadable(self, row: Sequence[Index], indices: Sequence[Index], build: Builder) -> bool:
        """Return whether code at `build` can load the element at `indices` from the buffer.

        It can if the element belongs to the row with the leading indices `row`, and the loop that stores the row has
        ended before `build`.
        """
        is_row_stored = self.filled is not None and self.filled not in build.chain()  # `build` is not in that loop
        return is_row_stored and list(indices[: len(row)]) == list(row)


class EmittedElement(NamedTuple):
    """Element of a tensor whose computation was emitted.

    Attributes:
        value: The tensor.
        builder: Builder of the block that computes the element: the body of a loop, or the kernel outside of loops.
        indices: The indices of the element, one for each dimension.
    """

    value: SSAValue
    builder: Builder
    indices: tuple[Index, ...]


class LoopCompanion(Protocol):
    """Reduction that is computed in the loop of another reduction.

    Attributes:
        host: The other reduction, whose loop carries the values of both.
        results: The values of the companion after the loop. The emitter of the loop sets them.
    """

    host: Operation
    results: list[SSAValue]

    def initial(self, build: Builder) -> list[SSAValue]:
        """Emit the initial values of the companion, and return them."""

    def step(self, build: Builder, index: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit one iteration of this reduction in the loop of `host`, and return the next carried values.

        index: index of the loop. carried: values of this reduction alone, without those of `host`.
        """


@dataclass(frozen=True)
class Rules:
    """Rules that compute operations one element at a time (`tensor_ops/in_kernels.py`).

    Attributes:
        element: Emits the element of an operation's result at indices, one for each dimension, and returns it.
        sizes: Returns the size of each dimension of a tensor.
        scalar: Emits a scalar operation, and adds its results to a dict: value of the program -> value of the kernel.
            The last parameter has the loop indices, see `ops/bodies.py: clone_op`.
    """

    element: Callable[[Elements, Builder, OpResult, Sequence[Index]], SSAValue]
    sizes: Callable[[Elements, SSAValue], list[Index]]
    scalar: Callable[[Elements, Builder, Operation, dict[SSAValue, SSAValue], Sequence[Index]], object]


Distribute = Callable[["Elements", Builder, Any, Sequence[Any]], "list[SSAValue] | None"]
"""Emits a reduction by all invocations of a workgroup, and returns its results; None if it cannot, see
`loops/gpu/reduce.py`."""

IndexMap = Callable[[Builder, Sequence[Index]], Sequence[Index]]
"""Indices of a tensor -> indices of the buffer that holds it."""


class Elements:
    """Emitter of elements of the tensors of one dispatch function.

    Its kernel frame sets `scalars` for the scalar arguments and materializes the tensor arguments.

    Attributes:
        source: The dispatch function.
        entry: The builder of sizes and scalars, at the start of the kernel.
        rules: Rules by which elements of operations are computed.
        reassociate: Whether sums of floats may be reassociated.
        distribute: Emits a reduction by all invocations of a workgroup, if it can; None for other targets than GPUs.
        scalars: Scalar of the dispatch function -> its value in the kernel.
        flat: Number of elements, if all tensors (except those of rank 0) are accessed as one dimension; else None.
            Then one index is the index of an element in each tensor, and stands for the indices of all loops.
        emitted_reductions: Reductions whose loops were emitted, and the builder around each loop. This list and the
            next three record emitted code for the analysis of a trial emission (`loops/trial.py`).
        computed_elements: Elements whose computation was emitted.
        reduced_elements: Elements of `computed_elements` that needed a loop over reduced dimensions, producers first.
        loads: Elements of materialized values that are loaded: (value, indices).
        row_buffers: Memory of the values that each row computes once.
        row: Leading indices of all elements of the current row, whose values `row_buffers` have.
        companion: A second reduction that the loop of another one, its `host`, is to compute too; None once that loop
            is emitted.
    """

    def __init__(self, source: func.FuncOp, entry: Builder, rules: Rules, reassociate: bool = True) -> None:
        """Create an emitter without materialized tensors, those that are stored in a buffer.

        For the parameters, see the class.
        """
        self.source, self.entry, self.rules, self.reassociate = source, entry, rules, reassociate
        self.distribute: Distribute | None = None  # emits a reduction by all invocations of a GPU's workgroup
        self.scalars: dict[SSAValue, SSAValue] = {}  # scalar of the dispatch function -> its value in the kernel
        self.flat: Index | None = None  # number of elements, if all tensors are accessed as one dimension; else None
        self.globals: list[Operation] = []  # constants of the module that loads refer to
        # Records of the emitted code, for its analysis.
        self.emitted_reductions: list[tuple[Operation, Builder]] = []  # (reduction, builder around its loop)
        self.computed_elements: list[EmittedElement] = []
        self.reduced_elements: list[EmittedElement] = []  # those of `computed_elements` that a loop reduces
        self.loads: list[tuple[SSAValue, tuple[Index, ...]]] = []  # (materialized tensor, indices)
        # Values that one loop over a row stores and later loops over the row load -> their memory.
        self.row_buffers: dict[SSAValue, RowBuffer] = {}
        self.row: list[Index] = []  # leading indices of the row that is being emitted
        # A reduction that the loop of another one, its `host`, is to compute too; None if there is none.
        self.companion: LoopCompanion | None = None
        # Materialized tensor -> (buffer, map from its indices to those of the buffer).
        self._buffers: dict[SSAValue, tuple[SSAValue, IndexMap | None]] = {}
        self._dims: dict[SSAValue, list[Index]] = {}  # tensor -> its sizes
        self._cached: dict[Operation, object] = {}  # operation -> the result of `cached_for`

    # Sizes

    def dims(self, value: SSAValue) -> list[Index]:
        """Return the sizes of a tensor value.

        If `flat` is set, all tensors are accessed as one dimension of this size, except for those of rank 0.
        """
        if self.flat is not None and tensor_type(value).get_num_dims():
            return [self.flat]
        if value not in self._dims:
            self._dims[value] = self.rules.sizes(self, value)
        return self._dims[value]

    def forget_dims(self) -> None:
        """Forget the sizes of all tensors. The caller sets `flat` next, with which all have one dimension."""
        self._dims.clear()

    def resize(self, value: SSAValue, dims: list[Index]) -> None:
        """Register sizes of a tensor that are smaller than those of its type, so that loops visit fewer elements.

        A mask that hides the last columns makes the tensor narrower, for example.
        """
        self._dims[value] = dims
        if value in self.row_buffers:
            self.row_buffers[value].dims = dims

    def scalar(self, value: SSAValue) -> SSAValue:
        """Return the kernel value of a scalar of the dispatch function; emit its computation on first use."""
        if value in self.scalars:
            return self.scalars[value]
        if not isinstance(value, OpResult) or isinstance(value.type, TensorType):
            raise CompileError(f"a value of type {value.type} stands where a kernel needs a scalar",
                               location_of(self.source))  # fmt: skip
        mapping: dict[SSAValue, SSAValue] = {}
        no_loops: list[Index] = []  # a scalar of the function is computed outside of all loops
        self.rules.scalar(self, self.entry, value.op, mapping, no_loops)
        self.scalars.update(mapping)
        return self.scalars[value]

    def index(self, value: SSAValue) -> Index:
        """Return the kernel index of an index scalar of the dispatch function; an integer if it is constant."""
        constant = constant_index(value)
        return self.scalar(value) if constant is None else constant

    def indices(self, values: Sequence[int | SSAValue]) -> list[Index]:
        """Return the kernel indices of integers and index scalars of the dispatch function."""
        return [n if isinstance(n, int) else self.index(n) for n in values]

    def take_companion(self, host: Operation) -> LoopCompanion | None:
        """Return the second reduction that the loop of the reduction `host` is to compute, too; None if there is none.

        The caller emits the loop with both reductions. The companion is forgotten, so that only one loop computes it.
        """
        companion = self.companion
        if companion is None or companion.host is not host:
            return None
        self.companion = None
        return companion

    # Elements

    def materialize(self, value: SSAValue, buffer: SSAValue, index_map: IndexMap | None = None) -> None:
        """Register a buffer for `value`: its elements are loaded from the buffer from now on.

        `index_map` maps indices of the value to those of the buffer; None for the same indices.
        """
        self._buffers[value] = (buffer, index_map)

    def define(self, build: Builder, value: SSAValue, indices: Sequence[Index], element: SSAValue) -> None:
        """Let `at` return `element` for `value` at `indices`, in the block of `build` and blocks nested in it."""
        build.remember((value, tuple(indices)), element)

    def begin_row(self, indices: Sequence[Index]) -> None:
        """Begin the row of the elements with the leading `indices`: `row_buffers` hold its values from now on."""
        self.row = list(indices)

    def forget_rows(self) -> None:
        """Unregister the memory of rows, so that later code computes their values again."""
        self.row_buffers.clear()

    def forget(self, value: SSAValue) -> None:
        """Unregister the buffer of `value`: its elements are computed again from now on."""
        self._buffers.pop(value, None)

    def is_materialized(self, value: SSAValue) -> bool:
        """Return whether elements of a value are loaded from a registered buffer."""
        return value in self._buffers

    def stored_values(self) -> list[SSAValue]:
        """Return the materialized values that are not arguments."""
        return [value for value in self._buffers if isinstance(value, OpResult)]

    def buffer_of(self, value: SSAValue) -> tuple[SSAValue, IndexMap | None]:
        """Return the buffer of a materialized value, and the map from its indices to those of the buffer."""
        return self._buffers[value]

    def at(self, build: Builder, value: SSAValue, indices: Sequence[Index]) -> SSAValue:
        """Return the element of a tensor at `indices`, one per dimension and in bounds.

        An element that was computed before in this block or an enclosing one is reused. An element of a stored tensor
        is loaded. Another element is computed by the rule of its operation, in the outermost loop where its indices are
        defined. If the tensor has a row buffer, the first loop over a row stores the elements that it computes, and
        later loops over the same row load them.
        """
        earlier = build.recall((value, tuple(indices)))
        if earlier is not None:
            return earlier
        builder = self._outermost_builder(build, value, indices)
        row_buffer = self.row_buffers.get(value)
        if value in self._buffers:  # the whole tensor is stored
            self.loads.append((value, tuple(indices)))
            if isinstance(value, OpResult):
                builder = build  # the load must not move before the stores of the result
            result = self._load(builder, self._buffers[value], value, indices)
        elif row_buffer is not None and row_buffer.is_loadable(self.row, indices, build):  # the current row is stored
            builder = build  # the load must stay after the loop that fills the row buffer
            result = self._load(builder, (row_buffer.buffer, row_buffer.index_map), value, indices)
        else:
            result = self._compute(builder, value, indices)
            is_whole_row_computed = row_buffer is not None and covers(builder, self.row, indices, row_buffer.dims)
            if row_buffer is not None and is_whole_row_computed:  # later loops over the row load its elements
                buffer_indices = indices if row_buffer.index_map is None else row_buffer.index_map(builder, indices)
                self.store(builder, result, row_buffer.buffer, buffer_indices)
                row_buffer.filled = builder
        self.define(builder, value, indices, result)
        return result

    def _outermost_builder(self, build: Builder, value: SSAValue, indices: Sequence[Index]) -> Builder:
        """Return the builder of the outermost loop where an element of `value` at `indices` can be computed.

        An element whose computation may trap is computed in `build`, where it is used. So is an element at constant
        indices of a tensor that is or may be empty: before the loops, it could be out of bounds.
        """
        has_constant_indices = bool(indices) and not any(isinstance(i, SSAValue) for i in indices)
        if has_constant_indices and any(size < 1 for size in tensor_type(value).get_shape()):
            return build
        if isinstance(value, OpResult) and any(info_of(op).traps for op in walk(value.op)):
            return build
        # As for a load: not before a condition or a store that makes the element valid.
        return build.outermost_for(indices, for_load=True)

    def _load(
        self, build: Builder, source: tuple[SSAValue, IndexMap | None], value: SSAValue, indices: Sequence[Index]
    ) -> SSAValue:
        """Emit the load of an element of `value` from its buffer, and return it; `source` is an entry of `_buffers`."""
        buffer, index_map = source
        coordinates = indices if index_map is None else index_map(build, indices)
        # If `flat` is set, callers pass the index of the one loop for all tensors: a tensor of rank 0 has no indices.
        if not tensor_type(value).get_num_dims():
            coordinates = []
        is_argument = not isinstance(value, OpResult)
        if is_argument:  # its buffer is contiguous, and defined in `entry`, where a view can collapse two dimensions
            buffer, coordinates = self._with_linear_index(build, buffer, list(coordinates))
        return build.add(memref.LoadOp.get(buffer, [build.value(i) for i in coordinates]))

    def _with_linear_index(
        self, build: Builder, buffer: SSAValue, coordinates: list[Index]
    ) -> tuple[SSAValue, list[Index]]:
        """Replace two adjacent indices that are quotient and remainder of a linear index by the linear index.

        A load from a `memref<6x4xf32>` at [n / 4, n mod 4] becomes a load at [n] from a view of it as `memref<24xf32>`,
        for which no division is needed. The divisor must be the static size of the second of the two dimensions.

        Args:
            build: Builder of the load, whose `dividends` has the pairs of quotient and remainder.
            buffer: A contiguous memref that is defined in the kernel's entry block.
            coordinates: Index of the element along each dimension.

        Returns:
            The view in which the two dimensions are one, and the indices in it; or `buffer` and `coordinates` as they
            are, if there is no such pair.
        """
        type_ = buffer.type
        assert isinstance(type_, MemRefType)
        shape = type_.get_shape()
        for dim in range(len(coordinates) - 1):
            linear, size = build.dividends.get((coordinates[dim], coordinates[dim + 1]), (None, None))
            if linear is None or not isinstance(size, int) or shape[dim + 1] != size:
                continue
            key = ("collapsed", buffer, dim)  # all loads share one view, which is created in the kernel's entry
            view = self.entry.recall(key)
            if view is None:
                view = self.entry.add(collapsed(buffer, dim))
                self.entry.remember(key, view)
            return view, [*coordinates[:dim], linear, *coordinates[dim + 2 :]]
        return buffer, coordinates

    def store(
        self, build: Builder, element: SSAValue, buffer: SSAValue, coordinates: Sequence[Index], own_byte: bool = False
    ) -> None:
        """Emit the store of an element.

        Args:
            build: Receives the store.
            element: The value.
            buffer: The memref.
            coordinates: Indices in the buffer, one for each of its dimensions.
            own_byte: Whether no other invocation writes into the byte of a packed element: the store of, for example,
                4 bits then needs no atomic operation.
        """
        op = memref.StoreOp.get(element, buffer, [build.value(i) for i in coordinates])
        if own_byte:
            op.attributes[OWN_BYTE] = UnitAttr()
        build.add(op)

    def _compute(self, build: Builder, value: SSAValue, indices: Sequence[Index]) -> SSAValue:
        """Emit the computation of an element by the rule of the operation that defines the value, and return it.

        For the analysis of a trial emission (`loops/trial.py`), the element is recorded in `computed_elements`, and in
        `reduced_elements` if the operation emitted a reduction.

        Raises:
            CompileError: The value is an argument of the dispatch function that no buffer stores.
        """
        if isinstance(value, BlockArgument):
            raise CompileError(f"argument {value.index} of a dispatch has no buffer", location_of(self.source))
        assert isinstance(value, OpResult)
        emitted = EmittedElement(value, build, tuple(indices))
        self.computed_elements.append(emitted)
        reduction_count = len(self.emitted_reductions)
        outer_source, build.source = build.source, value.op  # the code gets the location of the operation
        element = self.rules.element(self, build, value, indices)
        build.source = outer_source
        # Reductions of the operation itself, not those of the operands that its rule has computed.
        has_emitted_reduction = any(op is value.op for op, _ in self.emitted_reductions[reduction_count:])
        if has_emitted_reduction:
            self.reduced_elements.append(emitted)
        return element

    # Constants

    def zero(self, build: Builder, type: Attribute) -> SSAValue:
        """Return a zero of this type: the value of elements of tensors without defined contents."""
        return build.pure(arith.ConstantOp(zero_attribute(type)))

    def table(self, build: Builder, attribute: DenseIntOrFPElementsAttr, indices: Sequence[Index]) -> SSAValue:
        """Emit the load of the element of a dense constant, a global of the module, at `indices`, and return it."""
        buffer = table_of(self.entry, self.source.sym_name.data, self.globals, attribute)
        return build.add(memref.LoadOp.get(buffer, [build.value(i) for i in indices]))

    def fresh(self, element: Attribute, size: int) -> SSAValue:
        """Allocate a buffer of `size` elements in workgroup memory at the entry, and return it."""
        op = memref.AllocOp.get(element, shape=[size])
        op.results[0]._type = workgroup_memory(element, size)
        return self.entry.add(op)

    def cached_for(self, op: Operation, compute: Callable[[Operation], object]) -> object:
        """Return `compute(op)`, such as the `Structured` form of a generic; computed once per operation and cached.

        All callers must pass the same function: it is no part of the key.
        """
        if op not in self._cached:
            self._cached[op] = compute(op)
        return self._cached[op]
