"""Operations after the result of a function that has a derivative of its own, while the function is differentiated.

Reverse mode then applies the rule of the marker, instead of entering the operations of the function. The operands of a
marker are the arguments and the results of the function, and its results stand for those of the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, UnrealizedConversionCastOp

from pydispatch.graph.values import Tensor
from pydispatch.programs.trace import Trace

RULE = "pyd.derivative"
"""Attribute of the marker operation after a function: the name of the derivative rule that reverse mode applies."""


def marker_after(trace: Trace, operands: Sequence[Tensor], results: Sequence[Tensor]) -> UnrealizedConversionCastOp:
    """Add a marker after a function, and return it. The caller sets the attribute that selects its derivative rule.

    operands: arguments of the function. results: its results. The results of the marker are copies of them; the
    arguments are operands of the marker only for its rule, which may read them.
    """
    values = [trace.value(tensor) for tensor in (*operands, *results)]
    return trace.add(UnrealizedConversionCastOp.get(values, [value.type for value in values[len(operands) :]]))


def with_rule(trace: Trace, rule: str, operands: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor]:
    """Return the results of a function, with a marker for the derivative `rule` while the program is differentiated.

    The rules are for real numbers: complex ones get no marker. rule: a name in `derivatives.rules.table`.
    """
    if not trace.differentiations or any(tensor.dtype.is_complex for tensor in (*operands, *results)):
        return list(results)
    marker = marker_after(trace, operands, results)
    marker.attributes[RULE] = StringAttr(rule)
    return [
        trace.wrap(tensor.dtype, tensor.shape, value) for tensor, value in zip(results, marker.results, strict=True)
    ]
