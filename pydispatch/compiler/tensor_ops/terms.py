"""Sizes of tensors as terms: integers, index values, sizes of other tensors, sums and products of terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from pydispatch.ir.values import Dim, shape_of


@dataclass(frozen=True)
class SizeElement:
    """Size that is an element of a one-dimensional tensor, such as the shape operand of `tensor.reshape`.

    Attributes:
        tensor: The tensor of sizes.
        index: Index of the element.
    """

    tensor: SSAValue
    index: int


@dataclass(frozen=True)
class Sum:
    """Sum of two or more terms. None of `parts` is a sum. Only the last one may be an integer, other than 0."""

    parts: tuple[Term, ...]


@dataclass(frozen=True)
class Product:
    """Product of two or more terms. None of `parts` is a product. Only the last one may be an integer, other than 1."""

    parts: tuple[Term, ...]


Term = int | SSAValue | Dim | Sum | Product
"""A size: an integer, a value of type index, a dimension of a tensor, or a sum or product of terms. Equal terms are
equal sizes; different terms may be equal at run time."""

Stated = Term | SizeElement
"""A size of a result, as its operation states it: a term of its operands, or an element of a tensor of sizes."""


def add(parts: Sequence[Term]) -> Term:
    """Return the sum of terms, with nested sums flattened and integers added up: of n + 2 and 3, Sum((n, 5))."""
    constant, variable = 0, list[Term]()
    for part in parts:
        summands = part.parts if isinstance(part, Sum) else (part,)
        for summand in summands:
            if isinstance(summand, int):
                constant += summand
            else:
                variable.append(summand)
    if not variable:
        return constant
    if len(variable) == 1 and constant == 0:
        return variable[0]
    return Sum((*variable, constant) if constant else tuple(variable))


def multiply(parts: Sequence[Term]) -> Term:
    """Return the product of terms, with nested products flattened and integers multiplied: of n * 2 and 3,
    Product((n, 6)).
    """
    constant, variable = 1, list[Term]()
    for part in parts:
        factors = part.parts if isinstance(part, Product) else (part,)
        for factor in factors:
            if isinstance(factor, int):
                constant *= factor
            else:
                variable.append(factor)
    if not variable or constant == 0:
        return constant
    if len(variable) == 1 and constant == 1:
        return variable[0]
    return Product((*variable, constant) if constant != 1 else tuple(variable))


def values_in(term: Stated | None) -> Iterator[SSAValue]:
    """Yield the SSA values of type index in a term. Sizes of tensors (`Dim`, `SizeElement`) have none."""
    if isinstance(term, SSAValue):
        yield term
    elif isinstance(term, Sum | Product):
        for part in term.parts:
            yield from values_in(part)


# -- sizes as rules return them


def dynamic_size(values: Sequence[SSAValue], result: SSAValue, axis: int) -> Term | None:
    """Return the dynamic size of `result` along `axis`; None if `values` are too few, as in an invalid operation.

    Args:
        values: The dynamic sizes of `result`, in the order of their axes, without the static ones.
        result: A tensor.
        axis: A dynamic axis of the tensor.
    """
    ordinal = sum(n < 0 for n in shape_of(result)[:axis])  # number of dynamic axes before `axis`
    return values[ordinal] if ordinal < len(values) else None


def same_size(dims: Sequence[Dim]) -> Term | None:
    """Return the common value of dimensions that have the same size: an integer if the type of one of their tensors
    states it, else the first of `dims`; None if there are none."""
    known = (shape_of(dim.tensor)[dim.axis] for dim in dims)
    return next((n for n in known if n >= 0), dims[0] if dims else None)
