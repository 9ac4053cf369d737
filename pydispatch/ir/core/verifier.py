"""Verifies a program and says where it is wrong."""

from __future__ import annotations

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Block, Operation, Region
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator

from pydispatch.errors import CompileError
from pydispatch.ir.core.dominance import Dominance
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.messages import explain_refusal
from pydispatch.ir.core.refine import Seen, refinement
from pydispatch.ir.core.symbols import check_distinct, unknown_symbol_error
from pydispatch.ir.core.walk import walk


def verify(module: Operation) -> None:
    """Verify every operation of a module, outer before inner; raise CompileError for the first invalid one.

    For each operation, check that its operands are defined before it, its blocks end with terminators, the sizes of
    shapes fit into an index, the symbols in it have distinct names, and it satisfies the verifier of its class.
    """
    order: dict[Operation, int] = {}  # operation -> index in preorder
    for op in walk(module):
        order[op] = len(order)
    seen: Seen = set()  # combinations of types and properties that are valid, which are checked once
    dominance = Dominance()
    for op in order:
        _check_defined(op, order, dominance)
        try:
            for region in op.regions:
                for block in region.blocks:
                    _check_terminated(op, block)
            _check_sizes(op)
            check_distinct(op)
            verify_operation(op, seen)
        except CompileError:
            raise
        except Exception as e:  # xDSL also raises other types than VerifyException, such as AssertionError
            # Two frequent causes have errors of their own, which say more than xDSL's.
            _raise_outside_value(op)
            if (unknown_symbol := unknown_symbol_error(op, str(e))) is not None:
                raise unknown_symbol from e
            message, note = explain_refusal(op.name, e)
            raise CompileError(message, location_of(op), note) from e


def verify_operation(op: Operation, seen: Seen | None = None) -> None:
    """Verify one operation without those in its regions; raise the exceptions of xDSL.

    `seen` holds the combinations of types and properties that earlier calls found valid; they are not checked again.
    With None, nothing is cached.
    """
    refined = refinement(type(op))  # our replacement of xDSL's verifier for this class of operations; may be None
    if refined is None or refined.verify is None:
        op.verify(verify_nested_ops=False)
    else:
        refined.verify(op, set() if seen is None else seen)


def _check_defined(op: Operation, order: dict[Operation, int], dominance: Dominance) -> None:
    """Check that the definition of each operand dominates the operation; raise CompileError otherwise.

    Within a block, that means it precedes the operation, or the one whose regions contain the operation. Values of
    regions that do not contain the operation are skipped, because the parser and the trait IsolatedFromAbove reject
    them. `order` has the index of each operation of the module in the order of its text.
    """
    for value in op.operands:
        # `user` is the operation that is, or contains, `op` and is in the region that defines the value.
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent_block()
        region = block.parent if block is not None else None
        user = _ancestor_in(region, op) if region is not None else None
        user_block = user.parent if user is not None else None
        if block is None or user is None or user_block is None:  # defined in a region that does not contain `op`
            continue
        name = f"%{value.name_hint}" if value.name_hint else "a value"
        if user_block is block:
            # An argument of the block, and an operation outside of the module, which has no index, precede it. With
            # equal indices, an operation or its region uses its own result.
            definition = order.get(value.owner) if isinstance(value.owner, Operation) else None
            if definition is not None and definition >= order[user]:
                raise CompileError(f"'{op.name}' uses {name} before its definition", location_of(op))
        elif not dominance.dominates(block, user_block):
            raise CompileError(
                f"'{op.name}' uses {name}, which is not defined on every path to this block", location_of(op),
                "pass it to the block as an argument of the branches",
            )  # fmt: skip


def _ancestor_in(region: Region, op: Operation) -> Operation | None:
    """Return the operation of a block of `region` that is `op` or contains it; None if there is none."""
    ancestor: Operation | None = op
    while ancestor is not None and ancestor.parent_region() is not region:
        ancestor = ancestor.parent_op()
    return ancestor


def _raise_outside_value(op: Operation) -> None:
    """Raise CompileError if an operation inside of an isolated one, such as a function, uses a value from outside."""
    if not op.has_trait(IsolatedFromAbove):
        return
    for inner in walk(op):
        for value in inner.operands:
            if isinstance(value, ForwardDeclaredValue):  # Such as a loop variable in the bounds of its loop.
                raise CompileError(f"'{inner.name}' uses a value that is not defined", location_of(inner))
            # The operands of op itself may come from outside. A result of op does not exist inside of its regions.
            is_outside = value.owner is op or not op.is_ancestor(value.owner)
            if inner is not op and is_outside:
                name = f"%{value.name_hint}" if value.name_hint else "a value"
                raise CompileError(
                    f"'{inner.name}' uses {name}, which is not defined in this '{op.name}'", location_of(inner),
                    "values of other functions and regions cannot be used",
                )  # fmt: skip


def _check_terminated(op: Operation, block: Block) -> None:
    """Raise CompileError for a block of `op` that does not end with a terminator, unless the operation needs none."""
    if op.has_trait(NoTerminator):
        return
    last = block.last_op
    # An operation that is not registered may be a terminator.
    if last is None or not last.has_trait(IsTerminator, value_if_unregistered=True):
        location = location_of(last) if last is not None else location_of(op)
        raise CompileError(f"a block of '{op.name}' does not end with a return or a branch", location)


def _check_sizes(op: Operation) -> None:
    """Check that the sizes of tensors and memrefs fit into an index, which has 64 bits: the parser does not."""
    arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
    for value in [*op.results, *arguments]:
        if isinstance(value.type, ShapedType) and any(size >= 1 << 63 for size in value.type.get_shape()):
            raise CompileError(f"{value.type} has a size of more than 2^63 - 1 elements", location_of(op))
