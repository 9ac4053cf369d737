"""Chains: a contraction, row-wise operations on its result, and a contraction of these rows. Attention is one.

A workgroup computes some rows of the first product, the row-wise operations on them, and their rows of the second
product, so that neither the products of queries and keys nor their softmax leave the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from xdsl.dialects.builtin import Float32Type, Float64Type, TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.kernels.matmul.gathered import gathered_pages
from pydispatch.compiler.kernels.matmul.match import Contraction, contractions
from pydispatch.compiler.kernels.matmul.results import DimCache, dependents, matching_dims
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

MAX_COLUMNS = 4096
"""Maximum number of columns of the first product: the rows of a register block must stay in the second-level cache."""

NO_DIM = -1
"""Stands for an index that is no loop in a list of an affine map's loops: (d0, d1 + d2) has the list [0, NO_DIM]."""


class Part(IntEnum):
    """Part of a chain (first product, row-wise operations, second product) that an operation is in.

    The values are the positions of the parts in `ChainParts`.
    """

    FIRST_PRODUCT = 0
    ROW_OPERATIONS = 1
    SECOND_PRODUCT = 2


class ChainParts(NamedTuple):
    """Operations of a chain by the part that they are in. Operations that are free to duplicate are in every part.

    Attributes:
        first_product: The first contraction, and elementwise operations on it up to the scores, their last result.
        row_operations: Row-wise operations, such as a softmax, from the scores to factor A of the second contraction.
        second_product: The second contraction, and operations on its result.
    """

    first_product: list[Operation]
    row_operations: list[Operation]
    second_product: list[Operation]


@dataclass(frozen=True)
class Chain:
    """Two contractions with row-wise operations between them, such as attention: one kernel computes rows of both.

    `chain_of` creates it. Attention with 2 heads, 5 queries, 7 keys and a head size of 4 is the chain

        scores = 0.5 * (q[2, 5, 4] x k[2, 7, 4])   the first product and an elementwise function of it: [2, 5, 7]
        rows   = softmax(scores)                   row-wise operations along the last dimension: [2, 5, 7]
        result = rows x v[2, 7, 4]                 the second product: [2, 5, 4]

    Dimension 0 of `rows` is an outer dimension of both products, dimension 1 (the rows) is M of both, and dimension 2
    (the columns) is N of the first product and K of the second.

    Attributes:
        first, second: The contractions.
        scores: The first product, or an elementwise function of it, which row-wise operations read.
        rows: Factor A of the second product, computed from `scores` by row-wise operations along the last dimension.
            Both have the dimensions of the first product.
        parts: The operations, split into the first product, the row-wise operations and the second product.
    """

    first: Contraction
    second: Contraction
    scores: SSAValue
    rows: SSAValue
    parts: ChainParts

    @property
    def outer(self) -> list[int]:
        """The outer dimensions of `rows`, such as the heads: all but the rows (M of both products) and the columns."""
        return [d for d in range(len(shape_of(self.rows)) - 1) if self.second_loops[d] != self.second.m]

    @property
    def gathers(self) -> set[Operation]:
        """The operations that gather pages for factor B of a product, such as the pages of a cache of keys."""
        tensors = [product.tensor_of(product.b) for product in (self.first, self.second)]
        pages_of_tensors = map(gathered_pages, tensors)  # None for a factor without pages
        return {op for pages in pages_of_tensors if pages is not None for op in pages.operations}

    @property
    def first_loops(self) -> list[int]:
        """For each dimension of `rows`, the loop of the first product that runs over it; `NO_DIM` for none.

        The result is [0, 1, 2] for rows [head, query, key], if the loops of the first product are (head, query, key,
        element).
        """
        return _dims_of(self.first.generic.output_maps[0])

    @property
    def second_loops(self) -> list[int]:
        """For each dimension of `rows`, the loop of the second product that runs over it.

        The result is [0, 1, 3] for rows [head, query, key], if the loops of the second product are (head, query,
        element, key).
        """
        dims = self.second.a.axis_dims
        assert dims is not None, "`_has_kernel` must have checked it"
        return dims


def chain_of(operations: Sequence[Operation]) -> Chain | None:
    """Return operations as a chain of two contractions; None if they are no chain, or no kernel supports the chain.

    In a chain, the second contraction multiplies rows that are computed from the first one, as in attention: `scores`
    is the product of queries and keys, `rows` their softmax, which is multiplied by the values.

    operations: all operations of a dispatch, in execution order.
    """
    products = contractions(operations)
    if len(products) != 2:
        return None
    first, second = products
    dispatch = _Dispatch(dict.fromkeys(operations), first, second, after_first=dependents(first.op, operations))
    # The kernel has a buffer of `rows`: factor A of the second product must be its elements, not a function of them.
    rows = second.tensor_of(second.a)
    scores = dispatch.scores() if second.op in dispatch.after_first and second.a.is_element else None
    has_row_operations = rows is not scores and rows.owner in dispatch.after_first
    if scores is None or not has_row_operations:
        return None
    parts = dispatch.split(scores, rows)
    if parts is None:
        return None
    chain = Chain(first=first, second=second, scores=scores, rows=rows, parts=parts)
    # The kernel stores only results of the second product. Nor does it have tensors of gathered pages, such as pages of
    # keys: its products read the pages themselves. No operation outside of the dispatch may read these values.
    not_stored = (*parts.first_product, *parts.row_operations, *(chain.gathers & dispatch.operations.keys()))
    if any(map(dispatch.is_used_outside, not_stored)):
        return None
    return chain if _has_kernel(chain) and _are_rows_independent(chain) else None


@dataclass(frozen=True)
class _Dispatch:
    """Operations of a dispatch with two contractions.

    Attributes:
        operations: All operations of the dispatch, in execution order: the keys are an ordered set.
        first, second: The contractions.
        after_first: The operations that depend on the first contraction.
        dim_cache: Results of `matching_dims` for the first product.
    """

    operations: dict[Operation, None]
    first: Contraction
    second: Contraction
    after_first: Collection[Operation]
    dim_cache: DimCache = field(default_factory=dict)

    def dims_of(self, value: SSAValue) -> list[int] | None:
        """Return the dimensions of the first product along the axes of `value`; None if it is not elementwise on it."""
        return matching_dims(value, self.first.op.results[0], self.dim_cache)

    def is_used_outside(self, op: Operation) -> bool:
        """Return whether an operation outside of the dispatch uses a result of `op`, which the kernel must then store.

        Return False for an `op` that is free to duplicate, such as a constant: its users outside compute it again.
        """
        users = (use.operation for result in op.results for use in result.uses)
        return not _is_free(op) and any(user not in self.operations for user in users)

    def scores(self) -> SSAValue | None:
        """Return the tensor at which the elementwise operations on the first product end and the row-wise ones begin.

        Each element of the tensor depends on one element of the product, at the same indices. An operation that is not
        elementwise on the product reads the tensor. In `s = 0.5 * product; m = max(s) of each row; p = exp(s - m)` the
        tensor is s, which the maximum reads.

        Return None if there is not exactly one such tensor. Return None, too, if an operation outside of the dispatch
        reads the product or an elementwise function of it: the kernel stores neither.
        """
        product = self.first.op.results[0]
        same_dims = list(range(len(shape_of(product))))
        results = (r for op in self.after_first if op is not self.second.op for r in op.results)
        candidates: list[SSAValue] = []
        for value in (product, *results):
            # Its elements must depend on those of the product at the same indices, not with dimensions in other order.
            if not isinstance(value.type, TensorType) or self.dims_of(value) != same_dims:
                continue
            users = [use.operation for use in value.uses]
            if any(user not in self.operations for user in users):
                return None
            # Elementwise operations end at the value if a user is not elementwise on the product.
            if any(all(self.dims_of(r) is None for r in user.results) for user in users):
                candidates.append(value)
        return candidates[0] if len(candidates) == 1 else None

    def split(self, scores: SSAValue, rows: SSAValue) -> ChainParts | None:
        """Split the operations into the three parts of a chain: first product, row-wise operations, second product.

        Exactly two tensors must cross between parts: the scores, from the first part to the second, and the rows, from
        the second to the third. Operations that are free to duplicate (such as constants and `tensor.empty`) are in
        every part, so that their results do not cross.

        The second contraction must depend on the first. Return None if other values cross, or if several parts need an
        operation that is not free to duplicate.

        Args:
            scores: The first product, or an elementwise function of it, which row-wise operations read.
            rows: Factor A of the second product.
        """
        part_of = self._part_of_operations()
        if part_of is None:
            return None
        crossing: set[SSAValue] = set()  # values that an operation of one part computes, and one of another part reads
        for op in self.operations:
            for value in inputs_of(op):
                producer = value.owner
                if not isinstance(producer, Operation) or producer not in part_of or _is_free(producer):
                    continue
                if part_of[producer] != part_of[op]:
                    crossing.add(value)
        if crossing != {scores, rows}:
            return None
        # `Part` has the order of the fields of `ChainParts`.
        return ChainParts(*([op for op in self.operations if _is_free(op) or part_of[op] == part] for part in Part))

    def _part_of_operations(self) -> dict[Operation, Part] | None:
        """Return the part of each operation.

        An operation that does not depend on a product is in the part of its users. If the users are in several parts,
        or there are none, the operation must be free to duplicate, and gets the first of these parts. Otherwise, return
        None.
        """
        part_of = self._part_of_dependents()
        # The users of an operation are later, so that from the last operation on, their parts are known.
        for op in reversed(self.operations):
            if op in part_of:
                continue
            users = [
                user for user in self.operations if user in part_of and any(v.owner is op for v in inputs_of(user))
            ]
            parts = {part_of[user] for user in users}
            if len(parts) != 1 and not _is_free(op):
                return None
            part_of[op] = min(parts, default=Part.FIRST_PRODUCT)
        return part_of

    def _part_of_dependents(self) -> dict[Operation, Part]:
        """Return the part of each operation that is or depends on a product."""
        after_second = dependents(self.second.op, self.operations)
        part_of = {self.first.op: Part.FIRST_PRODUCT, self.second.op: Part.SECOND_PRODUCT}
        for op in self.after_first:
            if op in after_second:
                part_of[op] = Part.SECOND_PRODUCT
            elif op is not self.second.op:
                is_elementwise = all(self.dims_of(r) is not None for r in op.results)  # on the first product
                part_of[op] = Part.FIRST_PRODUCT if is_elementwise else Part.ROW_OPERATIONS
        return part_of


def _is_free(op: Operation) -> bool:
    """Return whether an operation, such as a constant or `tensor.empty`, is free to duplicate."""
    return info_of(op).cost is Cost.FREE


def _has_kernel(chain: Chain) -> bool:
    """Return whether the kernel supports the chain.

    The kernel supports f32 or f64 throughout, static sizes, and at most `MAX_COLUMNS` columns. Rows and outer
    dimensions must be the same in both products. The columns must be N of the first product and K of the second.
    """
    first, second = chain.first, chain.second
    values = (chain.scores, chain.rows, second.op.results[0])
    types = [v.type.element_type for v in values if isinstance(v.type, TensorType)]
    if len(set(types)) != 1 or not isinstance(types[0], Float32Type | Float64Type):
        return False
    if shape_of(chain.rows) != shape_of(chain.scores) or not 0 < shape_of(chain.rows)[-1] <= MAX_COLUMNS:
        return False
    sizes = (*first.generic.extents, *second.generic.extents)
    if any(n is None or n < 1 for n in sizes):  # dynamic, or empty
        return False
    has_loop_per_dimension = second.a.axis_dims is not None  # each dimension of the rows is a loop of the product
    reduces_columns_only = not second.reductions
    return has_loop_per_dimension and reduces_columns_only and _have_equal_rows(chain)


def _have_equal_rows(chain: Chain) -> bool:
    """Return whether both products have the same rows (M) and outer dimensions.

    The last dimension of `Chain.rows` must be N of the first product and K of the second; each other dimension must be
    M of both products, or an outer dimension of both.
    """
    first, second = chain.first, chain.second
    # For each dimension of the rows, such as [head, query, key], the loop of each product that runs over it.
    first_loops, second_loops = chain.first_loops, chain.second_loops
    reads_diagonal = len(set(second_loops)) != len(second_loops)  # one loop indexes two dimensions
    if reads_diagonal or NO_DIM in first_loops:
        return False
    # The last dimension, the columns. A first product without N is a set of dot products: it has no columns.
    if first_loops[-1] != first.n or second_loops[-1] != second.k:
        return False
    if second.m is not None and second.m not in second_loops:
        return False
    # The dimension of the rows that is M of each product; None for a single row.
    m_dim_of_first = None if first.m is None else first_loops.index(first.m)
    m_dim_of_second = None if second.m is None else second_loops.index(second.m)
    # All other dimensions, `chain.outer`, are outer dimensions of both products, which have no others.
    outer_of_first, outer_of_second = ({loops[d] for d in chain.outer} for loops in (first_loops, second_loops))
    have_same_outer = outer_of_first == set(first.outer) and outer_of_second == set(second.outer)
    return m_dim_of_first == m_dim_of_second and have_same_outer


def _dims_of(map: AffineMap) -> list[int]:
    """Return, for each result of a map, the dimension that it is; `NO_DIM` for another expression."""
    return [r.position if isinstance(r, AffineDimExpr) else NO_DIM for r in map.results]


def _are_rows_independent(chain: Chain) -> bool:
    """Return whether each row of `chain.rows` depends only on the row of `chain.scores` at the same indices."""
    identity = list(range(len(shape_of(chain.scores))))
    column_dim = identity[-1]
    # Tensor that depends on the scores -> for each of its axes, the dimension of the scores that the axis runs along.
    dims_of: dict[SSAValue, list[int]] = {chain.scores: identity}
    for op in chain.parts.row_operations:
        reads = [(ordinal, dims_of[v]) for ordinal, v in enumerate(op.operands) if v in dims_of]
        if reads:
            dims_of_results = _aligned_results(op, reads, column_dim)
            if dims_of_results is None:
                return False
            dims_of.update(zip(op.results, dims_of_results, strict=True))
    return isinstance(chain.rows, OpResult) and dims_of.get(chain.rows) == identity


def _aligned_results(op: Operation, reads: Sequence[tuple[int, list[int]]], column: int) -> list[list[int]] | None:
    """Return, for each result of a row-wise operation, the dimension of the scores that each of its axes runs along.

    With scores of the dimensions 0 (rows) and 1 (columns), a maximum over the columns reads [0, 1] and has the result
    [0]. A generic that subtracts this maximum from the scores reads [0, 1] and [0], and has the result [0, 1].

    Return None for an operation that mixes rows, or reduces another dimension than the columns.

    Args:
        op: The operation.
        reads: For each operand that depends on the scores, (its ordinal, dimensions of the scores along its axes).
        column: The dimension of the scores that columns are along; only it may be reduced.
    """
    # A pointwise operation computes each result element from the operand elements at the same indices: all operands
    # must have the same axes, and the results have these, too.
    if op.name != GENERIC:
        rule, (_, first_dims) = rule_of(op), reads[0]
        is_pointwise = rule is not None and rule.is_pointwise(op)
        have_same_axes = all(dims == first_dims for _, dims in reads)
        return [first_dims] * len(op.results) if is_pointwise and have_same_axes else None
    generic = structured(op)
    dim_of_loop = _dim_of_loop(generic, reads)
    if dim_of_loop is None or any(dim_of_loop.get(loop) != column for loop in generic.reduced_loops):
        return None
    loops_of_results = [_dims_of(map_) for map_ in generic.output_maps]
    # An axis of a result must not be a loop over other tensors alone, or an index that is no loop (`NO_DIM`).
    if any(loop not in dim_of_loop for loops in loops_of_results for loop in loops):
        return None
    return [[dim_of_loop[loop] for loop in loops] for loops in loops_of_results]


def _dim_of_loop(generic: Structured, reads: Sequence[tuple[int, list[int]]]) -> dict[int, int] | None:
    """Return, for each loop of a generic that indexes a dependent operand, the dimension of the scores it runs along.

    Return None if a loop runs along two dimensions. Return None, too, if two loops run along one dimension: they would
    combine elements of different rows, or of different columns.

    reads: for each operand that depends on the scores, (its ordinal, dimensions of the scores along its axes).
    """
    dim_of_loop: dict[int, int] = {}
    for ordinal, dims in reads:
        for loop, dim in zip(_dims_of(generic.maps[ordinal]), dims, strict=True):
            if loop == NO_DIM or dim_of_loop.setdefault(loop, dim) != dim:
                return None
    has_two_loops_along_a_dim = len(set(dim_of_loop.values())) < len(dim_of_loop)
    return None if has_two_loops_along_a_dim else dim_of_loop
