"""Calls of programs whose derivative the user has stated, inside of a function that is differentiated.

The call is recorded with a marker after it (`programs/derivative_markers.py`): an operation whose operands are the
arguments and then the results of the call. Its own results are used instead of those of the call. Reverse mode calls
the stated rule for the marker, and so does not differentiate the operations of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.values import Tensor
from pydispatch.patterns.types import DType, TensorType
from pydispatch.programs.array import Array
from pydispatch.programs.derivative_markers import RULE, marker_after
from pydispatch.programs.functions.common import as_type, dtype_from
from pydispatch.programs.program import ProgramSource
from pydispatch.programs.trace import Trace

_CALL = "pyd.stated_call"
"""Attribute of the marker of a call: the index of the call in `Trace.stated_calls`."""


@dataclass(frozen=True)
class StatedCall:
    """Call of a program with a stated derivative.

    Attributes:
        program: The program.
        names: Names of its arguments that are arrays or numbers. They are the first operands, in this order, of the
            marker: the operation that stands for the call in the differentiated function.
        statics: Values of its static parameters.
    """

    program: ProgramSource
    names: tuple[str, ...]
    statics: Mapping[str, Any]


def recorded(trace: Trace, program: ProgramSource, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Record a call of `program` in a trace, and return its results.

    If the program has a stated derivative and a function that contains the call is differentiated, add a marker after
    the call: an operation for which reverse mode calls the stated derivative instead of differentiating the call.
    """
    if trace.differentiations and program.stated_derivative is not None:
        return _marked(trace, program, args, named)
    return program.traced(*args, **named)


def _marked(trace: Trace, program: ProgramSource, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Record a call of a program with a stated derivative, add a marker, and return the results of the marker.

    The marker is an operation that stands for the call: reverse mode calls the stated derivative for it. Its results
    replace those of the call, so that gradients pass through it. For a call of f(x, y) with one result, this adds

        %z = ...                        the operations of f
        %m = builtin.unrealized_conversion_cast %x, %y, %z {pyd.stated_call = 0}

    and returns %m. `trace.stated_calls[0]` is StatedCall(f, ("x", "y"), static arguments).

    Args:
        trace: Builder of the calling program.
        program: The program that is called.
        args: Positional arguments.
        named: Keyword arguments.

    Returns:
        The results in the form in which the program returns them: an array, a tuple, or a dict by name.

    Raises:
        CompileError: An argument or a result is complex: a stated derivative takes and returns real arrays only.
    """
    # The arguments by name. A parameter without a type is static: its value is known when the program is compiled.
    values = {**dict(zip(program.parameters, args, strict=False)), **named}
    types = {name: type for name, type in program.parameters.items() if type is not None and name in values}
    operands = [_operand(trace, values[name], type) for name, type in types.items()]
    returned = program.traced(*args, **named)  # adds the operations of the program
    results = [trace.tensor_of(value) for value in program.named(trace, returned).values()]
    has_complex = any(len(trace.parts(of)) > 1 for of in (*operands, *results))  # a real and an imaginary part
    if has_complex:
        raise trace.fail(
            f"program '{program.name}' has complex numbers, of which a stated derivative has none",
            "pass real and imaginary parts as arrays of their own",
        )
    # The marker, which names the call by its index, and the call.
    marker = marker_after(trace, operands, results)
    marker.attributes[_CALL] = IntAttr(len(trace.stated_calls))
    statics = program.statics_among({**program.statics, **values})  # static arguments, with their defaults
    trace.stated_calls.append(StatedCall(program, tuple(types), statics))
    # The results of the marker, in the form of those of the program.
    arrays = [
        Array(trace, trace.wrap(of.dtype, of.shape, value)) for of, value in zip(results, marker.results, strict=True)
    ]
    if isinstance(returned, dict):
        return dict(zip(returned, arrays, strict=True))
    return tuple(arrays) if isinstance(returned, (tuple, list)) else arrays[0]


def _operand(trace: Trace, value: Any, type: TensorType) -> Tensor:
    """Return an argument as a tensor; for a scalar parameter, whose `type.shape` is None, of the type `type`."""
    return as_type(trace, value, dtype_from(DType(type.dtype))) if type.shape is None else trace.tensor_of(value)


def erase_markers(trace: Trace) -> None:
    """Erase all markers. A marker's results are replaced by its last operands, the results of the function."""
    for marker in list(trace.scope.block.walk()):
        if _CALL in marker.attributes or RULE in marker.attributes:
            trace.replace(marker, marker.operands[-len(marker.results) :])
    trace.stated_calls.clear()


def _pull_back(cotangents: Cotangents, op: Operation) -> None:
    """Call the derivative that the user has stated for a call, and add its results to the cotangents of the arguments.

    The cotangent of a value is the gradient of the differentiated function by this value. If f(x, y) has one result and
    `pydispatch.vjp(f, rule)` states its derivative, `op` is the marker `%m = cast(%x, %y, %z)` of a call. This calls
    rule(x, y, dz), where dz is the cotangent of %m, or zeros if it has none. The results dx and dy of the rule are
    added to the cotangents of %x and %y.

    A marker with the attribute RULE is of a function of pydispatch: the attribute names the rule that is called.

    Args:
        cotangents: Cotangents of the values after the call; those of its arguments are updated.
        op: The marker, whose operands are the arguments of the call and then its results.

    Raises:
        CompileError: The stated derivative has another number of arguments or results, or results of other types.
    """
    rule_name = op.attributes.get(RULE)
    if isinstance(rule_name, StringAttr):
        cotangents.rules[rule_name.data](cotangents, op)
        return
    # The rule, and what it takes: the arguments of the call, and the cotangent of each result.
    trace = cotangents.trace
    call_index = op.attributes[_CALL]
    assert isinstance(call_index, IntAttr)
    call: StatedCall = trace.stated_calls[call_index.data]
    rule, differentiated = call.program.derivative  # the program that computes gradients, the arguments they are of
    arguments = dict(zip(call.names, op.operands, strict=False))  # without the results, which follow
    seeds = [cotangents.of(result) or cotangents.zeros(result) for result in op.results]
    operands: list[Tensor] = [*map(cotangents.program_tensor, arguments.values()), *seeds]
    parameters = [name for name, type in rule.parameters.items() if type is not None]
    if len(parameters) != len(operands):
        raise trace.fail(
            f"the derivative '{rule.name}' of '{call.program.name}' takes {len(parameters)} arguments "
            f"({', '.join(parameters)}); expected {len(operands)}: its arguments and a gradient for each result"
        )
    # Its results are gradients of the arguments `differentiated`, in this order.
    arrays = (Array(trace, operand) for operand in operands)
    returned = rule.traced(**dict(zip(parameters, arrays, strict=True)), **rule.statics_among(call.statics))
    gradients = [trace.tensor_of(gradient) for gradient in rule.named(trace, returned).values()]
    cotangents.add_stated(rule.name, {name: arguments[name] for name in differentiated}, gradients)


STATED_RULES: dict[str, Rule] = {"builtin.unrealized_conversion_cast": _pull_back}
"""Name of an operation → its derivative. The cast marks the call of a program with a stated derivative."""
