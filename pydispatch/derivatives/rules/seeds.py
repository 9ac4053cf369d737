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
    """Return the seeds of a loop nest, one for each result with a cotangent.

    Also add the cotangents of the initial values of sums.
    """
    seeds = []
    for index, result in enumerate(nest.op.results):
        cotangent = nest.cotangents.of(result)
        if cotangent is None:
            continue
        if nest.is_reduction:
            seeds.append(_of_reduction(nest, index, cotangent))
        else:
            operands = ((cotangent, nest.result_maps[index]),)
            seeds.append(Seed(nest.yielded[index], operands, lambda _, cotangent: cotangent))
    return seeds


def _of_reduction(nest: LoopNest, index: int, cotangent: Tensor) -> Seed:
    """Return the seed of result `index` of a loop nest that is a sum, a product, a maximum or a minimum.

    cotangent: that of the result. The initial value of a sum gets it as well. Raise CompileError for another reduction,
    and for a product or an extreme whose initial value has a cotangent.
    """
    combiner, running = nest.yielded[index].owner, nest.arguments[len(nest.inputs) + index]
    operands = combiner.operands if isinstance(combiner, Operation) and combiner.name in _REDUCTIONS else ()
    others = [operand for operand in operands if operand is not running]
    if not isinstance(combiner, Operation) or len(others) != 1:
        raise nest.cotangents.refuse(nest.other_reduction)
    start = nest.starts[index]
    if combiner.name == "arith.addf":
        nest.cotangents.add(start, cotangent)
    elif start in nest.cotangents.active:
        raise nest.cotangents.refuse("a product or an extreme that begins with a computed value")
    result = nest.cotangents.tensor(nest.op.results[index]), nest.result_maps[index]
    return _REDUCTIONS[combiner.name](nest, others[0], (cotangent, nest.result_maps[index]), result)


def _of_sum(nest: LoopNest, element: SSAValue, cotangent: Operand, result: Operand) -> Seed:
    """Return the seed of a sum: each term has the cotangent of the sum."""
    return Seed(element, (cotangent,), lambda _, cotangent: cotangent)


def _of_extreme(nest: LoopNest, element: SSAValue, cotangent: Operand, result: Operand) -> Seed:
    """Return the seed of a maximum or minimum, whose cotangent is divided among the elements that equal it."""

    def is_extreme(elements: Elements, extremes: Sequence[Element]) -> Element:
        """Return 1 for an element that is the extreme, else 0."""
        (extreme,) = extremes
        return elements.of(element).is_equal(extreme).where(extreme.const(1.0), 0.0)

    count = nest.repeated([result], result[1], result[0].dtype, is_extreme)
    assert count is not None
    share = elementwise.binary(nest.cotangents.trace, "div", cotangent[0], count), cotangent[1]
    return Seed(element, (result, share), lambda own, extreme, share: own.is_equal(extreme).where(share, 0.0))


def _of_product(nest: LoopNest, element: SSAValue, cotangent: Operand, result: Operand) -> Seed:
    """Return the seed of a product. The derivative by an element is the product of the others, also beside zeros.

    To divide by no 0, zeros are counted, and the product is that of the other elements. nest: the loops. element: value
    of the body that is multiplied. cotangent: that of the product. result: the product.
    """
    map, dtype = result[1], result[0].dtype

    def is_zero(elements: Elements, _: Sequence[Element]) -> Element:
        """Return 1 for an element that is 0, else 0: their sum is the number of zeros."""
        own = elements.of(element)
        return own.is_equal(0.0).where(own.const(1.0), 0.0)

    def without_zeros(elements: Elements, _: Sequence[Element]) -> Element:
        """Return the element, or 1 in place of 0."""
        own = elements.of(element)
        return own.is_equal(0.0).where(own.const(1.0), own)

    zeros = nest.repeated([], map, dtype, is_zero)
    product = nest.repeated([], map, dtype, without_zeros, "mul", 1)
    assert zeros is not None
    assert product is not None
    scaled = formula(nest.cotangents.trace, lambda d, p: d * p, cotangent[0], product)

    def derivative(own: Element, zeros: Element, scaled: Element) -> Element:
        """Return the cotangent of an element: `scaled`, the product of the elements that are not 0 times the cotangent,
        without it.

        A single zero has the product of the others; if there are several, all derivatives are 0.
        """
        of_zero = zeros.is_equal(1.0).where(scaled, 0.0)
        return own.is_equal(0.0).where(of_zero, zeros.is_equal(0.0).where(scaled / own, 0.0))

    return Seed(element, ((zeros, map), (scaled, map)), derivative)


_REDUCTIONS = {
    "arith.addf": _of_sum,
    "arith.mulf": _of_product,
    "arith.maximumf": _of_extreme,
    "arith.minimumf": _of_extreme,
}
"""Seeds of reductions, by the operation that combines elements."""
