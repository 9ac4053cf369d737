"""Derivatives of running sums and products."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.iree_linalg_ext.ordering import ScanOp
from pydispatch.operations import elementwise, scans, shapes
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.programs.trace import Trace


def _scan(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangent of the operand of running sums or products, from that of the running results.

    Raise CompileError for another combination of elements, and for a use of result 1, the total.
    """
    assert isinstance(op, ScanOp)
    combiner = next(iter(op.body.block.ops))
    of_running, of_total = (cotangents.of(result) for result in op.results)  # None for a result that is not used
    if combiner.name not in ("arith.addf", "arith.mulf") or of_total is not None:
        raise cotangents.refuse("a running result other than a sum or a product")
    assert of_running is not None
    trace, axis = cotangents.trace, op.dimension.value.data
    is_exclusive = not op.inclusive.value.data
    if combiner.name == "arith.addf":  # an element is a term of its own sum and of all later ones
        gradient = scans.cumulative(trace, "add", of_running, axis, exclusive=is_exclusive, backwards=True)
    else:
        gradient = _of_products(trace, cotangents.program_tensor(op.operands[0]), of_running, axis, is_exclusive)
    cotangents.add(op.operands[0], gradient)


def _of_products(trace: Trace, x: Tensor, cotangent: Tensor, axis: int, is_exclusive: bool) -> Tensor:
    """Return the cotangent of the factors of running products. It divides by no factor, so that factors may be 0.

    The cotangent of factor i is (product of the factors before i) * sum_i. The sum is over the products j that have
    factor i: cotangent of product j * (product of the factors after i in it). Each sum is computed from that of the
    next factor: sum_i = cotangent of product k + x_(i+1) * sum_(i+1). Product k is the first one that has factor i:
    k is i for inclusive products, i + 1 for exclusive ones.

    For the factors a, b, c and the cotangents p, q, r: the inclusive products a, a b, a b c give b the cotangent
    a (q + c r), with sum_1 = q + c r and sum_2 = r. The exclusive ones 1, a, a b give it a r, with sum_1 = r.

    Args:
        trace: Builder of the program.
        x: The factors.
        cotangent: Cotangent of the products, of the shape of x.
        axis: The axis of the products.
        is_exclusive: Whether a product leaves out the factor of its own position.
    """
    if x.shape[axis] == 0:  # no factors
        return x

    def step(s: Scalars, elements: list[Scalar], carried: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """Emit the step of the backwards recurrence at factor i; return [sum_i] and [the value to carry to i - 1].

        sum_i is the cotangent of factor i, divided by the product of the factors before i.

        elements: factor x_i, and the cotangent of product i. carried: x_(i+1) * sum_(i+1) for inclusive products, sum_i
        for exclusive ones; 0 for the last factor.
        """
        factor, of_product = elements
        (later,) = carried
        if is_exclusive:
            # `later` is sum_i. Product i lacks factor i: sum_(i-1) = cotangent of product i + x_i * sum_i.
            return [later], [s.binary("add", of_product, s.binary("mul", factor, later))]
        # `later` is x_(i+1) * sum_(i+1), and sum_i = cotangent of product i + x_(i+1) * sum_(i+1).
        total = s.binary("add", of_product, later)
        return [total], [s.binary("mul", factor, total)]

    # The sums, from the last factor to the first; the products before each factor; and their products.
    other_sizes = tuple(size for dimension, size in enumerate(x.shape) if dimension != axis)
    zeros = shapes.full(trace, 0, other_sizes, x.dtype)
    (sums,), _ = scans.recurrence(trace, [x, cotangent], [zeros], axis, step, [x.dtype], backwards=True)
    before = scans.cumulative(trace, "mul", x, axis, exclusive=True)
    return elementwise.binary(trace, "mul", before, sums)


SCAN_RULES: dict[str, Rule] = {"iree_linalg_ext.scan": _scan}
"""Name of an operation → its derivative."""
