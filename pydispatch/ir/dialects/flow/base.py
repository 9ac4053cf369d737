"""Base classes of operations whose tensor types are followed by the sizes of their dynamic dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IndexType
from xdsl.ir import SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, opt_prop_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax


class ShapedCall:
    """Mixin for operations with the fields of `DispatchLikeOp`: dynamic sizes and tied results.

    Attributes:
        argument_dims: Sizes of the dynamic dimensions of all arguments, flattened.
        result_dims: Sizes of the dynamic dimensions of all results, flattened.
        tied_operands: For each result the index of the argument whose memory it reuses, or -1; absent if no result is
            tied.
    """

    def dims_of_argument(self: Any, index: int) -> tuple[SSAValue, ...]:
        """Return the sizes of the dynamic dimensions of argument `index`, outermost first; () if it has none."""
        return syntax.split_dims([a.type for a in self.arguments], self.argument_dims)[index]

    def dims_of_result(self: Any, index: int) -> tuple[SSAValue, ...]:
        """Return the sizes of the dynamic dimensions of result `index`, outermost first; () if it has none."""
        return syntax.split_dims([r.type for r in self.results_], self.result_dims)[index]

    def tied_argument(self: Any, index: int) -> int | None:
        """Return the index of the argument whose memory result `index` reuses; None if the result is not tied."""
        tied = syntax.tied_list(self.tied_operands)
        return None if tied is None or tied[index] < 0 else tied[index]

    def overwritten_arguments(self: Any) -> list[SSAValue]:
        """Return the arguments that are overwritten: a result is tied to each, and is stored in its memory."""
        tied: Sequence[int] = syntax.tied_list(self.tied_operands) or ()
        return [self.arguments[index] for index in tied if index >= 0]

    def verify_(self: Any) -> None:
        """Check that there is a size for each dynamic dimension of the operands and of the results."""
        sides = ((self.arguments, self.argument_dims, "operands"), (self.results_, self.result_dims, "results"))
        for values, dims, side in sides:
            expected = sum(syntax.dynamic_dims(v.type) for v in values)
            if len(dims) != expected:
                raise VerifyException(f"the {side} have {expected} dynamic dimension(s), but {len(dims)} are given")


class DispatchLikeOp(ShapedCall, IRDLOperation):
    """Base of operations that launch a grid of workgroups; `ShapedCall` describes sizes and tied results.

    Attributes:
        workload: Index values from which the count region computes the grid.
        arguments: Tensors and scalars that are passed to the kernel.
        results_: Tensors that the kernel writes.
    """

    workload = var_operand_def(IndexType)
    arguments = var_operand_def()
    argument_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    results_ = var_result_def()
    tied_operands = opt_prop_def(DenseArrayBase)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


CALL = "(`[` $workload^ `]`)? `` `(` $arguments `)`"
"""Assembly format of the workload and the arguments of a call: `[%workload](%arguments)`."""

SIGNATURE = (
    "custom<Signature>(ref($arguments), type($arguments), type($results_), $tied_operands, $argument_dims, "
    "$result_dims)"
)
"""Assembly format of the types of a call, with the sizes of dynamic dimensions: `(T{%d}) -> T{%d}`."""
