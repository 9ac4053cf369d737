"""Recognition of contractions: generics that add up products of two factors, and the roles of their dimensions.

Dispatches are formed and named by `is_contraction`. `contraction_of` describes the contractions that have kernels of
their own. Both results are cached for each operation, see `pydispatch.ir.structured`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.kernels.matmul.linear import LinearIndex, linear_index
from pydispatch.compiler.kernels.ops.generics import cannot_lower
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured, as_structured

MULTIPLICATION_OF_ADDITION = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
"""The addition of a contraction -> the multiplication of the same element type."""

MAX_STRIDED_ROWS, MAX_INNER_ROWS = 7, 48
"""Sizes above which a longer dimension is no better as M. The second is for the candidate that is innermost in the
result, the first for other candidates, whose rows are strided in the result. So the innermost candidate becomes M if it
has more than 7 indices. For 250 images of 32x32x3, a product with M along pixels took 3.2 ms, along images 10 ms."""

ASSUMED_SIZE = 64
"""Size that a dynamic dimension is assumed to have when M, N and K are chosen."""


@dataclass(frozen=True)
class Factor:
    """Either of the two factors of a contraction's product: scalar code in the body, which reads inputs of the generic.

    One of these inputs, the main one, has all coordinates that the factor depends on. A coordinate is the index along
    one dimension of this input, as a function of the loops. In the product by quantized weights

        C[d0, d1] += A[d0, d2] * (float(Q[d2, d1]) * S[d1])        inputs: 0 is A, 1 is Q, 2 is S

    the second factor has the main input 1, the coordinates (d2, d1), and the inputs {1: (0, 1), 2: (1,)}: S is read at
    coordinate 1. Its code is the conversion and the multiplication by S.

    Attributes:
        value: The factor, in the body of the generic.
        main_input: Ordinal of the main input.
        coordinates: For each dimension of the main input, the index at which it is read.
        inputs: Ordinal of each input that is read -> its indices, one for each of its dimensions. An index is a
            position in `coordinates`, or a constant: S[d1] above has (1,), and S[d1, 0] would have (1, the constant 0).
        code: The operations of the body that compute the factor, producers first.
        is_element: Whether the factor is the element of the main input itself, without code.
    """

    value: SSAValue
    main_input: int
    coordinates: tuple[LinearIndex, ...]
    inputs: dict[int, tuple[int | LinearIndex, ...]]
    code: tuple[Operation, ...]
    is_element: bool

    @property
    def dims(self) -> set[int]:
        """The loop dimensions that the factor depends on."""
        return {dim for coordinate in self.coordinates for dim in coordinate.dims}

    @property
    def axis_dims(self) -> list[int] | None:
        """The loop dimension that indexes each dimension of the main input; None if an index is another expression."""
        if not all(c.dims and c.is_identity(c.dims[0]) for c in self.coordinates):
            return None
        return [c.dims[0] for c in self.coordinates]

    def positions_of(self, dim: int) -> list[int]:
        """Return the positions of the coordinates that depend on a dimension."""
        return [i for i, c in enumerate(self.coordinates) if c.coefficient(dim)]

    def is_contiguous(self, dim: int | None) -> bool:
        """Return whether elements at neighbouring indices of loop `dim` are adjacent in the memory of the main input.

        They are adjacent if `dim` has the coefficient 1 in the index along the last dimension of the input, which is
        row-major. The caller must know that no other index depends on `dim`, from `positions_of`: that is not checked
        here.
        """
        return dim is not None and bool(self.coordinates) and self.coordinates[-1].coefficient(dim) == 1


@dataclass(frozen=True)
class Contraction:
    """A contraction: C[.., m, n] += A[.., m, k] * B[.., k, n] for all outer dimensions, summed over k and `reductions`.

    Dimensions are numbered as the loops of the generic. The convolution

        C[d0, d1, d2] += A[d0 + d3, d1 + d4, d5] * B[d3, d4, d5, d2]        row, column, filter; 3x3 window, channel

    of 28x28 results with 64 channels has m = 1, n = 2, k = 5, the outer dimension 0 and the reductions 3 and 4.

    `contraction_of` creates it.

    Attributes:
        op: The operation.
        generic: The operation as a structured operation.
        a, b: The factors.
        m, n: Dimensions of the rows and the columns of a tile; None where the product has none. M indexes only A, N
            only B.
        k: The reduced dimension that register blocks run along.
        outer: The other parallel dimensions, ascending.
        reductions: The other reduced dimensions, ascending.
        acc: Element type of the result.
    """

    op: Operation
    generic: Structured
    a: Factor
    b: Factor
    m: int | None
    n: int | None
    k: int
    outer: tuple[int, ...]
    reductions: tuple[int, ...]
    acc: Attribute

    def tensor_of(self, factor: Factor) -> SSAValue:
        """Return the tensor that is the main input of a factor."""
        return self.generic.inputs[factor.main_input]

    def element_of(self, factor: Factor) -> BlockArgument:
        """Return the argument of the body that is the element of `tensor_of(factor)`."""
        return self.generic.block.args[factor.main_input]


def contraction_of(op: Operation) -> Contraction | None:
    """Return an operation as a contraction C += A * B; None for other operations, and if plain loops are better.

    `Structured.fact` calls `_recognize` for the first query of an operation, and caches its result for later ones.
    """
    generic = as_structured(op)
    return None if generic is None or generic.body is None else generic.fact(_recognize)


def is_contraction(op: Operation) -> bool:
    """Return whether an operation reduces several inputs and its body has an addition and a multiplication.

    This decides how dispatches are formed and named; not all such operations have a matrix product kernel.
    """
    generic = as_structured(op)
    return generic is not None and generic.body is not None and generic.fact(_adds_products)


def _adds_products(generic: Structured) -> bool:
    """Return whether a generic reduces several inputs, and its body has an addition and a multiplication."""
    if not generic.reduced_loops or len(generic.inputs) < 2:
        return False
    names = {op.name for op in generic.block.ops}
    # `MULTIPLICATION_OF_ADDITION` has `arith.addf` -> `arith.mulf`, and so on for each kind of number.
    has_addition = bool(names & MULTIPLICATION_OF_ADDITION.keys())
    has_multiplication = bool(names & {*MULTIPLICATION_OF_ADDITION.values()})
    return has_addition and has_multiplication


def _recognize(generic: Structured) -> Contraction | None:
    """Return a generic as a contraction; None unless its body adds one product of two factors to one accumulator."""
    has_one_result = len(generic.outputs) == len(generic.op.results) == 1
    if not has_one_result or not generic.reduced_loops or cannot_lower(generic):
        return None
    operands = _product(generic)
    if operands is None:
        return None
    factors = [_factor(generic, operand) for operand in operands]
    if factors[0] is None or factors[1] is None:
        return None
    return _choose_mnk(generic, factors[0], factors[1])


def _product(generic: Structured) -> tuple[SSAValue, SSAValue] | None:
    """Return the two values that the body multiplies and adds to its accumulator; None for another body."""
    yield_op = generic.block.last_op
    assert yield_op is not None
    total = yield_op.operands[0]
    accumulator = generic.block.args[-1]
    # The body must yield `accumulator + product`, the only use of the accumulator. The multiplication must be that of
    # the addition's type: `MULTIPLICATION_OF_ADDITION` has `arith.addf` -> `arith.mulf`.
    if not isinstance(total, OpResult) or total.op.name not in MULTIPLICATION_OF_ADDITION:
        return None
    if len(list(accumulator.uses)) != 1 or accumulator not in total.op.operands:
        return None
    left, right = total.op.operands
    product = right if left is accumulator else left
    if not isinstance(product, OpResult) or product.op.name != MULTIPLICATION_OF_ADDITION[total.op.name]:
        return None
    return product.op.operands[0], product.op.operands[1]


def _factor(generic: Structured, value: SSAValue) -> Factor | None:
    """Return one operand of the product as a factor; None if no single input has all coordinates that it depends on.

    A coordinate is the index along a dimension of an input, as a function of the loops. The main input of a factor has
    all of its coordinates. For `Q[k, n] * S[n]` it is the factor with the main input Q: S needs only a coordinate of Q.
    `X[k] * Y[n]` is no factor. Nor is a value that reads an accumulator, or no input at all.
    """
    code_and_ordinals = _backward_slice(generic, value)
    if code_and_ordinals is None:
        return None
    code, ordinals = code_and_ordinals
    reads_accumulator = any(ordinal >= len(generic.inputs) for ordinal in ordinals)
    if not ordinals or reads_accumulator:
        return None
    # The main input is indexed by most loops; of several such inputs, it has the most dimensions.
    maps = {ordinal: generic.maps[ordinal] for ordinal in ordinals}
    main = max(ordinals, key=lambda ordinal: (len(dims_in(maps[ordinal])), len(maps[ordinal].results)))
    coordinates = tuple(c for r in maps[main].results if (c := linear_index(r)) is not None)
    has_only_linear_indices = len(coordinates) == len(maps[main].results)
    # All inputs must be indexed by some of the main input's coordinates, or by constants; `positions` states which.
    inputs = {i: positions for i, map_ in maps.items() if (positions := _positions(map_, coordinates)) is not None}
    if not has_only_linear_indices or len(inputs) < len(maps):
        return None
    return Factor(
        value=value,
        main_input=main,
        coordinates=coordinates,
        inputs=inputs,
        code=tuple(code),
        is_element=value is generic.block.args[main],
    )


def _backward_slice(generic: Structured, value: SSAValue) -> tuple[list[Operation], list[int]] | None:
    """Return the operations of the body that compute a value, and the ordinals of the operands that they read.

    Producers are first. Return None if an operation reads tensors or indices, has regions, or several results. For the
    value %2 of the body `(%a, %q, %s, %acc) { %1 = sitofp %q; %2 = mulf %1, %s; ... }` it is ([%1, %2], [1, 2]).
    """
    # Values from outside of the body, such as constants, are neither code nor operands.
    code: list[Operation] = []
    ordinals: set[int] = set()
    pending, visited = [value], set[SSAValue]()
    while pending:
        operand = pending.pop()
        if operand in visited:
            continue
        visited.add(operand)
        if isinstance(operand, BlockArgument) and operand.owner is generic.block:
            ordinals.add(operand.index)
        elif isinstance(operand, OpResult) and operand.op.parent_block() is generic.block:
            op = operand.op
            # `linalg.index` and `tensor.extract` depend on indices and tensors that are no operands of the generic.
            if op.regions or op.name.startswith(("linalg.", "tensor.")) or len(op.results) != 1:
                return None
            code.append(op)
            pending += op.operands
    # In the order of the body, producers are first.
    order = {op: i for i, op in enumerate(generic.block.ops)}
    return sorted(code, key=lambda op: order[op]), sorted(ordinals)


def _positions(map: AffineMap, coordinates: tuple[LinearIndex, ...]) -> tuple[int | LinearIndex, ...] | None:
    """Return, for each result of a map, its position in `coordinates`, or the result itself if it is constant.

    Return None if a result is neither.
    """
    positions: list[int | LinearIndex] = []
    for result in map.results:
        coordinate = linear_index(result)
        if coordinate is None:
            return None
        is_constant = not coordinate.terms
        if is_constant:
            positions.append(coordinate)
        elif coordinate in coordinates:
            positions.append(coordinates.index(coordinate))
        else:
            return None
    return tuple(positions)


def _static_size(generic: Structured, dim: int) -> int:
    """Return the static size of a dimension, or the assumed one if it is dynamic."""
    size = generic.extents[dim]
    return ASSUMED_SIZE if size is None else size


def _candidates_for_n(lhs: Factor, rhs: Factor, parallel: set[int]) -> list[int]:
    """Return which of the dimensions `parallel` may serve as N if `lhs` is A and `rhs` is B, ascending.

    Such a dimension indexes only `rhs`, in exactly one coordinate, and with the coefficient 1.
    """
    candidates = [d for d in sorted(parallel) if d not in lhs.dims and len(rhs.positions_of(d)) == 1]
    return [d for d in candidates if rhs.coordinates[rhs.positions_of(d)[0]].coefficient(d) == 1]


def _choose_mnk(generic: Structured, first: Factor, second: Factor) -> Contraction | None:
    """Choose the dimensions that serve as M, N and K, and return the contraction; None if plain loops are better.

    N decides which factor is B. All dimensions without a role become outer ones or reductions. Return None, too, if a
    reduced dimension indexes neither factor.
    """
    is_each_reduction_read = set(generic.reduced_loops) <= first.dims | second.dims
    roles = _choose_n(generic, first, second) if is_each_reduction_read else None
    if roles is None:
        return None
    a, b, n = roles
    m, k = _choose_m(generic, a, b), _choose_k(generic, a, b)
    if k is None:
        return None
    outer = tuple(d for d in generic.out_dims if d not in (m, n))
    # Without N there is no M either: each result is a dot product. Plain loops vectorise it better if K is strided in a
    # factor, or if there are several results, whose dimensions are all outer ones.
    is_k_strided = not a.is_contiguous(k) or not b.is_contiguous(k)
    if n is None and (outer or is_k_strided):
        return None
    return Contraction(
        op=generic.op,
        generic=generic,
        a=a,
        b=b,
        m=m,
        n=n,
        k=k,
        outer=outer,
        reductions=tuple(d for d in generic.reduced_loops if d != k),
        acc=tensor_type(generic.op.results[0]).element_type,
    )


def _choose_n(generic: Structured, first: Factor, second: Factor) -> tuple[Factor, Factor, int | None] | None:
    """Return A, B and N, the dimension of B's columns; N is None if all parallel dimensions index both factors.

    B is the factor that has N: for C[d0, d1] += X[d1, d2] * Y[d0, d2], A is Y, B is X and N is 1, the dimension that is
    contiguous in C. The dimension with the highest score is N. If scores are equal, a dimension of the second factor is
    preferred to dimensions of the first, and then the lowest dimension. Without N, A is the first factor, B the second.

    Return None if no dimension can be N although one indexes a single factor, such as d0 in X[2 * d0, d1]: the product
    is then neither a matrix product nor a set of dot products.
    """
    parallel = set(generic.out_dims)
    candidates = [(first, second, dim) for dim in _candidates_for_n(first, second, parallel)]
    candidates += [(second, first, dim) for dim in _candidates_for_n(second, first, parallel)]
    if candidates:  # `max` returns the first one of equal score
        return max(candidates, key=lambda candidate: _score_of_n(generic, b=candidate[1], dim=candidate[2]))
    indexes_one_factor_alone = any((d in first.dims) != (d in second.dims) for d in parallel)
    return None if indexes_one_factor_alone else (first, second, None)


def _score_of_n(generic: Structured, b: Factor, dim: int) -> int:
    """Return how well `dim` serves as N, if `b` is B: an N that is contiguous in C and B has the highest score.

    If N is contiguous in C, whole vectors are stored, and if it is contiguous in B, whole vectors are loaded. An N too
    short for a vector has a score of at most 4 + 3 + 2 - 6 = 3. Any N contiguous in C that fills a
    vector has at least 4, and is preferred to it.
    """
    indices_of_c = generic.output_maps[0].results
    is_contiguous_in_c = indices_of_c[-1] == AffineDimExpr(dim)
    is_plain_index = b.coordinates[b.positions_of(dim)[0]].is_identity(dim)
    fills_no_vector = _static_size(generic, dim) < 4
    return 4 * is_contiguous_in_c + 3 * b.is_contiguous(dim) + 2 * is_plain_index - 6 * fills_no_vector


def _choose_m(generic: Structured, a: Factor, b: Factor) -> int | None:
    """Return the dimension that serves as M, the rows of A; None if no dimension indexes A alone.

    M is the longest candidate. A size above `MAX_INNER_ROWS` is no advantage, and counts as `MAX_INNER_ROWS`. For
    dimensions that are not innermost in C, the limit is `MAX_STRIDED_ROWS`.
    """
    candidates = [d for d in generic.out_dims if len(a.positions_of(d)) == 1 and d not in b.dims]
    # The dimensions that index C, outermost first: [1, 0] for C[d1, d0], in which d0 is innermost.
    order_in_c = [r.position for r in generic.output_maps[0].results if isinstance(r, AffineDimExpr)]
    innermost = max(candidates, key=order_in_c.index, default=None)

    def preference(dim: int) -> tuple[int, bool, int]:
        """Return a sort key of `dim`, which is greatest for the best M.

        Most important is its size, up to `most_rows`, then that it is contiguous in A. The number of the dimension
        decides between equal ones. `most_rows` depends on whether `dim` is `innermost`, the candidate innermost in C.
        """
        most_rows = MAX_INNER_ROWS if dim == innermost else MAX_STRIDED_ROWS
        return min(_static_size(generic, dim), most_rows), a.is_contiguous(dim), dim

    return max(candidates, key=preference, default=None)


def _choose_k(generic: Structured, a: Factor, b: Factor) -> int | None:
    """Return the reduced dimension that serves as K; None if there is none.

    K must index each factor in exactly one coordinate. A dimension that indexes a factor twice (`A[i, i]`) is not
    eligible: the elements of a diagonal do not fill a tile.
    """
    eligible = [d for d in generic.reduced_loops if len(a.positions_of(d)) == len(b.positions_of(d)) == 1]

    def preference(dim: int) -> tuple[bool, bool, bool, int, int]:
        """Return a sort key of `dim`, which is greatest for the best K.

        Most important is that K has more than one step, then that it is contiguous in A, then in B, then its size. The
        number of the dimension comes last: of equal dimensions, the innermost is K.
        """
        size = _static_size(generic, dim)
        return size > 1, a.is_contiguous(dim), b.is_contiguous(dim), size, dim

    return max(eligible, key=preference, default=None)


def contractions(operations: Sequence[Operation]) -> list[Contraction]:
    """Return the contractions among operations."""
    return [c for op in operations if (c := contraction_of(op)) is not None]
