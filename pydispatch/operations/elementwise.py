"""Elementwise functions of tensors, with NumPy's broadcasting."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, F32, F64, DType, Kind
from pydispatch.graph.size_functions import maximum, minimum, truncated_quotient, truncated_remainder
from pydispatch.graph.sizes import Expr, Shape, Size, UndecidedError, differ, equal
from pydispatch.graph.values import Tensor
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.scalars import Scalars, scalars_of

if TYPE_CHECKING:
    import numpy as np

Elements = Scalar | Sequence[Scalar]
"""Return type of a function of elements: one element, or several."""
Function = Callable[..., Elements]
"""Function of elements: function(scalars, one element of each tensor...) -> one element, or several."""

MOST_FOLDED_ELEMENTS = 4096
"""Maximum number of elements of a constant for which operations are evaluated at compile time."""


def broadcast_shape(builder: Builder, *shapes: Shape) -> Shape:
    """Return the common shape to which shapes broadcast. Dynamic sizes that may be equal are assumed to be."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Size] = []
    for axis in range(rank):
        # Axes are aligned from the last one: axis - rank is -1 for the last axis of each shape.
        sizes = [s[axis - rank] for s in shapes if len(s) >= rank - axis]
        common: Size = 1
        for n in sizes:
            if n != 1 and common != 1 and differ(n, common):
                shown = " and ".join(str(list(s)) for s in shapes)
                raise builder.fail(f"shapes {shown} do not broadcast together: {common} and {n} at axis {axis - rank}")
            # A static size is preferred to a dynamic one: both must be equal, and more is known with it.
            if common == 1 or (isinstance(common, Expr) and not isinstance(n, Expr) and n != 1):
                common = n
        result.append(common)
    return tuple(result)


def broadcast_map(shape: Shape, rank: int) -> AffineMap:
    """Return the indexing map of an operand of the shape `shape` that is broadcast to a result of rank `rank`.

    Axes are aligned from the last one; an axis of size 1 is always read at index 0.
    """
    first = rank - len(shape)
    exprs = [AffineExpr.constant(0) if n == 1 else AffineExpr.dimension(first + d) for d, n in enumerate(shape)]
    return AffineMap(rank, 0, tuple(exprs))


def apply(builder: Builder, function: Function, *tensors: Tensor) -> Tensor:
    """Apply a function to the elements of tensors, broadcast together, and return the tensor of its results.

    The type of the function's result is the element type of the tensor.
    """
    return apply_several(builder, function, *tensors)[0]


def apply_several(builder: Builder, function: Function, *tensors: Tensor, shape: Shape | None = None) -> list[Tensor]:
    """Apply a function that returns several elements, and return a tensor for each of them.

    It becomes one linalg.generic with parallel loops, whose body is emitted by `function`. For x [n, 1] and y [3],
    `lambda s, u, v: [s.binary("add", u, v), s.binary("mul", u, v)]` makes two results [n, 3]: x + y and x * y.

    Args:
        builder: The builder.
        function: Called once, with the emitter of the body and a scalar for each tensor.
        tensors: The operands, which are broadcast together. A constant of one element is no operand of the
            linalg.generic, but a constant in its body.
        shape: Shape that the operands are broadcast to as well; None for no other one. Without operands it is the
            shape of the results.
    """
    shape = broadcast_shape(builder, *(t.shape for t in tensors), *([shape] if shape is not None else []))
    rank = len(shape)
    inputs: list[tuple[SSAValue, AffineMap]] = []  # a complex tensor is two: its real and its imaginary part
    for t in tensors:
        if not _is_inline(t):
            inputs += [(part, broadcast_map(t.shape, rank)) for part in builder.parts(t)]

    # The body is emitted first, because its results determine the types of the outputs.
    block = Block(arg_types=[v.type.element_type for v, _ in inputs])  # type: ignore[attr-defined]
    scalars = _emit_elements(builder, function, tensors, block)
    types = [r.dtype for r in scalars]
    identity = AffineMap.identity(rank)
    outputs = [(builder.empty(d.element, shape), identity) for d in types for _ in range(2 if d.is_complex else 1)]
    for output, _ in outputs:
        block.insert_arg(output.type.element_type, len(block.args))  # type: ignore[attr-defined]
    # The operation, with a result for each real number, or part of a complex one.
    parts = [p for r in scalars for p in r.parts]
    values = iter(builder.generic_of(inputs, outputs, [True] * rank, block, parts))
    return [builder.wrap(d, shape, *(next(values) for _ in range(2 if d.is_complex else 1))) for d in types]


def _emit_elements(builder: Builder, function: Function, tensors: Sequence[Tensor], block: Block) -> list[Scalar]:
    """Apply a function to the arguments of a block, which are elements of `tensors`, and return its results.

    The tensors that are inline constants are no arguments: their elements are constants in the block.
    """
    s = Scalars(block)
    arguments = iter(scalars_of([t.dtype for t in tensors if not _is_inline(t)], block.args))
    operands = [s.const(t.known.reshape(-1)[0].item(), t.dtype) if _is_inline(t) and t.known is not None
                else next(arguments) for t in tensors]  # fmt: skip
    try:
        results = function(s, *operands)
    except UnsupportedTypeError as error:
        raise builder.fail(str(error)) from None
    return [results] if isinstance(results, Scalar) else list(results)


def _is_inline(t: Tensor) -> bool:
    """Return whether a tensor is a single constant number, which becomes a constant in the body."""
    return t.numbers is not None and t.numbers.size == 1 and (t.dtype.has_numpy_values and not t.dtype.is_complex)


def binary(builder: Builder, name: str, x: Tensor, y: Tensor) -> Tensor:
    """Apply a function of `scalars.Reals.binary`, by its name, to two tensors."""
    folded = _folded(builder, name, x, y)
    return folded if folded is not None else apply(builder, lambda s, u, v: s.binary(name, u, v), x, y)


def unary(builder: Builder, name: str, x: Tensor) -> Tensor:
    """Apply a function of `scalars.Reals.unary`, by its name, to a tensor."""
    folded = _folded(builder, name, x)
    return folded if folded is not None else apply(builder, lambda s, u: s.unary(name, u), x)


def compare(builder: Builder, order: str, x: Tensor, y: Tensor) -> Tensor:
    """Compare two tensors by `order`: eq, ne, lt, le, gt or ge. The result is bool."""
    folded = _folded(builder, order, x, y)
    return folded if folded is not None else apply(builder, lambda s, u, v: s.compare(order, u, v), x, y)


def select(builder: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return x where the condition holds, else y."""
    # Elements of x and y may also be known as symbolic sizes (`known`); a condition must be known as bools (`numbers`).
    if condition.numbers is not None and x.known is not None and y.known is not None:
        import numpy as np

        return builder.constant(np.where(condition.numbers, x.known, y.known), x.dtype)
    return apply(builder, lambda s, c, u, v: s.select(c, u, v), condition, x, y)


def convert(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Return x with elements of another type; a small constant is converted at compile time.

    Integers wrap around; floats are rounded to nearest, or truncated to integers; every number but 0 is true.
    """
    if x.dtype == dtype:
        return x
    # A constant whose elements are expressions of dynamic sizes: the expressions stay if the narrower type holds them.
    narrower = x.dtype if x.dtype.bits < dtype.bits else dtype
    if x.is_symbolic and dtype.is_integer and _holds_sizes(builder, x.known_integers() or (), narrower):
        return Tensor(dtype, x.shape, known=x.known)
    # A small constant of numbers, which NumPy converts as the program would; not from complex to real numbers.
    is_small_constant = x.numbers is not None and x.numbers.size <= MOST_FOLDED_ELEMENTS
    loses_imaginary_part = x.dtype.is_complex and not dtype.is_complex
    if is_small_constant and x.dtype.has_numpy_values and not loses_imaginary_part:
        assert x.numbers is not None
        if _converts_exactly(x.numbers, dtype):
            return builder.constant(x.numbers, dtype)
    return apply(builder, lambda s, u: s.convert(u, dtype), x)


def _holds_sizes(builder: Builder, sizes: Sequence[Size], dtype: DType) -> bool:
    """Return whether an integer type is taken to hold sizes and expressions of them. Others may wrap around.

    Sizes and their sums and differences are assumed to be less than 2^31. Products need not be: for a type of 32 bits,
    a check is added that fails calls in which a product is out of its range.
    """
    if dtype.bits < 32:
        return False
    try:
        if dtype.is_unsigned and not all(n >= 0 for n in sizes):
            return False
    except UndecidedError:  # the sign of a size depends on the call
        return False
    if dtype.bits == 32:
        low, high = (0, (1 << 32) - 1) if dtype.is_unsigned else (-(1 << 31), (1 << 31) - 1)
        for n in (n for n in sizes if isinstance(n, Expr) and n.is_product):
            builder.require_equal(n, minimum(maximum(n, low), high),
                                  f"the size {n} is {{a}}, which {dtype} does not hold: compute it in i64")  # fmt: skip
    return True


def _converts_exactly(numbers: np.ndarray[Any, Any], dtype: DType) -> bool:
    """Return whether NumPy's conversion of these numbers equals that of `Reals.convert`.

    False for narrow floats, such as f8, and for floats that an integer type cannot represent: NaN, infinity, and values
    out of its range.
    """
    import numpy as np

    if dtype.kind is Kind.FLOAT and dtype.name not in ("f16", "bf16", "f32", "f64"):
        return False
    if numbers.dtype.kind != "f" or dtype.is_float or dtype.is_complex or dtype.is_bool:
        return True
    # The range is low <= value < end. The largest integer, end - 1, may not be exact in f64; powers of two are.
    if dtype.is_unsigned:
        low, end = 0.0, 2.0**dtype.bits
    else:
        low, end = -(2.0 ** (dtype.bits - 1)), 2.0 ** (dtype.bits - 1)
    values = numbers.astype(np.float64)
    return bool(np.all((values >= low) & (values < end)))  # false for NaN


def bitcast(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Reinterpret the bits of each element as another type of the same width."""
    # An element of bool must be 0 or 1, which the bits of another type need not be.
    if x.numbers is not None and x.dtype.numpy.itemsize == dtype.numpy.itemsize and not dtype.is_bool:
        return Tensor(dtype, x.shape, known=_wrapped(x.numbers.view(dtype.numpy), dtype))
    return apply(builder, lambda s, u: s.bitcast(u, dtype), x)


def _truncating_div(lhs: Any, rhs: Any) -> Any:
    """Divide arrays of integers, rounding towards zero."""
    import numpy as np

    return (lhs - np.fmod(lhs, rhs)) // rhs  # np.fmod has the sign of lhs: the difference is exact, and nearer to 0


def _wrapped(array: Any, dtype: DType) -> Any:
    """Wrap integers of less than 8 bits, which have a byte each, and Python's integers among sizes to their range.

    Clear the unused bits of floats.
    """
    if array.dtype == object:
        import numpy as np

        return np.vectorize(lambda n: n if isinstance(n, Expr) else _wrapped_integer(n, dtype), otypes=[object])(array)
    if dtype.is_bool or dtype.bits >= 8:  # NumPy's type has the same bits
        return array
    # Shift the unused upper bits out, and back: signed bytes are sign-extended by the second shift.
    unused_bits = 8 - dtype.bits
    return array << unused_bits >> unused_bits


def _wrapped_integer(n: int, dtype: DType) -> int:
    """Wrap an integer to the range of an integer type."""
    low = 0 if dtype.is_unsigned else -(1 << dtype.bits - 1)
    return (n - low) % (1 << dtype.bits) + low


@functools.cache
def _fold_table() -> dict[str, Callable[..., Any]]:
    """Return the NumPy functions that evaluate foldable operations at compile time, by the operation's name."""
    import numpy as np

    return {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _truncating_div, "rem": np.fmod,
        "floor_div": operator.floordiv, "floor_rem": operator.mod,
        "max": np.maximum, "min": np.minimum, "neg": operator.neg, "abs": np.abs, "sign": np.sign,
        "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
        "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
        "ge": operator.ge,
    }  # fmt: skip


_ON_SIZES = frozenset({
    "add", "sub", "mul", "div", "rem", "floor_div", "floor_rem", "neg", "lt", "le", "gt", "ge", "eq", "ne", "max",
    "min",
})  # fmt: skip
"""Functions that `_folded` evaluates at compile time if elements of their operands are symbolic sizes,
such as the elements of a tensor's shape."""
_WRAPPING = frozenset({"add", "sub", "mul", "neg"})
"""Functions of `_ON_SIZES` whose results, wrapped around to a type, depend only on their wrapped operands."""
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
"""Functions that return bool, and that `_folded` also evaluates for f32 and f64."""


def _folded(builder: Builder, name: str, *tensors: Tensor) -> Tensor | None:
    """Return the result of an operation on small constants, evaluated at compile time; None if it cannot be folded.

    Integers and bools are folded; f32 and f64 only by operations that give the same result at run time. Elements may
    also be sizes: "mul" of [n, 4] and [2, 2], with a dynamic size n, is [2*n, 8].

    Args:
        builder: The builder.
        name: Name of the operation in `_fold_table`, such as "add"; other operations are not folded.
        tensors: The operands, all of one type. The element arrays `known` have the dtype object if elements are sizes.
    """
    import numpy as np

    if any(t.known is None or t.known.size > MOST_FOLDED_ELEMENTS for t in tensors):
        return None
    dtype = tensors[0].dtype
    if not _can_fold(name, dtype):
        return None
    function = _fold_table()[name]
    known = [t.known for t in tensors if t.known is not None]
    # Division by 0 is left to the run time; whether a size is 0 is not known.
    is_division = name in ("div", "rem", "floor_div", "floor_rem")
    if is_division and (known[1].dtype == object or not np.all(known[1] != 0)):
        return None
    if any(k.dtype == object for k in known):  # elements are sizes, which these functions simplify or compare
        if name not in _ON_SIZES:
            return None
        # Results of `_WRAPPING` functions are right once wrapped, below; others only if `dtype` holds the sizes.
        if name not in _WRAPPING and not all(_holds_sizes(builder, t.known_integers() or (), dtype) for t in tensors):
            return None
        function_of_sizes = _FUNCTIONS_OF_SIZES.get(name)
        function = np.vectorize(function_of_sizes, otypes=[object]) if function_of_sizes else function
    try:
        with np.errstate(all="ignore"):
            result = function(*known)
    except UndecidedError:  # a comparison of sizes depends on the call
        return None
    if name in _COMPARISONS:
        return builder.constant(np.asarray(result), BOOL)
    return builder.constant(_wrapped(np.asarray(result), dtype), dtype)


def _can_fold(name: str, dtype: DType) -> bool:
    """Return whether `_fold_table` has an operation with the results of the run time, but for divisions by 0."""
    folds_floats = name in ("add", "sub", "mul", "neg", "abs", *_COMPARISONS)
    is_exact = dtype.kind in (Kind.INT, Kind.UINT, Kind.BOOL) or (dtype in (F32, F64) and folds_floats)
    # NumPy does arithmetic of bools by rules of its own: 1 + 1 is true, and there is no difference or negative.
    is_arithmetic_of_bools = dtype.is_bool and name in ("add", "sub", "mul", "neg", "abs", "sign")
    return name in _fold_table() and is_exact and not is_arithmetic_of_bools


_FUNCTIONS_OF_SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "max": maximum, "min": minimum, "div": truncated_quotient, "rem": truncated_remainder, "eq": equal,
    "ne": lambda x, y: not equal(x, y),
}  # fmt: skip
"""Operation → its function of sizes, in place of NumPy's functions, and of == and !=, which compare expressions by
their terms. Other operators, such as +, apply to sizes as well.
"""
