"""Exports functions of JAX as StableHLO programs that check themselves, as the files of StableHLO's `testdata` do.

A program has three functions. `@inputs` returns the arguments and `@expected` what JAX computed from them, both as
constants. `@main` computes the same and compares the two with `check.expect_eq` if they are integers or booleans, else
with `check.expect_close`, which allows 3 units in the last place of each element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import export
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

Array = np.ndarray[Any, Any]
_MAIN = re.compile(
    r"  func\.func public @main\(.*\n(?P<body>(?:    .*\n)*?)    return (?P<values>.*) : (?P<types>.*)\n  \}\n"
)
NARROW_ROUNDING_UNITS, ROUNDING_UNITS = 8, 64
"""Differences that `Program.loose` allows for floats of 16 bits and for wider ones, in units in the last place of the
largest element that is expected. A factor of a matrix of 200 rows has rounding errors of 25 units.
"""


@dataclass(frozen=True)
class Program:
    """A program that checks itself.

    Attributes:
        text: Its text, as in `testdata`.
        loose: The same with checks that pass results of another order of sums or of another formula, whose errors are
            relative to the largest element.
    """

    text: str
    loose: str


def static_program(function: Callable[..., Any], arguments: Sequence[Any]) -> Program:
    """Return the program of a function and its arguments."""
    jitted, arrays = _flat(function, arguments)
    return _with_checks(jitted.lower(*arrays).as_text(), arrays, jitted(*arrays), is_dynamic=False)


def dynamic_program(function: Callable[..., Any], arguments: Sequence[Any]) -> Program | None:
    """Return the program in which every size above 1 of an argument is dynamic; None if there is no such size.

    Equal sizes are one dimension variable of JAX. JAX raises an exception of any class if it cannot export the
    function with such sizes.
    """
    jitted, arrays = _flat(function, arguments)
    if all(size <= 1 for array in arrays for size in array.shape):
        return None
    scope = export.SymbolicScope()
    specifications = []
    for array in arrays:
        sizes = ", ".join(f"s{size}" if size > 1 else str(size) for size in array.shape)
        specifications.append(jax.ShapeDtypeStruct(export.symbolic_shape(sizes, scope=scope), array.dtype))
    exported = export.export(jitted, platforms=["cpu"])(*specifications)
    with mlir.make_ir_context():
        text = ir.Module.parse(exported.mlir_module()).operation.get_asm(enable_debug_info=False)
    return _with_checks(text, arrays, exported.call(*arrays), is_dynamic=True)


def _flat(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, list[Array]]:
    """Return a jitted function of the arrays in `arguments` with a flat tuple of results, and these arrays."""
    leaves, tree = jax.tree.flatten(tuple(arguments))
    arrays = [np.asarray(leaf, jax.dtypes.canonicalize_dtype(jax.dtypes.result_type(leaf))) for leaf in leaves]

    def main(*leaves: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(function(*jax.tree.unflatten(tree, leaves))))

    return jax.jit(main, keep_unused=True), arrays


def _with_checks(text: str, arguments: Sequence[Array], results: Sequence[Any], *, is_dynamic: bool) -> Program:
    """Return the module `text` with a @main that takes its arguments from @inputs and compares with @expected."""
    main = _MAIN.search(text)
    if main is None:
        raise ValueError(f"unexpected form of @main in the text of JAX:\n{text}")
    wanted = [np.asarray(result) for result in results]
    inputs, input_types = _constants("inputs", arguments, is_dynamic=is_dynamic)
    expected, expected_types = _constants("expected", wanted, is_dynamic=False)

    def named(text: str) -> str:
        """Return `text` with the results of @inputs instead of the arguments of @main."""
        return re.sub(r"%arg(\d+)\b", lambda match: _value("inputs", int(match[1]), len(arguments), match[0]), text)

    values, types = named(main["values"]), main["types"]
    lines = [f"  func.func public @main() -> ({types}) {{"]
    for name, called_types in (("inputs", input_types), ("expected", expected_types)):
        count = f":{len(called_types)}" if len(called_types) > 1 else ""
        if called_types:
            lines.append(f"    %{name}{count} = call @{name}() : () -> ({', '.join(called_types)})")
    lines += named(main["body"]).splitlines()
    programs = []
    for is_loose in (False, True):
        checks = []
        for index, (value, type_) in enumerate(zip(values.split(", "), types.split(", "), strict=True)):
            kind, tolerance = _check(wanted[index], is_loose)
            operands = f"{value}, {_value('expected', index, len(wanted))}"
            check_types = f"({type_}, {expected_types[index]})"
            attributes = f"{{has_side_effect = true{tolerance}}}"
            checks.append(f"    stablehlo.custom_call @check.{kind}({operands}) {attributes} : {check_types} -> ()")
        new = "\n".join([*lines, *checks, f"    return {values} : {types}", "  }", inputs, expected, ""])
        programs.append(text[: main.start()] + new + text[main.end() :])
    return Program(*programs)


def _check(wanted: Array, is_loose: bool) -> tuple[str, str]:
    """Return the name of the check for an expected array, and the text of its attribute for a tolerance."""
    kind = jax.dtypes.issubdtype
    if not kind(wanted.dtype, np.inexact):
        return "expect_eq", ""
    if not is_loose:
        return "expect_close", ""
    sizes = np.abs(wanted.astype(np.complex128 if kind(wanted.dtype, np.complexfloating) else np.float64))
    largest = np.max(sizes, initial=0.0, where=np.isfinite(sizes))
    units = NARROW_ROUNDING_UNITS if wanted.dtype.itemsize == 2 else ROUNDING_UNITS
    tolerance = units * float(jax.numpy.finfo(wanted.dtype).eps) * largest
    return "expect_almost_eq", f", tolerance = {tolerance:.9e} : f64"


def _value(name: str, index: int, count: int, other: str = "") -> str:
    """Return the text that refers to one of `count` results of a call; `other` if there are not as many."""
    if index >= count:
        return other
    return f"%{name}#{index}" if count > 1 else f"%{name}"


def _constants(name: str, arrays: Sequence[Array], *, is_dynamic: bool) -> tuple[str, list[str]]:
    """Return a private function that returns arrays, and their types; with `is_dynamic`, sizes above 1 are hidden."""
    lines, types = [], []
    with mlir.make_ir_context(), ir.Location.unknown():
        for index, array in enumerate(arrays):
            attribute = mlir.ir_attribute(array)
            type_ = str(attribute.type)
            if is_dynamic and any(size > 1 for size in array.shape):
                element = type_.removesuffix(">").split("x", array.ndim)[-1]
                type_ = f"tensor<{''.join('?x' if size > 1 else f'{size}x' for size in array.shape)}{element}>"
                lines.append(f"    %{index} = flow.tensor.dynamic_constant {attribute} -> {type_}")
            else:
                lines.append(f"    %{index} = stablehlo.constant {attribute}")
            types.append(type_)
    values = ", ".join(f"%{index}" for index in range(len(arrays)))
    lines.append(f"    return {values} : {', '.join(types)}" if arrays else "    return")
    head = f"  func.func private @{name}() -> ({', '.join(types)}) {{"
    return "\n".join([head, *lines, "  }"]), types
