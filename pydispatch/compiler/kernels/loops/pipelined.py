"""Software pipelining of rows: the first reduction of the next row runs in a compute-bound loop of the current row.

The loop over the maximum of a row (of a softmax, say) is bound by memory; the loop over exponentials after it is bound
by computation. So the first row of a workgroup is reduced before all rows, and each row reduces the next row within its
own loop. Only reductions that are exact in any grouping qualify, so that a row has the same bits wherever it is
computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.cost import is_costly
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import body_at, initial_values, loop_sizes, structured_of
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.ir.op_info import Grouping, info_of
from pydispatch.ir.structured import Structured

MOST_BODY_OPERATIONS = 4
"""Maximum number of operations in the body of a pipelined reduction, which runs in a loop of the row before. With more,
it is not bound by memory, and gains nothing in that loop."""


@dataclass
class PipelinedReduction:
    """Reduction of the next row that runs in a loop of the current row.

    Attributes:
        elements: Tensors of the kernel.
        value: Result of the reduction.
        dims: For each dimension of the result, the dimension of the nest that indexes it; -1 for index 0.
        host: A later reduction of the current row, whose loop also computes this reduction of the next row.
        next_row: Indices of the next row; set by `begin`.
        results: Values of the next row; empty until the loop of `host` is emitted, whose emitter sets them.
    """

    elements: Elements
    value: OpResult
    dims: list[int]
    host: Operation
    next_row: list[Index] = field(default_factory=list)
    results: list[SSAValue] = field(default_factory=list)

    def first(self, build: Builder, row: Sequence[Index]) -> list[SSAValue]:
        """Emit the reduction of the first row, at indices `row`, as a separate loop, and return its result."""
        return [self.elements.at(build, self.value, self._indices_of_row(row))]

    def begin(self, build: Builder, row: Sequence[Index], next_row: list[Index], carried: Sequence[SSAValue]) -> None:
        """Begin a row whose reduction has the result `carried`, and register this reduction as companion of `host`.

        The loop of `host`, a later reduction of this row, then also reduces the row `next_row`.
        """
        # Code of this row uses the value that the loop of the row before has computed.
        self.elements.define(build, self.value, self._indices_of_row(row), carried[0])
        self.next_row, self.results = next_row, []
        # The emitter of the loop of `host` takes the companion from there, and sets `results`.
        self.elements.companion = self

    def end(self) -> list[SSAValue]:
        """End a row, and return the reduction of the next row."""
        assert self.results and self.elements.companion is None
        return self.results

    def initial(self, build: Builder) -> list[SSAValue]:
        """Emit and return the initial values of the reduction of the next row."""
        return initial_values(self.elements, build, self._reduction, self._loop_indices(step=0))

    def step(self, build: Builder, index: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit step `index` of the reduction of the next row, and return the next carried values."""
        return body_at(self.elements, build, self._reduction, self._loop_indices(step=index), carried)

    @property
    def _reduction(self) -> Structured:
        """The reduction as a structured operation."""
        return structured_of(self.elements, self.value.op)

    def _indices_of_row(self, row: Sequence[Index]) -> list[Index]:
        """Return the indices of the result for a row of the nest with outer indices `row`; 0 where `dims` has -1."""
        return [0 if dim < 0 else row[dim] for dim in self.dims]

    def _loop_indices(self, *, step: Index) -> list[Index]:
        """Return the index of each loop of the reduction in the next row, at index `step` of its reduced loop."""
        reduction = self._reduction
        # Only one loop is reduced, and has the index `step`. The indices of all other loops are replaced by those of
        # the row.
        indices: list[Index] = [step] * len(reduction.iterators)
        result_indices = self._indices_of_row(self.next_row)
        for row_index, result in zip(result_indices, reduction.output_maps[0].results, strict=True):
            if isinstance(result, AffineDimExpr):
                indices[result.position] = row_index
        return indices


def find_pipelined(elements: Elements, nest: LoopNest) -> PipelinedReduction | None:
    """Return the first reduction of a nest's rows as a pipelined one; None if it cannot share the loop of the second.

    In a softmax, m = max(x), s = sum(exp(x - m)), r = exp(x - m) / s, the first reduction of a row is m and the second
    is s. The loop of s, which also stores the exponentials, then computes m of the next row.

    Both must reduce one dimension of the same size. The first must have a short body, have the same bits in any order
    of its steps, and read arguments only. The loop of the second must store a value that is expensive to compute. Nests
    whose sums of floats must stay in order (`elements.reassociate` is False) have no pipelined reduction.
    """
    if not elements.reassociate or len(nest.row_reductions) < 2:
        return None
    (first_value, first_dims), (second_value, second_dims) = nest.row_reductions[:2]
    # Each result must have one element per row: all outer dimensions index it. A dimension of -1 has size 1.
    row_dims = list(range(nest.outer_rank))
    if any(sorted(dim for dim in dims if dim >= 0) != row_dims for dims in (first_dims, second_dims)):
        return None
    if not isinstance(first_value, OpResult) or not isinstance(second_value, OpResult):
        return None
    first, second = structured_of(elements, first_value.op), structured_of(elements, second_value.op)
    if first.op is second.op or len(first.op.results) != 1 or not _have_equal_loop(elements, first, second):
        return None
    if not _is_movable(first):
        return None
    # The second loop computes the stored values of the row: computation bounds its time only if one of them is costly.
    if not any(is_costly(stored) for stored in nest.row_storage):
        return None
    return PipelinedReduction(elements=elements, value=first_value, dims=first_dims, host=second.op)


def _is_movable(generic: Structured) -> bool:
    """Return whether a reduction of the next row may run in a loop of the current one, and gains by it."""
    # Inputs that are computed would be computed again for the next row.
    reads_arguments_only = all(_is_argument(v) for v in generic.inputs)
    has_short_body = len(list(generic.block.ops)) <= MOST_BODY_OPERATIONS
    # The first row of a workgroup is reduced in another loop than the others, and must have the same bits.
    return reads_arguments_only and has_short_body and _has_same_bits_in_any_grouping(generic)


def _have_equal_loop(elements: Elements, first: Structured, second: Structured) -> bool:
    """Return whether two reductions have one reduced loop each, of the same size: one loop can run both."""
    if len(first.reduced_loops) != 1 or len(second.reduced_loops) != 1:
        return False
    first_size, second_size = (loop_sizes(elements, g)[g.reduced_loops[0]] for g in (first, second))
    return first_size == second_size


def _has_same_bits_in_any_grouping(generic: Structured) -> bool:
    """Return whether a reduction has the same bits in any order of its steps, because its operation is exact.

    The operation is the one that combines the accumulator with a step's value, such as a maximum. The reduction has one
    result, so that its accumulator is the last argument of the body.
    """
    terminator = generic.block.last_op
    assert terminator is not None
    combiner, accumulator = terminator.operands[0].owner, generic.block.args[-1]
    if not isinstance(combiner, Operation) or accumulator not in combiner.operands:
        return False
    return info_of(combiner).grouping is Grouping.EXACT


def _is_argument(value: SSAValue) -> bool:
    """Return whether a tensor is an argument of the dispatch function, or a view of one."""
    value = source_of(value)
    return isinstance(value, BlockArgument) and isinstance(value.type, TensorType)
