"""Recognition of a `linalg.generic` that is the generic form of a named operation."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from pydispatch.compiler.match.graph.view import GraphView


def is_spelling_of(op: Operation, name: str) -> bool:
    """Return whether `op` is a `linalg.generic` that computes the same as the operation `name` with the same operands.

    `name` has the dialect, such as "linalg.matmul". Operations that need attributes are not recognized.
    """
    if not isinstance(op, GenericOp) or not name.startswith("linalg.") or name == "linalg.generic":
        return False
    named = _named(op, name)
    if named is None:
        return False
    try:
        mine, theirs = GraphView().nodes(named), GraphView().nodes(op)
        return [n.key for n in mine] == [n.key for n in theirs]
    except Exception:  # The named operation does not accept such operands.
        return False
    finally:
        named.erase()


def _named(op: GenericOp, name: str) -> Operation | None:
    """Create the operation `name` with the operands and result types of a generic.

    `is_spelling_of` compares its nodes with those of the generic. The operation is in no block; the caller erases it.

    Return None if there is no such operation, or it needs further attributes.
    """
    from pydispatch import ir

    kind = ir.context().get_optional_op(name)
    if kind is None:
        return None
    sizes = DenseArrayBase.from_list(i32, [len(op.inputs), len(op.outputs)])
    try:
        named: Operation = kind.create(
            operands=list(op.operands), result_types=[r.type for r in op.results],
            properties={"operandSegmentSizes": sizes},
        )  # fmt: skip
        return named
    except Exception:  # The operation needs further attributes.
        return None
