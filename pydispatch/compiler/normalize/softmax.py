"""Softmax: the largest of each row, exp(x - largest), the sums of these, and the quotients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, TensorType, f32, f64
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.bodies import BodyBuilder
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import computed
from pydispatch.formats.arrays.small_floats import limits
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.shape import SoftmaxOp
from pydispatch.ir.dialects.linalg.structure import Structure

MAXIMUM_FLAGS = arith.FastMathFlagsAttr([FastMathFlag.NO_NANS, FastMathFlag.NO_SIGNED_ZEROS])
"""Fast-math flags of the maximum of a row, which the sum must not have. The maximum of a row with a NaN may be any
number: the exponential of the NaN is NaN all the same, and so are the sum and the quotients."""


LOWEST = {f32: -3.4028234663852886e38, f64: -1.7976931348623157e308}
"""The lowest finite number of each element type."""


def softmax(
    build: Build, source: SSAValue, output: SSAValue, along: Sequence[int], is_masked: bool = False
) -> SSAValue:
    """Return exp(x - largest) / sum over the dimensions `along`.

    A row is the elements along these dimensions, `largest` its maximum, and `sum` that of its exponentials. Four
    operations are emitted: the maximum of each row, the exponentials, their sums, and the quotients.

    Args:
        build: Emits the operations.
        source: The values x.
        output: A tensor of the type of the result; its elements are not read.
        along: The dimensions of a row.
        is_masked: Whether a row of -inf alone yields zeros instead of NaN. The elements are then f32 or f64.

    Raises:
        VerifyException: The elements of x are not floats.
    """
    source_type = source.type
    if not isinstance(source_type, TensorType) or not isinstance(source_type.element_type, AnyFloat):
        raise VerifyException(f"softmax works on tensors of floats, got {source_type}")
    rows = _Rows.of(build, source, along)
    element = source_type.element_type
    # Lower bounds for the maximum and the sum of a row, if `is_masked`. They change only a row of -inf, where x -
    # maximum would be NaN and the sum is 0: the sum of any other row is at least 1.
    lowest = build.scalar(LOWEST[element], element) if is_masked else None
    one = build.scalar(1.0, element) if is_masked else None

    def power(body: BodyBuilder, x: SSAValue, maximum: SSAValue, _: SSAValue) -> list[SSAValue]:
        """Emit exp(x - maximum) for one element; `maximum` is that of its row, raised to `lowest` if `is_masked`."""
        return [body.add(math.ExpOp(body.add(arith.SubfOp(x, _at_least(body, maximum, lowest)))))]

    def quotient(body: BodyBuilder, x: SSAValue, total: SSAValue, _: SSAValue) -> list[SSAValue]:
        """Emit x / total for one element; `total` is the sum of its row, raised to at least 1 if `is_masked`."""
        # A compiler may divide 1 by the sum once per row, and multiply: the reciprocal neither overflows nor loses
        # digits, because the sum is at least 1.
        allowed = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_RECIP])
        return [body.add(arith.DivfOp(x, _at_least(body, total, one), allowed))]

    least, _ = limits(str(element))
    largest = rows.reduced(source, least, arith.MaxnumfOp, MAXIMUM_FLAGS)
    (powers,) = computed(build, rows.elementwise, [source, largest], [output], power)
    sums = rows.reduced(powers, 0.0, arith.AddfOp)
    (quotients,) = computed(build, rows.elementwise, [powers, sums], [output], quotient)
    return quotients


@dataclass(frozen=True)
class _Rows:
    """Rows of a tensor x of floats: a row has the elements along the reduced dimensions.

    Attributes:
        build: Emits the operations.
        row_type: Type of a tensor with one element per row: the shape of x without the reduced dimensions.
        dynamic_sizes: Dynamic sizes of `row_type`.
        reduction: Structure of a generic that reads a tensor of the shape of x, and computes one element per row.
        elementwise: Structure of a generic that reads such a tensor and one element per row, and computes an element
            for each element of x.
    """

    build: Build
    row_type: TensorType[AnyFloat]
    dynamic_sizes: list[SSAValue]
    reduction: Structure
    elementwise: Structure

    @staticmethod
    def of(build: Build, source: SSAValue, along: Sequence[int]) -> _Rows:
        """Return the description of the rows of `source`, a row having the elements along the dimensions `along`."""
        source_type = cast("TensorType[AnyFloat]", source.type)
        shape, rank = source_type.get_shape(), source_type.get_num_dims()
        kept_dims = [d for d in range(rank) if d not in along]
        row_map = AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in kept_dims))
        identity = AffineMap.identity(rank)
        return _Rows(
            build=build,
            row_type=TensorType(source_type.element_type, [shape[d] for d in kept_dims]),
            dynamic_sizes=[build.dim(source, d) for d in kept_dims if shape[d] == DYNAMIC],
            reduction=Structure((identity, row_map), parallel=tuple(d in kept_dims for d in range(rank))),
            elementwise=Structure((identity, row_map, identity), parallel=(True,) * rank),
        )

    def reduced(
        self, value: SSAValue, initial: float, combiner: type[arith.AddfOp] | type[arith.MaxnumfOp],
        fastmath: arith.FastMathFlagsAttr | None = None,
    ) -> SSAValue:  # fmt: skip
        """Combine the elements of each row of `value` with `initial`, and return the tensor of one result per row."""

        def combine(body: BodyBuilder, x: SSAValue, accumulator: SSAValue) -> list[SSAValue]:
            """Emit the combination of an element with those before it in its row."""
            return [body.add(combiner(accumulator, x, fastmath))]

        start = self.build.splat(initial, self.row_type, self.dynamic_sizes)
        (results,) = computed(self.build, self.reduction, [value], [start], combine)
        return results


def _at_least(body: BodyBuilder, x: SSAValue, bound: SSAValue | None) -> SSAValue:
    """Emit max(x, bound), or return x if `bound` is None."""
    return x if bound is None else body.add(arith.MaximumfOp(x, bound))


def _softmax(op: Operation, build: Build) -> None:
    """Replace `linalg.softmax`, which normalizes along one dimension."""
    assert isinstance(op, SoftmaxOp)
    build.replace(softmax(build, op.input, op.output, [op.dimension.value.data]))


ROWS: dict[str, Row] = {"linalg.softmax": _softmax}
"""Name of an operation → function that replaces it."""
