"""Extraction of operations from a program into a program of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from pydispatch.ir.core.walk import values_from_outside
from pydispatch.ir.dialects.pyd.derived import DerivedAttr

FILLS = ("arith.constant", "flow.tensor.constant", "tensor.empty", "tensor.splat", "linalg.fill")
"""Operations that are copied into an extracted program which reads their results; other operands become arguments."""


def program_of(ops: Collection[Operation], results: Sequence[SSAValue]) -> ModuleOp | None:
    """Return a module with a function `trial` that consists of copies of `ops` and returns their `results`.

    Values from outside `ops` that they or their regions read become arguments, except the results of `FILLS`, whose
    operations are copied, too.

    Example: for `%y = linalg.matmul ins(%a, %b) outs(%zero)`, where %zero is a filled tensor, it is

        func.func public @trial(%a, %b) {
          %0 = arith.constant 0.0
          %e = tensor.empty()
          %zero = linalg.fill ins(%0) outs(%e)
          %y = linalg.matmul ins(%a, %b) outs(%zero)
          return %y
        }

    Return None if a size is dynamic, the operations are in several blocks, or one is a `pyd.custom`, for which no code
    can be generated.

    Args:
        ops: Operations of one block, at least one.
        results: Results of `ops` that the function returns.
    """
    # Cases without a program.
    block = next(iter(ops)).parent
    if block is None or any(op.parent is not block or op.name == "pyd.custom" for op in ops):
        return None
    types = [v.type for op in ops for v in (*values_from_outside(op), *op.results)]
    if any(isinstance(t, TensorType) and not t.has_static_shape() for t in types):
        return None
    # Copy the operations; _add_copy() makes arguments of the values from outside that they need.
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for op in block.ops:  # in program order; `ops` may be a set
        if op in ops:
            _add_copy(body, op, mapping)
    returned = [mapping[value] for value in results]
    body.add_op(func.ReturnOp(*returned))
    signature = [a.type for a in body.args], [v.type for v in returned]
    return ModuleOp([func.FuncOp("trial", signature, Region(body), visibility="public")])


def _add_copy(body: Block, op: Operation, mapping: dict[SSAValue, SSAValue]) -> None:
    """Add a copy of an operation to the new body, and map its results to those of the copy.

    The values that it reads are mapped before, including those that its regions capture.
    """
    for value in values_from_outside(op):
        _map_operand(body, value, mapping)
    copy = op.clone(mapping)
    mapping.update(zip(op.results, copy.results, strict=True))
    body.add_op(copy)


def _map_operand(body: Block, value: SSAValue, mapping: dict[SSAValue, SSAValue]) -> None:
    """Map an operand of a copied operation to a value of the new body, unless `mapping` has it.

    The result of a constant, an empty or a filled tensor (`FILLS`) is mapped to the result of a copy of its operation,
    whose operands are mapped in the same way. Any other value is mapped to a new argument of the body.

    Constants that are derived from others at load time (`#pyd.derived`) become arguments, too: the new program lacks
    the function that computes them.

    Args:
        body: The new body, which receives copies and arguments.
        value: Operand in the original program.
        mapping: Value of the original program → value of the new body; receives the operand.
    """
    if value in mapping:
        return
    if not isinstance(value, OpResult) or value.op.name not in FILLS or _is_derived(value.op):
        mapping[value] = body.insert_arg(value.type, len(body.args))
        return
    _add_copy(body, value.op, mapping)


def _is_derived(op: Operation) -> bool:
    """Return whether an operation is a constant that is derived from others at load time."""
    return isinstance(op.properties.get("value"), DerivedAttr)
