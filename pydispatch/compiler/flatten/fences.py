"""Removal of fences from functions: a call returns when its work is complete, so that no fence is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, IntegerAttr, StringAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal.device import FenceType
from pydispatch.ir.dialects.hal.tensor import TensorAliasOp, TensorImportOp
from pydispatch.ir.functions import CALLS, callee_name

ASYNC = "$async"
"""Suffix of the name of a function that takes fences. The function without the suffix calls it, and waits for the last
fence."""

ERASED_IF_UNUSED = ("hal.fence.create", "hal.fence.join", "util.null", "hal.devices.get")
"""Operations that create fences, and those that compute their operands."""


def remove_fences(functions: Mapping[str, Operation]) -> None:
    """Remove fences from host functions in place. Raise CompileError for a fence that is returned, stored or selected.

    A fence is a value that is signaled when work that a function submits asynchronously is complete; other functions
    await it. Here a call returns when its work is complete. Operations on fences are rewritten as if all fences were
    signaled, and functions lose their arguments that are fences.

    A frontend may export two variants: `@main$async` takes fences, and `@main` calls it and waits. The variant with
    fences becomes private, so that it is inlined and not exported.
    """
    # The variants `@main$async` that a function `@main` calls become private.
    for name, function in functions.items():
        _hide_async_variant(name, function, functions)
    # Rewrite the operations that wait for, signal or pass fences; this needs no value of a fence.
    creations: list[Operation] = []  # in program order
    for function in functions.values():
        for op in list(walk(function)):
            if op.name in ERASED_IF_UNUSED:  # erased below, when their users are rewritten
                creations.append(op)
            else:
                _without_fences(op)
    # Erase the operations that create and join fences, now that nothing reads their results.
    for op in reversed(creations):  # in reverse: a join is erased before the fences it joins
        if not any(list(result.uses) for result in op.results):
            erase_op(op)
    for function in functions.values():  # other uses of fences remain, and are refused
        for block in function.regions[0].blocks:
            for value in (*block.args, *(result for op in block.ops for result in op.results)):
                _check_unused(value)
        _drop_fence_arguments(function)


def _hide_async_variant(name: str, function: Operation, functions: Mapping[str, Operation]) -> None:
    """Make `@main$async` private, and so not exported, if `@main` calls it: both are variants of one function."""
    caller = functions.get(name.removesuffix(ASYNC))  # the variant without fences
    if not name.endswith(ASYNC) or caller is None:
        return
    if any(op.name in CALLS and callee_name(op) == name for op in walk(caller)):
        function.properties["sym_visibility"] = StringAttr("private")


def _without_fences(op: Operation) -> None:
    """Rewrite an operation that takes fences as if all earlier work were complete; leave other operations unchanged.

    - `hal.fence.await` and `hal.fence.query` become the status 0, which means that the fences are signaled.
    - `hal.fence.signal` is erased, and `hal.tensor.barrier` is replaced by the tensors that it passes on.
    - Tensor imports, aliases and calls lose their operands that are fences.
    """
    if op.name in ("hal.fence.await", "hal.fence.query"):
        reached = arith.ConstantOp(IntegerAttr(0, i32))  # the status "ok": all fences are reached
        set_location(reached, op)
        assert op.parent is not None
        op.parent.insert_op_before(reached, op)
        _replace(op, reached.result)
    elif op.name == "hal.fence.signal":
        erase_op(op)
    elif op.name == "hal.tensor.barrier":
        _replace(op, *(v for v in op.operands if not _is_fence(v)))
    elif isinstance(op, TensorImportOp | TensorAliasOp) and op.wait_fence is not None:
        # The fence is the last operand, and alone in the last segment of operands, which becomes empty.
        op.operands = op.operands[:-1]
        sizes = cast(DenseArrayBase[Any], op.properties["operandSegmentSizes"]).get_values()
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [*(int(n) for n in sizes[:-1]), 0])
    elif op.name in CALLS:
        kept = [index for index, value in enumerate(op.operands) if not _is_fence(value)]
        _retie(op, kept)  # `tied_operands` states indices of operands, which change
        op.operands = [op.operands[index] for index in kept]


def _drop_fence_arguments(function: Operation) -> None:
    """Remove the fences from the signature of a function, and from the arguments of its entry block."""
    type = cast(FunctionType, function.properties["function_type"])
    kept = [index for index, input in enumerate(type.inputs) if not isinstance(input, FenceType)]
    if len(kept) == len(type.inputs):
        return
    _retie(function, kept)  # ties of results to arguments state the indices of arguments
    inputs = [type.inputs.data[n] for n in kept]
    function.properties["function_type"] = FunctionType.from_lists(inputs, list(type.outputs))
    attributes = function.properties.get("arg_attrs")
    if isinstance(attributes, ArrayAttr) and attributes.data:
        function.properties["arg_attrs"] = ArrayAttr([attributes.data[n] for n in kept])
    block = function.regions[0].blocks.first
    if block is None:  # a declaration
        return
    for argument in reversed(block.args):
        if _is_fence(argument):
            block.erase_arg(argument)


def _retie(op: Operation, kept: Sequence[int]) -> None:
    """Renumber the operands or arguments whose memory results share (`tied_operands`), after some were removed.

    kept: the previous indices of the remaining operands, ascending. A result tied to a removed one is not tied then.
    """
    tied = op.properties.get("tied_operands")
    if isinstance(tied, DenseArrayBase):
        new = {old: index for index, old in enumerate(kept)}
        op.properties["tied_operands"] = DenseArrayBase.from_list(i64, [new.get(int(n), -1) for n in tied.get_values()])


def _check_unused(value: SSAValue) -> None:
    """Raise CompileError if a value is a fence that still has a use."""
    if not _is_fence(value):
        return
    for use in value.uses:
        raise CompileError(
            f"'{use.operation.name}' is not supported on fences", location_of(use.operation),
            "fences are waited for by hal.tensor.import, signaled by hal.tensor.barrier and hal.fence.signal, and "
            "passed to functions",
        )  # fmt: skip


def _is_fence(value: SSAValue) -> bool:
    """Return whether a value is a fence."""
    return isinstance(value.type, FenceType)


def _replace(op: Operation, *values: SSAValue) -> None:
    """Replace the results of an operation by as many `values`, in order, and erase it."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    erase_op(op)
