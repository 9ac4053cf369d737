"""Recognition of a `linalg.generic` that is the generic form of a named operation."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.graph.nodes import Node
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
        wanted, actual = GraphView().nodes(named), GraphView().nodes(op)
        return len(wanted) == len(actual) and all(map(_are_equal, wanted, actual))
    except Exception:  # The named operation does not accept such operands.
        return False
    finally:
        named.erase()


def _are_equal(wanted: SSAValue | Node, actual: SSAValue | Node) -> bool:
    """Return whether two nodes compute the same function of the same values of the program."""
    if not isinstance(wanted, Node) or not isinstance(actual, Node):
        return wanted is actual  # a value of the program equals itself alone
    if wanted.key != actual.key or wanted.index_map != actual.index_map or len(wanted.children) != len(actual.children):
        return False
    orders = [actual.children, actual.children[::-1]] if wanted.commutative else [actual.children]
    return any(all(map(_are_equal, wanted.children, order)) for order in orders)


def _named(op: GenericOp, name: str) -> Operation | None:
    """Create the operation `name`, such as "linalg.add", with the operands and result types of a generic.

    The caller compares its computation with that of the generic, to see whether the generic is a spelling of it. The
    operation is in no block; the caller erases it.

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
