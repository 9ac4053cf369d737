"""Value ranges and divisibility of sizes, derived from types and from the origin of dynamic sizes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pydispatch.compiler.match.graph.view import source_of
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.terms import Product, Stated
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.values import Dim, shape_of


@dataclass(frozen=True)
class SizeFacts:
    """Known facts of a size: `low <= size <= high`, and it is a multiple of `multiple`. The default states nothing.

    Attributes:
        low: Smallest value.
        high: Largest value; None if there is no upper bound.
        multiple: Divisor of the size, at least 1.
    """

    low: int = 0
    high: int | None = None
    multiple: int = 1

    @property
    def static(self) -> int | None:
        """The value, if the range has only one; else None."""
        return self.low if self.low == self.high else None


def _fits_size(size: int, wanted: int, is_divisor: bool) -> bool:
    """Return whether a size equals a wanted one, or is a multiple of it (`is_divisor`); every size fits DYNAMIC."""
    if wanted == DYNAMIC:
        return True
    if is_divisor and wanted:  # 0 is no divisor, and matches 0 alone
        return size != DYNAMIC and size % wanted == 0
    return size == wanted


def cast_problem(actual: Attribute, wanted: Attribute) -> str | None:
    """Return None if a value of type `actual` may be cast to `wanted`, else the reason why not, for messages.

    Dynamic sizes of `wanted` match any size. A pattern states that any multiple of a size matches by an encoding
    `array<i1: ...>` of `wanted`, which has a flag for each dimension: if it is set, the actual size must be a multiple
    of the stated one, else equal to it. The type `tensor<?x16xf32, array<i1: false, true>>` accepts tensor<4x32xf32>,
    and refuses tensor<4x8xf32> with the reason "expected tensor<?x(16*n)xf32>, got tensor<4x8xf32>".

    Args:
        actual: Type in the program.
        wanted: Type in the pattern.
    """
    if not isinstance(wanted, TensorType):
        return None if actual == wanted else f"expected {wanted}, got {actual}"
    # A tensor: element types and ranks must be equal, and each size must fit.
    plain = TensorType(wanted.element_type, wanted.get_shape())  # without the encoding, for messages
    if not isinstance(actual, TensorType):
        return f"expected {plain}, got {actual}"
    must_divide = _divisor_flags(wanted)
    has_same_rank = len(actual.get_shape()) == len(wanted.get_shape())
    fit_sizes = has_same_rank and all(map(_fits_size, actual.get_shape(), wanted.get_shape(), must_divide))
    if fit_sizes and actual.element_type == wanted.element_type:
        return None
    if not any(must_divide):
        return f"expected {plain}, got {actual}"
    # The reason, with multiples as (16*n).
    shape = "x".join(
        "?" if size == DYNAMIC else f"({size}*n)" if is_divisor else str(size)
        for size, is_divisor in zip(wanted.get_shape(), must_divide, strict=True)
    )
    return f"expected tensor<{shape}x{wanted.element_type}>, got {actual}"


def _divisor_flags(type: TensorType[Attribute]) -> list[bool]:
    """Return, for each dimension of a type of a pattern, whether any multiple of its size matches it.

    The encoding has these flags: for `tensor<?x16xf32, array<i1: false, true>>` they are [False, True]. A dimension
    without a flag gets False.
    """
    encoding = type.encoding
    rank = len(type.get_shape())
    if not isinstance(encoding, DenseArrayBase):
        return [False] * rank
    flags = [bool(v) for v in encoding.get_values()]
    return (flags + [False] * rank)[:rank]


def size_of(value: SSAValue, dim: int) -> SizeFacts:
    """Return what is known of the size of dimension `dim` of a tensor, from its type and the operations before it."""
    value = source_of(value)
    size = shape_of(value)[dim]  # negative if it is dynamic
    return _facts_of(size if size >= 0 else _stated(value, dim))


def _stated(value: SSAValue, dim: int) -> Stated | None:
    """Return how the operation that defines a tensor states the size of dimension `dim`; None if it does not.

    The size is a term, such as an operand or the size of another tensor, or an element of a tensor of sizes.
    """
    if not isinstance(value, OpResult):
        return None
    rule = rule_of(value.op)
    if rule is not None:
        return rule.size(value.op, value, dim)
    # A result of a named operation of linalg has the shape of its destination, the output operand at the same index.
    outputs = getattr(value.op, "outputs", ())
    return Dim(outputs[value.index], dim) if value.index < len(outputs) else None


def _facts_of(stated: Stated | None) -> SizeFacts:
    """Return what is known of a size: a number, an index value, the size of another tensor or a product of sizes.

    Return the default, which states nothing, for other sizes and None.
    """
    if isinstance(stated, int):
        return SizeFacts(low=stated, high=stated, multiple=stated or 1)  # a divisor is at least 1
    if isinstance(stated, Dim):
        return size_of(stated.tensor, stated.axis)
    if isinstance(stated, SSAValue):
        return size_from(stated)
    if isinstance(stated, Product):
        product = SizeFacts(low=1, high=1)
        for part in stated.parts:
            product = _multiply(product, _facts_of(part))
        return product
    return SizeFacts()


def _multiply(lhs: SizeFacts, rhs: SizeFacts) -> SizeFacts:
    """Return what is known of the product of two sizes."""
    high = None if lhs.high is None or rhs.high is None else lhs.high * rhs.high
    return SizeFacts(lhs.low * rhs.low, high, lhs.multiple * rhs.multiple)


def size_from(value: SSAValue) -> SizeFacts:
    """Return what is known of an index value, from the operations that compute it: its range and a divisor.

    These operations are constants, `util.assume.int`, products, and `tensor.dim` of a tensor whose size is known.
    `%n * 4`, with %n assumed to be 1 to 64, is a multiple of 4 from 4 to 256. Nothing is known of other values.
    """
    if not isinstance(value, OpResult):
        return SizeFacts()
    op = value.op
    if op.name == "arith.constant":
        constant = op.properties.get("value")
        if isinstance(constant, IntegerAttr):
            size = int(constant.value.data)
            return SizeFacts(low=size, high=size, multiple=size or 1)  # a divisor is at least 1
    if op.name == "util.assume.int":
        return _assumed(op, value.index)
    if op.name == "arith.muli":
        return _multiply(size_from(op.operands[0]), size_from(op.operands[1]))
    if op.name == "tensor.dim":
        index = size_from(op.operands[1]).static  # the dimension, if it is a constant
        if index is not None:
            return size_of(op.operands[0], index)
    return SizeFacts()


def size_identity(value: SSAValue, dim: int) -> Hashable:
    """Return the size of a dimension if it is static, else a key of its origin.

    Equal results mean sizes that are equal in every run. The key is the index value that the size is computed from, or
    (tensor, dimension) if no operation states it. For `%b = abs(%a)` with an argument %a, dimension 0 of both tensors
    has the key (%a, 0).
    """
    while True:
        value = source_of(value)  # before casts
        size = shape_of(value)[dim]
        # A number, a dimension of another tensor, an index value, another term, or None.
        stated = size if size >= 0 else _stated(value, dim)
        if isinstance(stated, SSAValue):
            stated = _resolved_index(stated)
        if isinstance(stated, (SSAValue, int)):
            return stated
        if not isinstance(stated, Dim):
            return value, dim
        value, dim = stated.tensor, stated.axis  # continue with the tensor that has the same size


def _resolved_index(index: SSAValue) -> int | Dim | SSAValue:
    """Return an index as a number if it is constant, as a dimension if it is the size of one, else as itself."""
    while isinstance(index, OpResult) and index.op.name == "util.assume.int":  # its results are its operands
        index = index.op.operands[index.index]
    static = size_from(index).static
    if static is not None:
        return static
    if not isinstance(index, OpResult) or index.op.name != "tensor.dim":
        return index
    axis = size_from(index.op.operands[1]).static
    return index if axis is None else Dim(index.op.operands[0], axis)


def _assumed(op: Operation, index: int) -> SizeFacts:
    """Return what a `util.assume.int` states of the operand at position `index`.

    The attribute has alternatives for each operand, such as one for each caller of an inlined function: a dictionary,
    or a list of them. The result holds for all of these. `%n[<umin = 1, umax = 64, udiv = 8>, <umin = 2, umax = 32,
    udiv = 8>]` gives the range 1 to 64 and the divisor 8. Nothing is known if the attribute has another form.
    """
    by_operand = op.properties.get("assumptions")
    if not isinstance(by_operand, ArrayAttr) or index >= len(by_operand):
        return SizeFacts()
    stated = by_operand.data[index]
    alternatives = stated.data if isinstance(stated, ArrayAttr) else [stated]
    assumed: list[SizeFacts] = []
    for alternative in alternatives:
        if not isinstance(alternative, DictionaryAttr):
            return SizeFacts()
        numbers = {k: int(v.value.data) for k, v in alternative.data.items() if isinstance(v, IntegerAttr)}
        assumed.append(SizeFacts(numbers.get("umin", 0), numbers.get("umax"), max(1, numbers.get("udiv", 1))))
    if not assumed:
        return SizeFacts()
    # The weakest of the alternatives. Unequal divisors give 1, which always holds, not their greatest common divisor.
    highs = [f.high for f in assumed]
    high = None if None in highs else max(h for h in highs if h is not None)
    multiple = assumed[0].multiple if len({f.multiple for f in assumed}) == 1 else 1
    return SizeFacts(min(f.low for f in assumed), high, multiple)
