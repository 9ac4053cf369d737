"""Conversion of calls of functions without a body to `flow.call`: they are host commands.

A host command is code of the host, supplied by the user, that runs between dispatches in the order of the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow.calls import CallOp
from pydispatch.ir.functions import CALLS, callee_name


def convert_calls_to_commands(functions: Mapping[str, Operation]) -> None:
    """Convert the calls of host functions without a body to commands. Raise CompileError for a call that does not match
    its declaration.

    A `flow.call` gets the function type of its declaration; a `util.call` or `func.call` of a declaration becomes a
    `flow.call`. functions: name → function.
    """
    for function in functions.values():
        for op in list(walk(function)):
            if isinstance(op, CallOp):
                _declare(op, functions)
            elif op.name in CALLS:
                callee = functions.get(callee_name(op))
                if callee is not None and not callee.regions[0].blocks:  # a declaration
                    _to_command(op, callee)


def _declare(call: CallOp, functions: Mapping[str, Operation]) -> None:
    """Store the declared type in a `flow.call`, the call of a host command, which runs on the host between dispatches.

    Raise CompileError if no function without a body has its name, or the types differ.
    """
    if call.declared is not None:  # created by a pass, which sets the type
        return
    declaration = functions.get(callee_name(call))
    if declaration is None:
        known = ", ".join(f"@{name}" for name, f in functions.items() if not f.regions[0].blocks) or "none"
        raise CompileError(
            f"there is no declaration of '@{callee_name(call)}'", location_of(call),
            f"declared: {known}; write: flow.func private @{callee_name(call)}(...)",
        )  # fmt: skip
    if declaration.regions[0].blocks:
        raise CompileError(
            f"'@{callee_name(call)}' has a body", location_of(call), "flow.call calls host commands; write util.call"
        )
    _check_signature(call, declaration)
    call.properties["declared"] = declaration.properties["function_type"]


def _check_signature(call: Operation, declaration: Operation) -> None:
    """Raise CompileError unless the types and ties of a call are those of its declaration.

    A tie names the operand whose memory a result shares: `%y = flow.call @f(%x) : (tensor<4xf32>) -> %x`.
    """
    declared = declaration.properties["function_type"]
    assert isinstance(declared, FunctionType)
    arguments = call.arguments if isinstance(call, CallOp) else call.operands
    call_types = [v.type for v in arguments], [r.type for r in call.results]
    declared_types = list(declared.inputs.data), list(declared.outputs.data)
    for kind, of_call, of_declaration in zip(("arguments", "results"), call_types, declared_types, strict=True):
        if of_call != of_declaration:
            raise CompileError(
                f"the {kind} of this call are ({', '.join(map(str, of_call))}), those of '@{callee_name(call)}' "
                f"({', '.join(map(str, of_declaration))})", location_of(call),
            )  # fmt: skip
    result_count = len(declared.outputs.data)
    if _ties(call, result_count) != _ties(declaration, result_count):
        raise CompileError(
            f"results of '@{callee_name(call)}' are tied to operands in its declaration or in this call alone",
            location_of(call), "write both: flow.func private @f(%x: T) -> %x and flow.call @f(%a) : (T) -> %a",
        )  # fmt: skip


def _ties(op: Operation, result_count: int) -> list[int]:
    """Return, for each result of a call or declaration, the index of the operand whose memory it shares, or -1."""
    tied = op.properties.get("tied_operands")
    return [int(i) for i in tied.get_values()] if isinstance(tied, DenseArrayBase) else [-1] * result_count


def _to_command(call: Operation, declaration: Operation) -> None:
    """Replace `util.call` or `func.call` by `flow.call`, which has the dynamic sizes of its tensors as operands.

        %y = util.call @f(%x) : (tensor<?xf32>) -> %x

    becomes

        %n = tensor.dim %x, 0
        %y = flow.call @f(%x) : (tensor<?xf32>{%n}) -> %x{%n}

    A result that is tied to an operand (-> %x) shares the operand's memory, and has its sizes. Raise CompileError for
    other results of dynamic sizes, and for a call that does not match the declaration.

    Args:
        call: The call.
        declaration: The called function, which has no body.
    """
    declared = declaration.properties["function_type"]
    assert isinstance(declared, FunctionType)
    block = call.parent
    assert block is not None
    ties = _ties(declaration, len(call.results))
    _inherit_ties(call, declaration)
    _check_signature(call, declaration)  # the call's own ties must be those of the declaration
    argument_dims = [dim for value in call.operands for dim in _dynamic_sizes(call, value, value.type)]
    result_dims = _result_sizes(call, ties)
    properties = {"callee": call.properties["callee"], "declared": declared}
    if "tied_operands" in call.properties:
        properties["tied_operands"] = call.properties["tied_operands"]
    command = command_call(call.operands, argument_dims, result_dims, [r.type for r in call.results], properties)
    set_location(command, call)
    block.insert_op_before(command, call)
    replace_op(call, *command.results)


def _result_sizes(call: Operation, ties: Sequence[int]) -> list[SSAValue]:
    """Return the dynamic sizes of a call's results: those of the operands that they are tied to.

    ties: operand that each result is tied to; a negative number for none. Raise CompileError for other dynamic sizes.
    """
    sizes: list[SSAValue] = []
    for position, (result, tied) in enumerate(zip(call.results, ties, strict=True)):
        if tied >= 0:
            sizes += _dynamic_sizes(call, call.operands[tied], result.type)
        elif isinstance(result.type, TensorType) and any(n < 0 for n in result.type.get_shape()):
            raise CompileError(
                f"the sizes of result {position} of '@{callee_name(call)}' are not known", location_of(call),
                "state them: flow.call @f(%x) : (tensor<?xf32>{%n}) -> tensor<?xf32>{%m}",
            )  # fmt: skip
    return sizes


def _inherit_ties(call: Operation, declaration: Operation) -> None:
    """Tie the results of a call that states no ties as its declaration does."""
    if _ties(call, len(call.results)) == [-1] * len(call.results):
        call.properties.pop("tied_operands", None)
        if (tied_operands := declaration.properties.get("tied_operands")) is not None:
            call.properties["tied_operands"] = tied_operands


def _dynamic_sizes(call: Operation, value: SSAValue, type: Attribute) -> list[SSAValue]:
    """Insert before a call operations that read the sizes of the dynamic dimensions of `type` from the tensor `value`.

    Return the sizes in order; none if `type` is no tensor.
    """
    block = call.parent
    assert block is not None
    sizes: list[SSAValue] = []
    for axis, size in enumerate(type.get_shape() if isinstance(type, TensorType) else ()):
        if size < 0:
            index = arith.ConstantOp(IntegerAttr(axis, IndexType()))
            size_op = tensor.DimOp(value, index.result)
            for op in (index, size_op):
                set_location(op, call)
                block.insert_op_before(op, call)
            sizes.append(size_op.result)
    return sizes


def command_call(
    arguments: Sequence[SSAValue], argument_dims: Sequence[SSAValue], result_dims: Sequence[SSAValue],
    types: Sequence[Attribute], properties: Mapping[str, Attribute],
) -> CallOp:  # fmt: skip
    """Create a `flow.call`.

    Args:
        arguments: The arguments: tensors and scalars.
        argument_dims: Sizes of the dynamic dimensions of all arguments that are tensors, in order.
        result_dims: Sizes of the dynamic dimensions of all results, in order.
        types: Types of the results.
        properties: `callee`, `declared` (the function type of the callee's declaration), and `tied_operands` if results
            share memory with operands.
    """
    return CallOp(operands=[arguments, argument_dims, result_dims], result_types=[types], properties=dict(properties))
