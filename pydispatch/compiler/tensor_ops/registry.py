"""Lookup of the rule of a tensor operation."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch import extensions
from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.extensions.parts import advice_to_do_without
from pydispatch.ir.op_info import info_of

ELEMENTWISE = ""
"""The name of the rule for elementwise operations that have none of their own."""


@cache
def rules_by_name() -> dict[str, TensorOp]:
    """Return every rule, also those of extensions, by the name of its operation, such as "tensor.concat".

    A rule is an instance of a `TensorOp` class: it emits the code that computes an element of the operation's result.

    The rule for all elementwise operations without one of their own is under ELEMENTWISE.

    Raises ExtensionError for an operation that has two rules.
    """
    owners: dict[str, str] = {}  # name of an operation → package and module of its rule, for the message
    rules: dict[str, TensorOp] = {}
    for part in extensions.parts("tensor operations"):
        for kind in part.load():
            owner = f"{part.owner} ({part.place})"
            if kind.name in rules:
                both = f"both in {owners[kind.name]} and in {owner}"
                advice = advice_to_do_without(part.owner)
                raise extensions.ExtensionError(f"the rule of '{kind.name}' is {both}; {advice}")
            owners[kind.name], rules[kind.name] = owner, kind()
    return rules


def rule_of(op: Operation) -> TensorOp | None:
    """Return the rule of an operation; None when it does not compute tensors, or nothing is known of it."""
    rules = rules_by_name()
    rule = rules.get(op.name)
    if rule is None and op.results and info_of(op).elementwise:
        return rules[ELEMENTWISE] if all(isinstance(r.type, TensorType) for r in op.results) else None
    return rule


def looks_through(op: Operation) -> bool:
    """Return whether the result of `op` has the elements of operand 0 at the same indices: `op` casts the type of the
    tensor, or states its sizes.
    """
    rule = rule_of(op)
    return rule is not None and rule.view and rule.is_pointwise(op)


def source_of(value: SSAValue) -> SSAValue:
    """Return the tensor from which casts of its type and statements of its sizes compute `value`."""
    while isinstance(value, OpResult) and looks_through(value.op):
        value = value.op.operands[0]
    return value
