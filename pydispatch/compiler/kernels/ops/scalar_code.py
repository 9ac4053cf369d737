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
    """Return the loops that a scalar in the body of a generic depends on.

    Return None if they are not known: for code with regions, and for values of outputs.
    """
    loops: set[int] = set()
    pending, seen = [value], set[SSAValue]()
    while pending:
        scalar = pending.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        if isinstance(scalar, BlockArgument):
            if scalar.owner is not generic.block:
                continue
            if scalar.index >= len(generic.inputs):
                return None
            loops |= dims_in(generic.maps[scalar.index])
        elif isinstance(scalar, OpResult) and scalar.op.parent_block() is generic.block:
            if scalar.op.regions:
                return None
            if scalar.op.name == "linalg.index":
                loops.add(index_loop(scalar.op))
            pending += [v for v in scalar.op.operands if not isinstance(v.type, TensorType)]
    return loops


def index_loop(op: Operation) -> int:
    """Return the loop whose counter a `linalg.index` is."""
    return int(op.properties["dim"].value.data)  # type: ignore[attr-defined]


def scalar_at(
    elements: Elements, build: Builder, generic: Structured, value: SSAValue, point: Sequence[Index]
) -> SSAValue:
    """Emit a scalar in the body of a generic, without the rest of the body, at one point of its loops.

    value: a scalar for which `loops_read` is known.
    """
    mapping: dict[SSAValue, SSAValue] = {}

    def emit(scalar: SSAValue) -> None:
        """Emit a scalar of the body after its operands, unless that is done."""
        if scalar in mapping or isinstance(scalar.type, TensorType):
            return
        if isinstance(scalar, BlockArgument) and scalar.owner is generic.block:
            operand, map_ = generic.operands[scalar.index], generic.maps[scalar.index]
            is_tensor = isinstance(operand.type, TensorType)
            where = evaluate(build, map_, point) if is_tensor else []
            mapping[scalar] = elements.at(build, operand, where) if is_tensor else elements.scalar(operand)
        elif isinstance(scalar, OpResult) and scalar.op.parent_block() is generic.block:
            for operand in scalar.op.operands:
                emit(operand)
            clone_op(elements, build, scalar.op, mapping, point)
        else:
            mapping[scalar] = elements.scalar(scalar)

    emit(value)
    return mapping[value]
