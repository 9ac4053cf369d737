"""Assertions of kernels on devices whose kernels cannot stop: the kernel records a failed assertion, and the call fails
after the dispatch. The rest of the kernel still runs.

An export with assertions gets an additional i32 buffer, which holds 0 or the number of a failed assertion.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, memref, scf, tensor
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, MemRefType, ModuleOp, TensorType, i1, i32, i64
from xdsl.dialects.cf import AssertOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.outline.dispatches import tied_operands
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import stream
from pydispatch.ir.dialects.flow import dialect as flow

_ONE_ELEMENT = [1]
"""Shape of the buffer with the number of the failed assertion."""
_MAXS = 4
"""The kind `maxs` of memref.atomic_rmw."""


def report_asserts(module: ModuleOp) -> None:
    """Make kernels with assertions record failures in a further operand, which host code checks after the dispatch.

    The kernels and their dispatches are changed in place.
    """
    for executable in [op for op in module.body.block.ops if isinstance(op, stream.ExecutableOp)]:
        for function in _functions(executable):
            asserts = [op for op in walk(function) if isinstance(op, AssertOp)]
            names = executable.sym_name.data, function.sym_name.data  # of the executable and its export
            dispatches = [op for op in walk(module) if isinstance(op, flow.DispatchOp) and _starts(op, *names)]
            if asserts and dispatches and not function.is_declaration:
                # All dispatches of a kernel have the same number of arguments.
                _record_failures(function, position=len(dispatches[0].arguments), asserts=asserts)
                for dispatch in dispatches:
                    _check_after_dispatch(dispatch, asserts)


def _functions(executable: stream.ExecutableOp) -> Iterator[FuncOp]:
    """Yield the functions that an executable exports."""
    exports = {op.sym_name.data for op in walk(executable) if isinstance(op, stream.ExecutableExportOp)}
    for inner in walk(executable):
        if isinstance(inner, FuncOp) and inner.sym_name.data in exports:
            yield inner


def _starts(dispatch: flow.DispatchOp, executable: str, export: str) -> bool:
    """Return whether a dispatch may start this export."""
    return any(
        entry.root_reference.data == executable and entry.nested_references.data[-1].data == export
        for entry in dispatch.entry_points.data
    )


def _record_failures(function: FuncOp, position: int, asserts: list[AssertOp]) -> None:
    """Replace the assertions of a kernel by an atomic maximum of their numbers in an additional binding.

    A kernel cannot stop the program: the host checks the number. After the dispatch, the binding, a buffer of one i32,
    holds the largest number of a failed assertion, or 0.

    Args:
        function: The kernel.
        position: Index of the binding among the arguments of the function, after those of the dispatch's operands.
        asserts: All assertions of the function; they are numbered from 1 in this order.
    """
    # The binding, whose only element is the number.
    block = function.body.blocks[0]
    binding = block.insert_arg(stream.BindingType(), position)
    function.update_function_type()
    zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
    flag = stream.BindingSubspanOp(operands=[binding, zero.result, []], result_types=[MemRefType(i32, _ONE_ELEMENT)])
    first = block.first_op
    assert first is not None
    block.insert_ops_before([zero, flag], first)
    # In place of each assertion, a branch that records its number if it fails. The number 0 means that none has failed.
    for code_value, op in enumerate(asserts, 1):
        true, code = arith.ConstantOp(IntegerAttr(1, i1)), arith.ConstantOp(IntegerAttr(code_value, i32))
        fails = arith.XOrIOp(op.operands[0], true.result)
        record = memref.AtomicRMWOp(
            operands=[code.result, flag.result, [zero.result]], properties={"kind": IntegerAttr(_MAXS, i64)},
            result_types=[i32],
        )  # fmt: skip
        branch = scf.IfOp(fails.result, [], Region(Block([code, record, scf.YieldOp()])))
        parent = op.parent
        assert parent is not None
        parent.insert_ops_before([true, fails, branch], op)
        op.detach()  # not erased: `_check_after_dispatch` reads its message and location


def _check_after_dispatch(dispatch: flow.DispatchOp, asserts: list[AssertOp]) -> None:
    """Add the number of the failed assertion as a result of a dispatch, and assertions on it to the host function.

    `%r = flow.dispatch @e::@k(%a)` of a kernel with two assertions becomes

        %flag = tensor.splat 0 : tensor<1xi32>
        %r, %codes = flow.dispatch @e::@k(%a, %flag)  // %codes is tied to %flag: the kernel updates it in place
        %code = tensor.extract %codes[0]
        cf.assert %code != 1, "message of the first assertion"
        cf.assert %code != 2, "message of the second assertion"

    Args:
        dispatch: The dispatch, which is replaced.
        asserts: The assertions of the kernel, in the order of their numbers from 1. They are not part of the kernel any
            more, but still have their messages and locations.
    """
    # Another argument and result: the flag, a tensor with the number of the failed assertion, which the kernel updates
    # in place. The number is 0 if no assertion failed.
    no_failure = arith.ConstantOp(IntegerAttr(0, i32))
    flag = tensor.SplatOp(no_failure.result, [], TensorType(i32, _ONE_ELEMENT))
    checked_dispatch = _with_flag(dispatch, flag.results[0])
    zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
    code = tensor.ExtractOp(checked_dispatch.results[-1], [zero.result], i32)
    new = [no_failure, flag, checked_dispatch, zero, code]
    for new_op in new:
        set_location(new_op, dispatch)
    checks = [new_op for ordinal, op in enumerate(asserts, 1) for new_op in _check_of_code(code.result, ordinal, op)]
    parent = dispatch.parent
    assert parent is not None
    parent.insert_ops_before([*new, *checks], dispatch)
    # `strict=False`: the last result of the new dispatch, the number, replaces none.
    for old, result in zip(dispatch.results, checked_dispatch.results, strict=False):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    erase_op(dispatch)


def _with_flag(dispatch: flow.DispatchOp, flag: SSAValue) -> flow.DispatchOp:
    """Return a copy of a dispatch with `flag` as a further argument, and a further result that is tied to it."""
    tied = [*tied_operands(dispatch), len(dispatch.arguments)]
    return flow.DispatchOp(
        operands=[dispatch.workload, [*dispatch.arguments, flag], dispatch.argument_dims, dispatch.result_dims],
        result_types=[[*(result.type for result in dispatch.results), flag.type]],
        properties={
            **_properties_without_tied_operands(dispatch),
            "tied_operands": DenseArrayBase.from_list(i64, tied),
        },
        attributes=dict(dispatch.attributes),
    )


def _check_of_code(code: SSAValue, ordinal: int, op: AssertOp) -> list[Operation]:
    """Return the operations of the host that assert that assertion `ordinal`, which was `op`, has not failed.

    code: the number of the failed assertion. The new assertion has the message and location of `op`.
    """
    code_of_failure = arith.ConstantOp(IntegerAttr(ordinal, i32))
    holds = arith.CmpiOp(code, code_of_failure.result, "ne")
    check: list[Operation] = [code_of_failure, holds, AssertOp(holds.result, op.msg)]
    for new_op in check:
        set_location(new_op, op)  # the message of a failed call states the line of the kernel's assertion
    return check


def _properties_without_tied_operands(dispatch: flow.DispatchOp) -> dict[str, Attribute]:
    """Return the dispatch's properties without those that change when it gets another operand."""
    return {k: v for k, v in dispatch.properties.items() if k not in ("operandSegmentSizes", "tied_operands")}
