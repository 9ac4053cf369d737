"""Conversions of reductions: operators that combine the elements along axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.shapes import stated_axes
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.dtypes import F64, I64
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, normalization, reductions, scans, shapes
from pydispatch.operations.chosen_axes import ChosenAxes, as_rows, chosen_last
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.indexing import require_elements

Reduce = Callable[[NodeCall, Tensor, list[int], bool], Tensor]
"""Function that emits a reduction: (call, x, axes, whether reduced axes are kept with size 1) -> result."""


def _reduction(reduce: Reduce, operand_since: int, call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Convert a reduction along axes. The attribute keepdims states whether the result has these axes, with size 1.

    Args:
        reduce: Function(call, x, axes, whether these remain with size 1) that builds the reduction along known axes.
        operand_since: Version of the operator since which the axes are an operand. They are an attribute before.
        call: The node of the model.
        x: The operand.
        axes: The operand with the axes; None if it is omitted or they are an attribute. Without axes all are reduced,
            or none with noop_with_empty_axes.
    """
    keep = call.flag("keepdims", default=True)
    stated = stated_axes(call, axes, operand_since, x.rank)
    is_noop = call.flag("noop_with_empty_axes") if call.version >= operand_since else False
    if isinstance(stated, ChosenAxes):
        # Each call chooses the axes: x is transposed so that they are the last ones, whose indices are known.
        last_axes = list(range(x.rank - len(stated.axes), x.rank))
        keeps_axes = False
        reduced = reduce(call, chosen_last(call.b, x, stated), last_axes, keeps_axes)
        kept_shape = stated.replaced(x.shape, 1)  # shape of x, with size 1 for the chosen axes
        return shapes.reshape(call.b, reduced, kept_shape) if keep else reduced
    if not stated and not is_noop:  # no axes are stated: reduce all
        stated = list(range(x.rank))
    return reduce(call, x, stated or [], keep)


def _by_name(name: str) -> Reduce:
    """Return a reduction by the function `name` of `operations.reductions.reduce`, for example "add"."""
    return lambda c, x, axes, keep: reductions.reduce(c.b, name, x, axes, keep)


def _sum_of(term: Callable[[Element], Element], after: Callable[[Element], Element] | None = None) -> Reduce:
    """Return a reduction that computes after(sum of term(v) over the elements v); the sum alone if `after` is None.

    Small types are summed in a wider one. L2, for example, has the term v * v and the square root after the sum.
    """

    def reduce_sum(call: NodeCall, x: Tensor, axes: list[int], keep: bool) -> Tensor:
        """Return `after` of the sum of `term` of the elements along axes, computed in a wider type."""
        inner = normalization.wide(x.dtype)
        total = reductions.reduce(call.b, "add", formula(call.b, lambda v: term(v.to(inner)), x), axes, keep)
        if after is None:
            return elementwise.convert(call.b, total, x.dtype)
        return formula(call.b, lambda v: after(v).to(x.dtype), total)

    return reduce_sum


def _of_sum(function: str) -> Callable[[Element], Element]:
    """Return the application of a function such as "sqrt" to one element; for integers it is rounded towards zero."""
    return lambda value: (
        value.to(F64).unary(function).to(value.dtype) if value.dtype.is_integer else value.unary(function)
    )


def _mean(call: NodeCall, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """Return the mean along axes, summed in a wider type."""
    wide = elementwise.convert(call.b, x, normalization.wide(x.dtype))
    return elementwise.convert(call.b, reductions.mean(call.b, wide, axes, keep), x.dtype)


def _log_sum_exp(call: NodeCall, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """Return the logarithm of the sum of the exponentials along axes; for integers it is rounded towards zero."""
    values = elementwise.convert(call.b, x, F64) if x.dtype.is_integer else x
    return elementwise.convert(call.b, normalization.log_sum_exp(call.b, values, axes, keep), x.dtype)


def _argument(name: str, call: NodeCall, x: Tensor) -> Tensor:
    """Return the i64 index of the largest (`name` is "max") or smallest ("min") element along an axis.

    The axis must not be empty, unless the result is.
    """
    axis = call.axis(call.integer("axis", 0), x.rank)
    require_elements(call.b, x, [axis], shape=(*x.shape[:axis], *x.shape[axis + 1 :]))  # the result's, without the axis
    keep, last = call.flag("keepdims", default=True), call.flag("select_last_index")
    return reductions.arg_reduce(call.b, name, x, axis, keep, I64, last)


def _softmax(call: NodeCall, x: Tensor, axis: int) -> Tensor:
    """Return the softmax of x along an axis."""
    return normalization.softmax(call.b, x, axis)


def softmax(call: NodeCall, x: Tensor, version: int) -> Tensor:
    """Return the softmax of x as version `version` of the operator Softmax computes it."""
    return _along_axis(_softmax, call, x, version)


def _softmax_like(function: Callable[[NodeCall, Tensor, int], Tensor], call: NodeCall, x: Tensor) -> Tensor:
    """Return function(call, x, axis), for example the softmax of x, for the axis in the attribute `axis`."""
    return _along_axis(function, call, x, call.version)


def _along_axis(function: Callable[[NodeCall, Tensor, int], Tensor], call: NodeCall, x: Tensor, version: int) -> Tensor:
    """Return function(call, x, axis) for the axis in the attribute `axis`, as version `version` of Softmax defines it.

    Before version 13, the axes from `axis` on are flattened into one.
    """
    if version >= 13:
        return function(call, x, call.axis(call.integer("axis", -1), x.rank))
    axis = call.axis(call.integer("axis", 1), x.rank)
    flat = shapes.reshape(call.b, x, [product(x.shape[:axis]), product(x.shape[axis:])])
    return shapes.reshape(call.b, function(call, flat, 1), x.shape)


def _hardmax(call: NodeCall, x: Tensor, axis: int) -> Tensor:
    """Return 1 at the first of the largest elements along an axis, and 0 elsewhere."""
    position = reductions.arg_reduce(call.b, "max", x, axis, keep=True)
    return formula(call.b, lambda v, at: v.position(axis, I64).is_equal(at).to(x.dtype), x, position)


def _cumulative(name: str, call: NodeCall, x: Tensor, axis: Tensor) -> Tensor:
    """Return the sums ("add") or products ("mul") of the elements up to each one; with `reverse`, from each one on.

    `axis` is an operand: a constant, or an axis that each call chooses (ChosenAxes).
    """
    along = call.axes_of(axis, x.rank, "axis")
    cumulative = partial(
        scans.cumulative, call.b, name, exclusive=call.flag("exclusive"), backwards=call.flag("reverse")
    )
    if not isinstance(along, ChosenAxes):
        return cumulative(x, axis=along[0])
    # as_rows: x as three axes, of which axis 1 is the chosen one; the axes before and after it are merged.
    return shapes.reshape(call.b, cumulative(as_rows(call.b, x, along), axis=1), x.shape)


ONNX.register({
    # 13 and 18 are the versions since which the axes are an operand.
    "ReduceSum": partial(_reduction, _by_name("add"), 13),
    **{f"Reduce{name}": partial(_reduction, reduce, 18) for name, reduce in {
        "Prod": _by_name("mul"),
        "Max": _by_name("max"),
        "Min": _by_name("min"),
        "Mean": _mean,
        "L1": _sum_of(lambda v: v.unary("abs")),
        "L2": _sum_of(lambda v: v * v, _of_sum("sqrt")),
        "SumSquare": _sum_of(lambda v: v * v),
        "LogSum": _sum_of(lambda v: v, _of_sum("log")),
        "LogSumExp": _log_sum_exp,
    }.items()},
    "ArgMax": partial(_argument, "max"),
    "ArgMin": partial(_argument, "min"),
    "Softmax": partial(_softmax_like, _softmax),
    "LogSoftmax": partial(_softmax_like, lambda c, x, axis: normalization.log_softmax(c.b, x, axis)),
    "Hardmax": partial(_softmax_like, _hardmax),
    "CumSum": partial(_cumulative, "add"),
    "CumProd": partial(_cumulative, "mul"),
})  # fmt: skip
