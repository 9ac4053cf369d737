"""The rules as kernels read them: elements and sizes of the tensors of a dispatch function, as kernel IR."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.bodies import clone_op
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements, Rules
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.terms import Product, SizeElement, Stated
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.values import Dim


def element_of(elements: Elements, build: Builder, value: OpResult, indices: Sequence[Index]) -> SSAValue:
    """Emit the element of `value` at `indices`, and return it. Raises CompileError if its operation has no rule.

    Args:
        elements: Access to the operands of the operation.
        build: Builder of the code.
        value: A result of an operation on tensors.
        indices: Index of the element, one for each dimension, in bounds.
    """
    rule = rule_of(value.op)
    if rule is None:
        raise unsupported(value.op, "no rule computes an element of its result")
    return rule.element(elements, build, value.op, value, list(indices))


def sizes_of(elements: Elements, value: SSAValue) -> list[Index]:
    """Return the sizes of `value`: integers where its type has them, else values computed from its operation."""
    shape = tensor_type(value).get_shape()
    return [size if size >= 0 else _dynamic_size(elements, value, axis) for axis, size in enumerate(shape)]


def _dynamic_size(elements: Elements, value: SSAValue, axis: int) -> Index:
    """Return the dynamic size of a tensor along `axis`, as a value of the kernel.

    The sizes of an argument are the operands of the `flow.dispatch.tie_shape` that takes it. Those of an operation's
    result are computed by its rule, the `TensorOp` that implements the operation in kernels. Raises CompileError if
    neither states the size.
    """
    if not isinstance(value, OpResult):
        for use in value.uses:
            if use.operation.name == "flow.dispatch.tie_shape" and use.index == 0:
                return elements.dims(use.operation.results[0])[axis]
        raise CompileError(
            f"the sizes of argument {getattr(value, 'index', '?')} ({value.type}) are not stated",
            location_of(elements.source),
            "flow.dispatch.tie_shape states the sizes of a dynamic argument of a dispatch",
        )
    rule = rule_of(value.op)
    term = None if rule is None else rule.size(value.op, value, axis)
    if term is None:
        raise unsupported(value.op, "its sizes are not known")
    return index_of(elements, term)


def index_of(elements: Elements, term: Stated) -> Index:
    """Return a size as an index of the kernel: an integer, or a value that is emitted in the kernel's entry block.

    For `Sum((Dim(%a, 0), 4))`, the size of a concatenation of %a with 4 elements, it is an addition of the size of %a
    and 4.

    Args:
        elements: Access to the tensors and scalars of the dispatch function.
        term: The size: an integer, a scalar of the dispatch function, a dimension of a tensor, an element of a tensor
            of sizes, or a sum or product of sizes.
    """
    if isinstance(term, int):
        return term
    if isinstance(term, SSAValue):
        return elements.index(term)
    if isinstance(term, Dim):
        return elements.dims(term.tensor)[term.axis]
    if isinstance(term, SizeElement):
        size = elements.at(elements.entry, term.tensor, [term.index])
        is_index = isinstance(size.type, IndexType)
        return size if is_index else elements.entry.pure(arith.IndexCastOp(size, IndexType()))
    # A sum or product.
    parts = [index_of(elements, part) for part in term.parts]
    if isinstance(term, Product):
        return elements.entry.product(parts)
    total: Index = 0
    for part in parts:
        total = elements.entry.plus(total, part)
    return total


RULES = Rules(element=element_of, sizes=sizes_of, scalar=clone_op)
"""Rules by which kernels compute elements, sizes, and scalar operations."""
