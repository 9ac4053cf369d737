"""The operations of CHLO, in the forms that StableHLO's operations have."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_attr_definition

from pydispatch.ir.dialects.chlo.scan import ScanOp
from pydispatch.ir.dialects.stablehlo import attributes, records
from pydispatch.ir.dialects.stablehlo.clauses import NUMBERS, IntegerClause
from pydispatch.ir.dialects.stablehlo.syntax import ARROW, operation

UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh", "digamma", "erf", "erf_inv",
    "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "sinh", "square", "tan",
)  # fmt: skip
"""Names of elementwise operations with one operand, without the prefix `chlo.`."""
BINARY = ("mulhi", "next_after", "polygamma", "zeta")
"""Names of elementwise operations with two operands of one shape, without the prefix `chlo.`."""
BROADCAST = (
    "add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "next_after", "or", "polygamma",
    "power", "remainder", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor", "zeta",
)  # fmt: skip
"""Names, without the prefix `chlo.broadcast_`, of elementwise operations that broadcast two operands to one shape."""


@irdl_attr_definition
class ComparisonDirection(attributes.KeywordAttr):
    """Comparison predicate."""

    name = "chlo.comparison_direction"
    WORDS = attributes.ComparisonDirection.WORDS


@irdl_attr_definition
class ComparisonType(attributes.KeywordAttr):
    """Type of a comparison: signed, unsigned, float or total order."""

    name = "chlo.comparison_type"
    WORDS = attributes.ComparisonType.WORDS


@irdl_attr_definition
class Precision(attributes.KeywordAttr):
    """Precision of a matrix product, such as DEFAULT or HIGHEST."""

    name = "chlo.precision"
    WORDS = attributes.Precision.WORDS


class RaggedDotNumbers(NamedTuple):
    """Dimension numbers of a ragged dot: a matrix product in which one dimension of lhs is divided into groups.

    This dimension is the ragged one. The operand `group_sizes` has the number of consecutive indices in each group. For
    lhs [5, k], rhs [2, k, n] and `group_sizes` [2, 3], rows 0 and 1 of lhs are multiplied by rhs[0], and rows 2, 3 and
    4 by rhs[1]: the contracting dimensions are (1,) and (1,), the ragged one is (0,), and that of the groups is (0,).
    If a contracting dimension is ragged, each group has its own result.

    Attributes:
        lhs_batching_dimensions: Batch dimensions of lhs.
        rhs_batching_dimensions: Batch dimensions of rhs, in the order of those of lhs.
        lhs_contracting_dimensions: Dimensions of lhs that are summed.
        rhs_contracting_dimensions: Dimensions of rhs that are summed, in the order of those of lhs.
        lhs_ragged_dimensions: The one dimension of lhs that is divided into groups.
        rhs_group_dimensions: The one dimension of rhs that indexes the groups; () if the ragged dimension is a batch or
            contracting dimension.
    """

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()


@irdl_attr_definition
class RaggedDot(records.Record):
    """Attribute with the dimension numbers of a ragged dot."""

    name = "chlo.ragged_dot"
    VALUE = RaggedDotNumbers


_BROADCAST = {"broadcast_dimensions": NUMBERS}
"""Property of implicit broadcasts: axes of the result that the axes of the smaller operand become."""

OPERATIONS: list[type[Operation]] = [
    *(operation(f"chlo.{name}", signature=ARROW) for name in UNARY),
    *(operation(f"chlo.{name}", "lhs rhs", signature=ARROW) for name in BINARY),
    *(operation(f"chlo.broadcast_{name}", "lhs rhs", optional=_BROADCAST) for name in BROADCAST),
    operation(
        "chlo.broadcast_compare", "lhs rhs", optional={**_BROADCAST, "compare_type": ComparisonType},
        required={"comparison_direction": ComparisonDirection},
    ),
    operation("chlo.broadcast_select", "pred on_true on_false"),
    operation("chlo.constant_like", base=IRDLOperation, required={"value": Attribute}),
    operation(
        "chlo.ragged_dot", "lhs rhs group_sizes", base=IRDLOperation, optional={"precision_config": Attribute},
        required={"ragged_dot_dimension_numbers": RaggedDot},
    ),
    ScanOp,
    operation("chlo.top_k", results="values indices", clauses=[IntegerClause("k")], signature=ARROW, parens=True),
]  # fmt: skip
Chlo = Dialect("chlo", OPERATIONS, [ComparisonDirection, ComparisonType, Precision, RaggedDot])
