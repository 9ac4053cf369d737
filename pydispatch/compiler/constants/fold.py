"""Evaluation at compile time, by NumPy, of small tensors that depend on constants alone.

Sums, products, quotients and roots are rounded as kernels round them; other functions are computed in f64 and rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from pydispatch.ir.affine_maps import is_permutation
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = Any
"""NumPy array or scalar: the value of a tensor or scalar, or a scalar of a generic's body at all iterations at once."""


MOST_ELEMENTS = 1 << 20
"""Maximum number of elements of a value and of every intermediate tensor; more would make compiling slow."""


class Unknown(Exception):
    """Signal that a value cannot be computed at compile time: its elements are unknown or its operation is not
    supported.
    """


def folded(chain: Sequence[Operation], value: SSAValue) -> arith.ConstantOp | None:
    """Compute a value with NumPy and return it as a detached `arith.constant`.

    Return None if an operation is not supported, or if a tensor has more than `MOST_ELEMENTS` elements.

    Args:
        chain: The operations that compute the value, producers first.
        value: The value.
    """
    known: dict[SSAValue, Array] = {}
    try:
        with np.errstate(all="ignore"):  # infinities and NaNs are results like others
            for op in chain:
                if any(isinstance(r.type, TensorType) and prod(shape_of(r)) > MOST_ELEMENTS for r in op.results):
                    return None
                known.update(zip(op.results, _results(op, known), strict=True))
    except Unknown:
        return None
    assert isinstance(value.type, TensorType)
    # The elements in row-major order, as the attribute stores them: transpositions and splats of NumPy are views.
    array = np.ascontiguousarray(np.broadcast_to(known[value], shape_of(value)))
    return arith.ConstantOp(DenseIntOrFPElementsAttr(value.type, BytesAttr(array.tobytes())))


def _results(op: Operation, known: Mapping[SSAValue, Array]) -> list[Array]:
    """Compute the results of an operation. Raises Unknown for an operation that is not supported.

    Args:
        op: The operation: a generic, a constant, or an operation on whole tensors or scalars.
        known: Value → its array; contains all operands of the operation.
    """
    if op.name == GENERIC:
        return _generic(structured(op), known)
    if op.name in ("arith.constant", "flow.tensor.constant"):
        return [_constant_array(op)]
    (result,) = op.results
    if not isinstance(result.type, TensorType):
        return [_scalar(op, known)]
    if op.name == "tensor.empty":
        return [np.zeros(shape_of(result), _numpy_dtype(result.type.element_type))]
    if op.name == "tensor.splat":
        return [np.full(shape_of(result), known[op.operands[0]])]
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape", "flow.tensor.reshape"):
        return [known[op.operands[0]].reshape(shape_of(result))]
    return [_scalar(op, known)]  # elementwise on whole tensors, such as `arith.addf %a, %b : tensor<4xf32>`


def _numpy_dtype(type_: Attribute) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type. Raises Unknown where there is none."""
    if isinstance(type_, IntegerType):
        if type_.width.data in (8, 16, 32, 64):
            return np.dtype(f"i{type_.width.data // 8}")
        if type_.width.data == 1:
            return np.dtype(np.bool_)
    names = {IndexType(): "i8", Float16Type(): "f2", Float32Type(): "f4", Float64Type(): "f8"}
    if type_ not in names:
        raise Unknown
    return np.dtype(names[cast(Any, type_)])


def _constant_array(op: Operation) -> Array:
    """Return the array of a constant operation; splats are broadcast. Raises Unknown if its elements are not in the
    program, such as those of a derived constant.
    """
    value = op.properties["value"]
    if isinstance(value, IntegerAttr | FloatAttr):
        return np.asarray(value.value.data).astype(_numpy_dtype(value.type))
    if isinstance(value, NumPyArrayAttr):
        value = value.dense()
    if not isinstance(value, DenseIntOrFPElementsAttr):
        raise Unknown
    array: NDArray[Any] = np.frombuffer(value.data.data, _numpy_dtype(value.get_element_type()))
    shape = value.get_shape()
    return array.reshape(shape) if array.size == prod(shape) else np.broadcast_to(array, shape)


# -- generics


def _generic(generic: Structured, known: Mapping[SSAValue, Array]) -> list[Array]:
    """Compute the results of a generic without reductions. Raises Unknown for other generics.

    Each scalar of the body is computed for all iterations at once, as an array with a dimension for each loop. NumPy's
    broadcasting expands sizes of 1. With loops of 2x3, and a body that adds A, read at (d0, d1), and b, read at (d1),
    the scalar of A is an array of 2x3, that of b one of 1x3, and their sum one of 2x3.
    """
    extents = [n for n in generic.extents if n is not None]
    # A loop without a static size has no extent.
    if len(extents) != len(generic.extents) or prod(extents) > MOST_ELEMENTS:
        raise Unknown
    if not generic.is_parallel or not all(is_permutation(m) for m in generic.output_maps):
        raise Unknown
    values: dict[SSAValue, Array] = dict(known)  # scalar of the body → its values in all iterations
    for argument, operand, map_ in zip(generic.block.args, generic.operands, generic.maps, strict=True):
        if argument.uses.get_length():  # arguments for the initial values of results usually have no uses
            values[argument] = _over_loops(known[operand], map_, len(extents))
    *body, terminator = generic.block.ops
    for op in body:
        if op.name == "linalg.index":
            values[op.results[0]] = _loop_indices(extents, loop=cast(Any, op.properties["dim"]).value.data)
        elif op.name == "arith.constant":
            values[op.results[0]] = _constant_array(op)
        else:
            values[op.results[0]] = _scalar(op, values)
    results = []
    for value, map_ in zip(terminator.operands, generic.output_maps, strict=True):
        order = [cast(AffineDimExpr, r).position for r in map_.results]  # for each axis of the result, its loop
        results.append(np.transpose(np.broadcast_to(values[value], extents), order))
    return results


def _loop_indices(extents: Sequence[int], loop: int) -> Array:
    """Return the index of a loop in all iterations of nested loops, as an array of size 1 along all other loops.

    For loop 1 of 2x3 loops, it is [[0, 1, 2]], of shape [1, 3].
    """
    indices = np.arange(extents[loop], dtype=np.int64)
    return indices.reshape([-1 if d == loop else 1 for d in range(len(extents))])


def _over_loops(array: Array, map_: AffineMap, rank: int) -> Array:
    """Return an operand of a generic as an array with a dimension for each loop, of size 1 for loops that do not index
    it: [64] read at (d1) of 3 loops becomes [1, 64, 1].

    Raises Unknown for other indices than constants and distinct loop dimensions.

    Args:
        array: The elements of the operand.
        map_: The index of the operand as a function of the loops.
        rank: Number of loops.
    """
    dims: list[int] = []  # the loop of each remaining axis
    for expression in map_.results:
        if isinstance(expression, AffineConstantExpr):  # the axis is dropped
            array = np.take(array, expression.value, len(dims))
        elif isinstance(expression, AffineDimExpr) and expression.position not in dims:
            dims.append(expression.position)
        else:
            raise Unknown
    # Bring the axes into the order of their loops, and insert axes of size 1 for the other loops.
    order = sorted(range(len(dims)), key=dims.__getitem__)
    array = np.transpose(array, order)
    return np.expand_dims(array, [d for d in range(rank) if d not in dims])


# -- scalars


def _scalar(op: Operation, known: Mapping[SSAValue, Array]) -> Array:
    """Return the result of an elementwise or scalar operation on arrays. Raises Unknown for other operations.

    Operations of `_EXACT` and `_CONVERTED` are computed in the types of the operands. Those of `_ROUNDED` are computed
    in f64, and rounded to the type of the result.

    known: value → its array; contains all operands.
    """
    exact = _EXACT.get(op.name) or _CONVERTED.get(op.name)  # `_as_type` below is the conversion
    rounded = _ROUNDED.get(op.name)
    is_supported = exact is not None or rounded is not None
    if not is_supported or len(op.results) != 1 or op.regions:
        raise Unknown
    type_ = op.results[0].type
    result = _numpy_dtype(type_.element_type if isinstance(type_, TensorType) else type_)
    operands = [known[v] for v in op.operands]
    if rounded is not None:
        return rounded(*(x.astype(np.float64) for x in operands)).astype(result)
    assert exact is not None
    # NumPy's arithmetic on bools is not that of i1: True + True is True.
    if any(x.dtype == np.bool_ for x in operands) and op.name not in ("arith.select", "arith.extui", "arith.uitofp"):
        raise Unknown
    return _as_type(np.asarray(exact(*operands)), result)


def _as_type(x: Array, type_: np.dtype[Any]) -> Array:
    """Return an array in the type of a result. An integer becomes i1 by its lowest bit: for NumPy, 2 is True."""
    if type_ == np.bool_ and x.dtype != np.bool_:
        return (x & 1).astype(type_)
    return x.astype(type_)


def _as_unsigned(x: Array) -> Array:
    """Return a view of an integer array as unsigned; booleans stay booleans."""
    return x if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


_EXACT: dict[str, Callable[..., Array]] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.negf": np.negative, "math.sqrt": np.sqrt, "math.absf": np.abs,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.select": np.where,
}  # fmt: skip
"""Operations whose NumPy function returns the same bits in the operands' type."""

_CONVERTED: dict[str, Callable[..., Array]] = {
    "arith.extf": np.asarray, "arith.truncf": np.asarray, "arith.sitofp": np.asarray, "arith.uitofp": _as_unsigned,
    "arith.extsi": np.asarray, "arith.extui": _as_unsigned, "arith.trunci": np.asarray, "arith.index_cast": np.asarray,
}  # fmt: skip
"""Name of a conversion → NumPy function that is applied to its operand before `_as_type` of the result's type."""

_ROUNDED: dict[str, Callable[..., Array]] = {
    "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.exp": np.exp, "math.log": np.log, "math.tanh": np.tanh,
    "math.sin": np.sin, "math.cos": np.cos, "math.powf": np.power,
}  # fmt: skip
"""Functions that are computed in f64 and then rounded once to the result's type."""
