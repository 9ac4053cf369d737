"""Sizes of tensors as terms: integers, index values, sizes of other tensors, sums and products of terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from pydispatch.ir.values import Dim, shape_of


@dataclass(frozen=True)
class Entry:
    """Element of a one-dimensional tensor of sizes, such as the shape operand of `tensor.reshape`."""

    tensor: SSAValue
    index: int


@dataclass(frozen=True)
class Sum:
    parts: tuple[Term, ...]


@dataclass(frozen=True)
class Product:
    parts: tuple[Term, ...]


Term = int | SSAValue | Dim | Sum | Product
"""A size; equal terms are equal sizes."""

Stated = Term | Entry
"""A size of a result, as its operation states it: a term of its operands, or an element of a tensor of sizes."""


def add(parts: Sequence[Term]) -> Term:
    """Return the sum of terms, with its constants folded."""
    constant, rest = 0, list[Term]()
    for part in parts:
        for p in part.parts if isinstance(part, Sum) else (part,):
            if isinstance(p, int):
                constant += p
            else:
                rest.append(p)
    if not rest:
        return constant
    return rest[0] if len(rest) == 1 and constant == 0 else Sum((*rest, constant) if constant else tuple(rest))


def multiply(parts: Sequence[Term]) -> Term:
    """Return the product of terms, with its constants folded."""
    constant, rest = 1, list[Term]()
    for part in parts:
        for p in part.parts if isinstance(part, Product) else (part,):
            if isinstance(p, int):
                constant *= p
            else:
                rest.append(p)
    if not rest or constant == 0:
        return constant if not rest else 0
    return rest[0] if len(rest) == 1 and constant == 1 else Product((*rest, constant) if constant != 1 else tuple(rest))


def values_in(term: Stated | None) -> Iterator[SSAValue]:
    """Yield the index values in a term."""
    if isinstance(term, SSAValue):
        yield term
    elif isinstance(term, Sum | Product):
        for part in term.parts:
            yield from values_in(part)


# -- sizes as rules return them


def dynamic_size(values: Sequence[SSAValue], result: SSAValue, axis: int) -> Term | None:
    """Return the dynamic size of `result` along `axis`: one of `values`, which are its dynamic sizes in order."""
    ordinal = sum(n < 0 for n in shape_of(result)[:axis])
    return values[ordinal] if ordinal < len(values) else None


def same_size(dims: Sequence[Dim]) -> Term | None:
    """Return the common value of equal sizes: a static size if there is one, else the first; None for no sizes."""
    known = (shape_of(dim.tensor)[dim.axis] for dim in dims)
    return next((n for n in known if n >= 0), dims[0] if dims else None)
