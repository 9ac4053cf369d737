"""Scalars in the bodies of generics: which loops they depend on, and their value at one point of the loops."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bodies import clone_op
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured


def loops_read(generic: Structured, value: SSAValue) -> set[int] | None:
    """Return the loops that a scalar in the body of a generic depends on, by their positions among all loops.

    An input counts with the loops of its map: for a[d0] * b[d2] the result is {0, 2}. Return None if the loops are not
    known: if the scalar is computed by an operation with regions, or from an output, whose value depends on earlier
    steps.
    """
    loops: set[int] = set()
    pending, seen = [value], set[SSAValue]()
    while pending:
        scalar = pending.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        if isinstance(scalar, BlockArgument):
            if scalar.owner is not generic.block:  # an argument of the dispatch function, the same in all iterations
                continue
            if scalar.index >= len(generic.inputs):
                return None
            loops |= dims_in(generic.maps[scalar.index])
        elif isinstance(scalar, OpResult) and scalar.op.parent_block() is generic.block:
            if scalar.op.regions:
                return None
            if scalar.op.name == "linalg.index":  # the index of a loop
                loops.add(index_loop(scalar.op))
            pending += [v for v in scalar.op.operands if not isinstance(v.type, TensorType)]
    return loops


def index_loop(op: Operation) -> int:
    """Return the position of the loop whose counter a `linalg.index` is."""
    return int(op.properties["dim"].value.data)  # type: ignore[attr-defined]


def scalar_at(
    elements: Elements, build: Builder, generic: Structured, value: SSAValue, point: Sequence[Index]
) -> SSAValue:
    """Emit a scalar in the body of a generic, without the rest of the body, at one point of its loops, and return it.

    Args:
        elements: Tensors of the kernel.
        build: Receives the code.
        generic: The generic.
        value: The scalar. No operation with regions, and no output of the generic, may be among what it is computed
            from: `loops_read` returns None for such a scalar.
        point: Index of each loop.
    """
    emitted: dict[SSAValue, SSAValue] = {}
    _emit_scalar(elements, build, generic, value, point, emitted)
    return emitted[value]


def _emit_scalar(
    elements: Elements, build: Builder, generic: Structured, scalar: SSAValue, point: Sequence[Index],
    emitted: dict[SSAValue, SSAValue],
) -> None:  # fmt: skip
    """Emit a scalar in the body of a generic, after its operands, and add all of them to `emitted`.

    Scalars in `emitted` are not emitted again. Operands that are tensors are skipped: `clone_op` looks up the sizes
    and elements that an operation needs of them.

    Args:
        elements: Tensors of the kernel.
        build: Receives the code.
        generic: The generic.
        scalar: An argument of the body, a result of one of its operations, or a scalar of the dispatch function.
        point: Index of each loop.
        emitted: Scalar → its value at this point.
    """
    if scalar in emitted or isinstance(scalar.type, TensorType):
        return
    if isinstance(scalar, BlockArgument) and scalar.owner is generic.block:  # an element of an operand of the generic
        operand, map_ = generic.operands[scalar.index], generic.maps[scalar.index]
        if isinstance(operand.type, TensorType):
            emitted[scalar] = elements.at(build, operand, evaluate(build, map_, point))
        else:
            emitted[scalar] = elements.scalar(operand)
    elif isinstance(scalar, OpResult) and scalar.op.parent_block() is generic.block:
        for operand in scalar.op.operands:
            _emit_scalar(elements, build, generic, operand, point, emitted)
        clone_op(elements, build, scalar.op, emitted, point)
    else:  # a scalar of the dispatch function
        emitted[scalar] = elements.scalar(scalar)
