"""Patterns that are functions of an MLIR program, which was traced from a Python function: the operations to match."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult

from pydispatch.compiler.match.graph.view import source_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.patterns import Pattern


def function_of(pattern: Pattern) -> FuncOp:
    """Return a copy of the function of a pattern that is a program, without `flow.tensor.tie_shape` operations, which
    only state the sizes of their operand.
    """
    module: ModuleOp = pattern.program
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp) and op.sym_name.data == pattern.name)
    copy = function.clone()
    for op in list(copy.body.block.ops):
        if op.name == "flow.tensor.tie_shape":
            op.results[0].replace_all_uses_with(op.operands[0])
            erase_op(op)
    return copy


def root_of(pattern: Pattern, block: Block) -> tuple[Operation, list[int]]:
    """Return the operation that computes all results, and the indices of the pattern's outputs among its results.

    The pattern is a program, whose `block` ends with the return of its outputs. Casts between the operation and the
    return are skipped.

    Raises:
        CompileError: An output is an input of the program, or the outputs come from several operations.
    """
    terminator = block.last_op
    assert terminator is not None
    results = [source_of(value) for value in terminator.operands]
    if not all(isinstance(value, OpResult) for value in results):
        note = "return what the pattern is to find"
        raise CompileError(
            f"pattern '{pattern.name}' computes nothing: it returns an input", location_of(terminator), note
        )
    # The only operation that they are results of.
    roots = {value.owner for value in results}
    if len(roots) != 1:
        raise CompileError(
            f"pattern '{pattern.name}' returns results of {len(roots)} operations", location_of(terminator),
            "the results of a pattern come from one operation; write one pattern for each",
        )  # fmt: skip
    (root,) = roots
    assert isinstance(root, Operation)
    return root, [value.index for value in results if isinstance(value, OpResult)]
