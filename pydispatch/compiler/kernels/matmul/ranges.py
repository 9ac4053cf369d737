"""Value range analysis of the integer factors of a contraction, through the operations that compute them."""

from __future__ import annotations

from functools import reduce

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.matmul.match import Factor
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.structured import Structured, as_structured

Range = tuple[int, int]
"""(least, greatest), as signed integers."""

MAX_ELEMENTS = 1 << 16
"""Maximum number of elements of a constant array whose range is computed: enough for zero points of channels; more take
compilation time."""

SAME_ELEMENTS = {"tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice", "tensor.cast", "tensor.splat"}
"""Operations whose results have no elements but those of the first operand: a tensor, or the scalar of a splat."""


def factor_range(factor: Factor) -> Range | None:
    """Return the least and the greatest value of an integer factor; None for another type."""
    return range_of(factor.value)


def range_of(value: SSAValue) -> Range | None:
    """Return the least and the greatest value of an integer, or of the elements of an integer tensor; else None."""
    return _Ranges().of(value)


class _Ranges:
    """Value range analysis: the least and the greatest value of an integer, or of all elements of an integer tensor.

    `range_of` creates one for each query. `of` caches the ranges of the values that the queried one is computed from.
    """

    def __init__(self) -> None:
        """Create an analysis with an empty cache; None stands for a value whose range is unknown."""
        self.cache: dict[SSAValue, Range | None] = {}

    def of(self, value: SSAValue) -> Range | None:
        """Return the range of a scalar, or of the elements of a tensor; None if the type is no integer."""
        if value not in self.cache:
            # If the value depends on itself, in a loop, `_range` finds this entry: its range is unknown.
            self.cache[value] = None
            self.cache[value] = self._range(value)
        return self.cache[value]

    def _range(self, value: SSAValue) -> Range | None:
        """Return the range of a value that results from the operations that compute it; None if its type is no integer.

        The range is that of the type if an operation is not supported, or if the value may wrap around.
        """
        type_range = _range_of_type(_element_of(value))
        if type_range is None:
            return None
        if isinstance(value, BlockArgument):
            value_range = self._argument(value)
        else:
            assert isinstance(value, OpResult)
            value_range = self._tensor(value) if isinstance(value.type, TensorType) else self._scalar(value)
        return value_range if value_range is not None and _is_within(value_range, type_range) else type_range

    def _argument(self, value: BlockArgument) -> Range | None:
        """Return the range of an input of a generic, for the argument of its body that stands for an element of it.

        Return None for other block arguments, such as the accumulator of a reduction.
        """
        parent = value.owner.parent_op()
        generic = None if parent is None else as_structured(parent)
        if generic is None or generic.body is None or value.owner is not generic.block:
            return None
        is_input = value.index < len(generic.inputs)
        return self.of(generic.inputs[value.index]) if is_input else None

    def _tensor(self, value: OpResult) -> Range | None:
        """Return the range of the elements of a tensor: its least and greatest value, or wider bounds of them.

        Supported are views and slices, concatenation, padding, bit casts, constants, and generics, whose body is
        followed. Return None for other operations, and for constants that `_elements` returns None for.
        """
        op = value.op
        if op.name in SAME_ELEMENTS:
            return self.of(op.operands[0])
        if op.name == "tensor.concat":
            return reduce(_joined, map(self.of, op.operands))
        if op.name == "tensor.pad":
            yield_op = op.regions[0].block.last_op  # yields the padding
            assert yield_op is not None
            return _joined(self.of(op.operands[0]), self.of(yield_op.operands[0]))
        # The range remains if both types are integers of the same width, since all ranges are signed.
        if op.name == "flow.tensor.bitcast":
            has_same_range = _range_of_type(_element_of(op.operands[0])) == _range_of_type(_element_of(value))
            return self.of(op.operands[0]) if has_same_range else None
        if op.name in ("arith.constant", "flow.tensor.constant"):
            return _elements(op.properties["value"])
        # The elements of a generic are the values that its body yields. The accumulator of a reduction, an argument of
        # the body, has the range of its type, so that a sum has it, too.
        generic: Structured | None = as_structured(op)
        if generic is None or generic.body is None or generic.block.last_op is None:
            return None
        return self.of(generic.block.last_op.operands[value.index])

    def _scalar(self, value: OpResult) -> Range | None:
        """Return the range of the result of a scalar operation, before wrapping; None if it is not supported.

        The sum of two i8 of 0 to 100 has the range (0, 200). The caller discards it, since it exceeds the type.
        """
        op = value.op
        if op.name == "arith.constant":
            attribute = op.properties["value"]
            return (attribute.value.data,) * 2 if isinstance(attribute, IntegerAttr) else None
        if op.name in ("arith.extsi", "arith.trunci"):  # a range that exceeds the type of a `trunci` is discarded, too
            return self.of(op.operands[0])
        if op.name == "arith.extui":
            return self._unsigned(op.operands[0])
        if op.name == "arith.select":
            return _joined(self.of(op.operands[1]), self.of(op.operands[2]))
        if op.name == "arith.andi":
            # The result has no bits that an operand lacks, so that it is at most each operand that is not negative.
            masks = [r[1] for r in map(self.of, op.operands) if r is not None and r[0] >= 0]
            return (0, min(masks)) if masks else None
        if op.name in ("arith.shrui", "arith.shrsi"):
            return self._shifted(op)
        return self._sum_or_difference(op) if op.name in ("arith.addi", "arith.subi") else None

    def _sum_or_difference(self, op: Operation) -> Range | None:
        left, right = self.of(op.operands[0]), self.of(op.operands[1])
        if left is None or right is None:
            return None
        if op.name == "arith.addi":
            return left[0] + right[0], left[1] + right[1]
        return left[0] - right[1], left[1] - right[0]

    def _unsigned(self, value: SSAValue) -> Range:
        """Return the range of an integer whose bits are read as unsigned ones: -1 of 8 bits is 255."""
        signed_range, type_ = self.of(value), value.type
        assert isinstance(type_, IntegerType)
        modulus = 1 << type_.width.data
        if signed_range is not None and signed_range[1] < 0:  # all are negative: read unsigned, they are 2^bits more
            return signed_range[0] + modulus, signed_range[1] + modulus
        return signed_range if signed_range is not None and signed_range[0] >= 0 else (0, modulus - 1)

    def _shifted(self, op: Operation) -> Range | None:
        """Return the range of a right shift (`arith.shrsi` or `arith.shrui`); None if no least amount is known.

        A shift of 20 to 100 by at least 2 bits has the range (0, 25): by more bits, the result is closer to 0, or to -1
        if the shifted number is negative.
        """
        value, amount = self.of(op.operands[0]), self.of(op.operands[1])
        type_ = op.operands[0].type
        assert isinstance(type_, IntegerType)
        width = type_.width.data
        if value is None or amount is None or not 0 <= amount[0] < width:
            return None
        least_amount = amount[0]
        if op.name == "arith.shrui" and value[0] < 0:
            # Read as unsigned, -1 has `width` bits of one: shifted by 1 it is the largest positive number. Shifted by
            # 0, it remains negative.
            return (0, ((1 << width) - 1) >> least_amount) if least_amount else None
        return min(value[0] >> least_amount, 0), max(value[1] >> least_amount, 0)


def _elements(value: Attribute) -> Range | None:
    """Return the least and the greatest element of a constant, as signed integers.

    Return None for an array of more than `MAX_ELEMENTS`, for an empty constant or one of floats, and if elements are
    stored unsigned and, read as signed, have different signs.
    """
    if isinstance(value, NumPyArrayAttr) and value.count <= MAX_ELEMENTS:
        value = value.dense()
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return None
    type_, values = value.get_element_type(), value.get_values()
    if not values or not isinstance(type_, IntegerType):
        return None
    half = 1 << (type_.width.data - 1)
    # Read as signed: of 8 bits, 200 is (200 + 128) % 256 - 128 = -56.
    least, greatest = ((int(v) + half) % (2 * half) - half for v in (min(values), max(values)))
    # If the extremes 100 and 200 become 100 and -56, another element may be less or greater than both: 128 is -128.
    return (least, greatest) if least <= greatest else None


def _element_of(value: SSAValue) -> Attribute:
    """Return the type of a scalar, or of the elements of a tensor."""
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def _range_of_type(type_: Attribute) -> Range | None:
    """Return the range of all values of an integer type; None for another type."""
    return _signed(type_.width.data) if isinstance(type_, IntegerType) else None


def _signed(bits: int) -> Range:
    """Return the range of signed integers of so many bits: 8 -> (-128, 127)."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _is_within(inner: Range, outer: Range) -> bool:
    """Return whether all numbers of one range are in another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _joined(lhs: Range | None, rhs: Range | None) -> Range | None:
    """Return the smallest range that contains two ranges; None if one of them is not known."""
    return None if lhs is None or rhs is None else (min(lhs[0], rhs[0]), max(lhs[1], rhs[1]))
