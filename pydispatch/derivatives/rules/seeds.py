"""Cotangents of the elements that a loop nest combines into its results."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.derivatives.rules.loop_nests import Elements, LoopNest, Operand, Seed
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise
from pydispatch.operations.elements import Element
from pydispatch.operations.formulas import formula


def seeds_of(nest: LoopNest) -> list[Seed]:
    """Return the seeds of a loop nest: for each result with a cotangent, that of the element that the body computes.

    As a side effect, add the cotangents of the initial values of sums to `nest.cotangents`.
    """
    seeds = []
    for index, result in enumerate(nest.op.results):
        cotangent = nest.cotangents.of(result)
        if cotangent is None:
            continue
        if nest.is_reduction:
            seeds.append(_of_reduction(nest, index, cotangent))
        else:
            operands = (Operand(cotangent, nest.result_maps[index]),)
            seeds.append(Seed(nest.yielded[index], operands, cotangent=lambda _element, cotangent: cotangent))
    return seeds


def _of_reduction(nest: LoopNest, index: int, cotangent: Tensor) -> Seed:
    """Return the seed of result `index` of a loop nest that is a sum, a product, a maximum or a minimum.

    The seed is the cotangent of each element that is reduced, at which the derivatives of the body begin. For the sum
    r[i] = start[i] + sum over j of p[i, j], the cotangent of each p[i, j] is that of r[i].

    Args:
        nest: The loop nest.
        index: Index of the result.
        cotangent: Cotangent of the result. It is also added to that of the initial value of a sum.

    Raises:
        CompileError: The reduction is another one; or it is a product or an extreme whose initial value depends on an
            input: the cotangent of an initial value is implemented for sums only.
    """
    # The operation that computes the yielded value, such as `so_far + p`, and its operand that is the result so far.
    combiner, running = nest.yielded[index].owner, nest.arguments[len(nest.inputs) + index]
    operands = combiner.operands if isinstance(combiner, Operation) and combiner.name in _REDUCTIONS else ()
    others = [operand for operand in operands if operand is not running]  # the element that is combined
    if not isinstance(combiner, Operation) or len(others) != 1:
        raise nest.cotangents.refuse(nest.other_reduction_message)
    start = nest.starts[index]
    if combiner.name == "arith.addf":
        nest.cotangents.add(start, cotangent)
    elif start in nest.cotangents.active:
        raise nest.cotangents.refuse("a product or an extreme that begins with a computed value")
    return _REDUCTIONS[combiner.name](
        nest,
        element=others[0],
        start=nest.cotangents.program_tensor(start),
        cotangent=Operand(cotangent, nest.result_maps[index]),
        result=Operand(nest.cotangents.program_tensor(nest.op.results[index]), nest.result_maps[index]),
    )


def _of_sum(nest: LoopNest, element: SSAValue, start: Tensor, cotangent: Operand, result: Operand) -> Seed:
    """Return the seed of a sum: each term has the cotangent of the sum."""
    return Seed(element, (cotangent,), cotangent=lambda _element, cotangent: cotangent)


def _of_extreme(nest: LoopNest, element: SSAValue, start: Tensor, cotangent: Operand, result: Operand) -> Seed:
    """Return the seed of a maximum or minimum: its cotangent is divided equally among the elements that equal it."""

    def is_extreme(elements: Elements, extremes: Sequence[Element]) -> Element:
        """Return 1 for an element that is the extreme, else 0."""
        (extreme,) = extremes
        return elements.of(element).is_equal(extreme).where(extreme.const(1.0), 0.0)

    count = nest.combined_over_loops(operands=[result], map=result.map, dtype=result.tensor.dtype, compute=is_extreme)
    assert count is not None  # it is None only where `compute` returns None
    share = Operand(elementwise.binary(nest.cotangents.trace, "div", cotangent.tensor, count), cotangent.map)
    return Seed(element, (result, share), lambda own, extreme, share: own.is_equal(extreme).where(share, 0.0))


def _of_product(nest: LoopNest, element: SSAValue, start: Tensor, cotangent: Operand, result: Operand) -> Seed:
    """Return the seed of a product. Its derivative by an element is the product of the start and the other elements.

    This product is a quotient: the product of the start and all elements that are not 0, divided by the element. The
    elements that are 0 are counted, so that no division is by 0.

    Args:
        nest: The loop nest.
        element: Value of the body that is multiplied.
        start: Initial value of the product, which may be 0.
        cotangent: Cotangent of the product.
        result: The product.
    """
    map, dtype = result.map, result.tensor.dtype

    def is_zero(elements: Elements, _: Sequence[Element]) -> Element:
        """Return 1 for an element that is 0, else 0: their sum is the number of zeros."""
        own = elements.of(element)
        return own.is_equal(0.0).where(own.const(1.0), 0.0)

    def without_zeros(elements: Elements, _: Sequence[Element]) -> Element:
        """Return the element, or 1 in place of 0."""
        own = elements.of(element)
        return own.is_equal(0.0).where(own.const(1.0), own)

    # The number of zeros and the product without them, for each element of the result; then times its cotangent.
    zero_count = nest.combined_over_loops(operands=[], map=map, dtype=dtype, compute=is_zero)
    product = nest.combined_over_loops(
        operands=[], map=map, dtype=dtype, compute=without_zeros, combine="mul", start=start
    )
    assert zero_count is not None  # it is None only where `compute` returns None, as is the product
    assert product is not None
    scaled = formula(nest.cotangents.trace, lambda d, p: d * p, cotangent.tensor, product)

    def derivative(own: Element, zero_count: Element, scaled: Element) -> Element:
        """Return the cotangent of an element `own`. `scaled` is the product of the start and all elements that are not
        0, multiplied by the cotangent of the whole product.

        It is `scaled` for the only zero, `scaled / own` for an element if there are no zeros, and else 0.
        """
        of_zero = zero_count.is_equal(1.0).where(scaled, 0.0)
        of_other = zero_count.is_equal(0.0).where(scaled / own, 0.0)
        return own.is_equal(0.0).where(of_zero, of_other)

    return Seed(element, (Operand(zero_count, map), Operand(scaled, map)), derivative)


_REDUCTIONS = {
    "arith.addf": _of_sum,
    "arith.mulf": _of_product,
    "arith.maximumf": _of_extreme,
    "arith.minimumf": _of_extreme,
}
"""Operation that combines elements of a reduction → function that returns the `Seed` of the reduction."""
