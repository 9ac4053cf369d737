"""Calls of programs whose derivative the user has stated, inside of a function that is differentiated.

The call is recorded with an operation after it. Its operands are the arguments and the results, and its results stand
for those of the call. Reverse mode then calls the stated rule instead of entering the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntAttr, UnrealizedConversionCastOp
from xdsl.ir import Operation, SSAValue

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.values import Tensor
from pydispatch.programs.array import Array
from pydispatch.programs.program import ProgramSource
from pydispatch.programs.trace import Trace

_CALL = "pyd.stated_call"
"""Attribute of the operation after a call: the number of the call in `Trace.stated_calls`."""


@dataclass(frozen=True)
class StatedCall:
    """Call of a program with a stated derivative.

    Attributes:
        program: The program.
        names: Names of its arguments that are arrays, in the order of the operands of the operation after the call.
    """

    program: ProgramSource
    names: tuple[str, ...]


def called(trace: Trace, program: ProgramSource, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Record a call of a program with a stated derivative, and return its results.

    Args:
        trace: Builder of the calling program.
        program: The program that is called.
        args: Positional arguments.
        named: Keyword arguments.
    """
    values = {**dict(zip(program.parameters, args, strict=False)), **named}
    names = tuple(name for name, type in program.parameters.items() if type is not None and name in values)
    operands = [trace.tensor_of(values[name]) for name in names]
    returned = program.traced(*args, **named)
    results = [trace.tensor_of(value) for value in program.named(trace, returned).values()]
    if any(len(trace.parts(of)) != 1 for of in (*operands, *results)):
        raise trace.fail(
            f"program '{program.name}' has complex numbers, of which a stated derivative has none",
            "pass real and imaginary parts as arrays of their own",
        )
    marker = UnrealizedConversionCastOp.get(
        [trace.value(of) for of in (*operands, *results)], [trace.value(of).type for of in results]
    )
    marker.attributes[_CALL] = IntAttr(len(trace.stated_calls))
    trace.stated_calls.append(StatedCall(program, names))
    trace.add(marker)
    arrays = [
        Array(trace, trace.wrap(of.dtype, of.shape, value)) for of, value in zip(results, marker.results, strict=True)
    ]
    if isinstance(returned, dict):
        return dict(zip(returned, arrays, strict=True))
    return tuple(arrays) if isinstance(returned, (tuple, list)) else arrays[0]


def erase_markers(trace: Trace) -> dict[SSAValue, SSAValue]:
    """Erase the markers, the operations that `called` adds after calls, which are of no use once a program is
    differentiated.

    Return the value that each result of a marker stood for, the result of the call. Such values are the last operands
    of the marker, after the arguments of the call.
    """
    sources: dict[SSAValue, SSAValue] = {}
    for marker in list(trace.scope.block.walk()):
        if _CALL not in marker.attributes:
            continue
        for result, source in zip(marker.results, marker.operands[-len(marker.results) :], strict=True):
            sources[result] = source
            result.replace_all_uses_with(source)
        marker.detach()
        marker.erase()
    trace.stated_calls.clear()
    return sources


def _pull_back(cotangents: Cotangents, op: Operation) -> None:
    """Call the stated rule with the arguments of the call and the gradients of its results, and add what it returns.

    op: the marker after the call. A result without a gradient has zeros. Raise CompileError for a rule with another
    number of arguments.
    """
    trace = cotangents.trace
    call_index = op.attributes[_CALL]
    assert isinstance(call_index, IntAttr)
    call: StatedCall = trace.stated_calls[call_index.data]
    rule, names = call.program.derivative
    arguments = dict(zip(call.names, op.operands, strict=False))
    seeds = [cotangents.of(result) or cotangents.zeros(result) for result in op.results]
    operands: list[Tensor] = [*map(cotangents.tensor, arguments.values()), *seeds]
    parameters = [name for name, type in rule.parameters.items() if type is not None]
    if len(parameters) != len(operands):
        raise trace.fail(
            f"the derivative '{rule.name}' of '{call.program.name}' takes {len(parameters)} arguments "
            f"({', '.join(parameters)}); expected {len(operands)}: its arguments and a gradient for each result"
        )
    arrays = (Array(trace, operand) for operand in operands)
    returned = rule.traced(**dict(zip(parameters, arrays, strict=True)))
    gradients = [trace.tensor_of(gradient) for gradient in rule.named(trace, returned).values()]
    cotangents.add_stated(rule.name, {name: arguments[name] for name in names}, gradients)


STATED_RULES: dict[str, Rule] = {"builtin.unrealized_conversion_cast": _pull_back}
