"""Binding of a node's arguments to the parameters of the conversion of its operator, with type checks.

A conversion has parameters with the defaults of the operator's schema; keywords have its names too. The annotation of a
parameter states which arguments it accepts: a name in `_KINDS`, with `| None` if the argument is optional.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.schema import ExportedGraph, OpaqueArgument
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor

IGNORED = frozenset({"layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "implicit",
                     "cudnn_enable", "cudnn_enabled", "generator", "requires_grad", "list_length"})  # fmt: skip
"""Arguments of PyTorch's operators that are dropped, unless the conversion has a parameter of that name. They state
where and how a result is stored and computed, not its values. `generator` is among them because random numbers are
those of `operations/random.py`, not PyTorch's. `list_length` is an argument that the tracer adds: the length of the
list that the model takes as the result; None if the result is no list."""


class ArgumentError(Exception):
    """Error: an argument does not fit the operator's parameter."""


def _is_int(value: Any) -> bool:
    """Return whether a value is an int, and no bool."""
    return type(value) is int


def _is_size(value: Any) -> bool:
    """Return whether a value is a static or symbolic size."""
    return isinstance(value, Expr) or _is_int(value)


def _is_number(value: Any) -> bool:
    """Return whether a value is a Python number or a symbolic size."""
    return isinstance(value, (bool, int, float, complex, Expr))


def _sequence_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for a tuple or list whose items all pass another check."""
    return lambda value: isinstance(value, (tuple, list)) and all(check(item) for item in value)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: isinstance(v, Tensor),
    "Tensors": _sequence_of(lambda v: isinstance(v, Tensor)),
    "MaybeTensors": _sequence_of(lambda v: v is None or isinstance(v, Tensor)),
    "Operand": lambda v: isinstance(v, Tensor) or _is_number(v),
    "Operands": _sequence_of(lambda v: isinstance(v, Tensor) or _is_number(v)),
    "Number": _is_number,
    "TensorMemory": lambda v: isinstance(v, TensorMemory),
    "Size": _is_size,
    "Sizes": _sequence_of(_is_size),
    "int": _is_int,
    "Ints": _sequence_of(_is_int),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "Floats": _sequence_of(lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)),
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "DType": lambda v: isinstance(v, DType),
    "ExportedGraph": lambda v: isinstance(v, ExportedGraph),
    "Any": lambda v: True,
}
"""Name in an annotation -> check(value), whether an argument is of that kind."""


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a conversion; cached."""
    return inspect.signature(function)


def bind(
    function: Callable[..., Any], tracer: Any, positional: Sequence[Any], keywords: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Bind the arguments of a node to the parameters of its conversion, and return them ready for the call.

    The first parameter is bound to the tracer if it is annotated `Tracer`, else to its builder. `positional` and
    `keywords` are bound to the other parameters. Keywords in IGNORED, such as `device`, are dropped if the conversion
    has no parameter of that name. A `TensorMemory` is replaced by its current tensor unless the parameter accepts
    memory. Raise ArgumentError for arguments that do not fit.
    """
    signature = _signature(function)
    relevant = {name: value for name, value in keywords.items() if name not in IGNORED or name in signature.parameters}
    first = next(iter(signature.parameters.values()))
    try:
        bound = signature.bind(tracer if first.annotation == "Tracer" else tracer.b, *positional, **relevant)
    except TypeError as error:
        raise ArgumentError(f"its arguments do not fit: {error}") from None
    # Check each argument against the annotation of its parameter, such as "Tensor" or "int | None".
    for name, value in list(bound.arguments.items())[1:]:  # without the builder or tracer
        parameter = signature.parameters[name]
        annotation = str(parameter.annotation)
        value = value if annotation.startswith("TensorMemory") else _current_tensors(value)
        if parameter.kind is parameter.VAR_POSITIONAL:
            fits = all(_fits(annotation, item) for item in value)
        else:
            fits = _fits(annotation, value)
        if not fits:
            raise ArgumentError(f"its argument '{name}' is {shown(value)}; expected {annotation}")
        bound.arguments[name] = value
    return bound


def _fits(annotation: str, value: Any) -> bool:
    """Return whether a value passes the check of an annotation, a union of names in _KINDS and None."""
    names = [name.strip() for name in annotation.split("|")]
    return any(value is None if name == "None" else _KINDS[name](value) for name in names)


def _current_tensors(value: Any) -> Any:
    """Return a value, or a tuple of values, with the current tensor in place of each TensorMemory."""
    if isinstance(value, TensorMemory):
        return value.tensor
    return tuple(_current_tensors(item) for item in value) if isinstance(value, tuple) else value


def shown(value: Any) -> str:
    """Return an argument as text for messages: at most 80 characters, or 8 items of a list."""
    value = value.tensor if isinstance(value, TensorMemory) else value
    if isinstance(value, ExportedGraph):
        return "a graph"
    if isinstance(value, OpaqueArgument):
        return f"{value.kind} {value.text}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(shown(item) for item in value[:8])}{', ...' if len(value) > 8 else ''}]"
    return str(value)[:80] if isinstance(value, (Tensor, Expr, DType)) else repr(value)[:80]
