"""Nodes of the data-flow view of a program or pattern: each is one computed value, with the values that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.match.graph.expressions import ValueNumber, intern_key


@dataclass(eq=False, slots=True)
class Node:
    """Node of the data-flow graph: one computed value. Nodes are compared by identity.

    `GraphView` creates the nodes. That of `%r = arith.subf %a, %b : tensor<4xf32>` has the key
    `intern_key(("op", ("arith.subf",), (), 0))`, the children (%a, %b), the type tensor<4xf32>, the label "arith.subf"
    and the value %r.

    Attributes:
        key: Number of the computation without its operands: equal keys are equal functions of the children. For
            an operation: `("op", operation_key(...), keys of its regions, number of the result)`.
        children: Operands, in order.
        type: Type of the value; for a scalar of an elementwise generic, the tensor of it for all elements.
        op: Operation of the program that the node is part of; None for an argument.
        label: Name of the computation in messages.
        value: The SSA value; None for a node inside a generic, whose scalar is no tensor of the program.
        commutative: Whether the two operands may be exchanged; always False for another number of operands.
        parts: (name, text) of each attribute, of a body, or of the value of a constant. Messages compare them to state
            how two computations of the same label differ.
        overwritten: Operands whose only role is to be the destination of a result: their contents are not read. They
            are not in `children`.
        index_map: For a node that broadcasts or transposes its operand, the map from the index of an element to the
            index of the operand's element, (d0, d1) -> (d1, d0) for a transposition. None for other nodes.
    """

    key: ValueNumber
    children: Sequence[SSAValue | Node]
    type: Attribute
    _: KW_ONLY
    op: Operation | None
    label: str
    value: SSAValue | None = None
    commutative: bool = False
    parts: Sequence[tuple[str, str]] = ()
    overwritten: Sequence[SSAValue] = ()
    index_map: AffineMap | None = None

    def __post_init__(self) -> None:
        """Clear `commutative` unless there are two operands."""
        self.commutative = self.commutative and len(self.children) == 2

    @property
    def is_constant(self) -> bool:
        """Whether the node is a scalar or splat constant."""
        return self.label == "constant"

    @property
    def constant_value(self) -> str:
        """The value of a constant, as messages print it; "" if it is not known."""
        return self.parts[0][1] if self.is_constant and self.parts else ""

    @property
    def description(self) -> str:
        """The node as messages name it: a constant with its value, else the label."""
        return f"the constant {self.constant_value}" if self.constant_value else self.label


def difference_text(wanted: Node, actual: Node) -> str:
    """Return the first difference between a node of a pattern and one of a program with different keys or maps.

    The text is for messages: "expected linalg.matmul, got linalg.batch_matmul".
    """
    if wanted.label != actual.label:
        return f"expected {wanted.description}, got {actual.description}"
    actual_texts = dict(actual.parts)
    for name, text in wanted.parts:  # such as ("predicate", "2 : i64")
        if actual_texts.get(name, text) != text:
            return f"{name} of {wanted.label}: expected {text}, got {actual_texts[name]}"
    return f"the operations named {wanted.label} differ"


def type_text(type: Attribute) -> str:
    """Return a type as messages print it, without encodings."""
    return str(TensorType(type.element_type, type.get_shape())) if isinstance(type, TensorType) else str(type)


def read_through(
    operand: SSAValue | Node, index_map: AffineMap, type: Attribute, op: Operation, value: SSAValue | None = None,
    overwritten: Sequence[SSAValue] = (),
) -> Node:  # fmt: skip
    """Return the node of a tensor whose elements are elements of an operand: one that is broadcast or transposed.

    Args:
        operand: The operand.
        index_map: Index of an element of the tensor -> index of the operand's element.
        type: Type of the tensor.
        op: Operation of the program that reads the operand so.
        value: SSA value of the tensor; None if the program has none, because `op` computes with its elements.
        overwritten: Destinations of `op`, whose contents it does not read.
    """
    label = f"an operand read by {index_map}"
    return Node(
        intern_key(("map",)), [operand], type, op=op, label=label, value=value, overwritten=overwritten,
        index_map=index_map,
    )  # fmt: skip
