"""`pydispatch.imported`: a function that kernels and programs call and that is linked when a program is loaded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels import functions
from pydispatch.kernels.imported import ImportedSource
from pydispatch.kernels.kernel import KernelSource
from pydispatch.patterns.types import DType
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import dtype_from
from pydispatch.programs.launch import launch

MAX_PARAMETERS = 3
"""Maximum number of parameters of an import that a program calls on arrays: there is a kernel below for each number."""


class Imported(ImportedSource):
    """Declaration of an external function that kernels call; it is linked by name when a program is loaded.

    A kernel calls it with numbers, a program with arrays of one shape, element by element. Any other call runs the
    Python function that declares it.

    `imported` creates it. Calls in the source of a kernel do not reach `__call__`: the kernel is compiled from its
    syntax tree.
    """

    def __call__(self, *args: Any) -> Any:
        """Call the import for each element of arrays of a program, and return an array of their shape. Without such
        arrays call the Python function.

        For the import `power(x: f32, y: f32) -> f32` and an array x of the shape (2, 3), `power(x, 2.0)` records a
        launch of `_kernel` on x with the shape (6,), an array of six 2.0 and a result of six elements, which is
        returned with the shape (2, 3).

        `args` are arrays of the program, all of one shape, and numbers, which are passed for every element. Raise
        CompileError for another number of arguments than parameters, and for arrays of different shapes.
        """
        first = next((argument for argument in args if isinstance(argument, Array)), None)
        if first is None:
            return self.function(*args)
        trace = first.program_trace
        if len(args) != len(self.parameters):
            raise trace.fail(f"import '{self.name}' takes {len(self.parameters)} arguments, got {len(args)}")
        arrays: list[Any] = [
            argument if isinstance(argument, Array) else np.full_like(first, argument, dtype=_dtype(type))
            for argument, type in zip(args, self.parameters, strict=True)
        ]
        if any(argument.shape != first.shape for argument in arrays):
            shapes = ", ".join(str(tuple(argument.shape)) for argument in arrays)
            raise trace.fail(
                f"import '{self.name}' is called with arrays of different shapes: {shapes}", "numpy.broadcast_to"
            )
        flat = [argument.reshape(-1) for argument in arrays]  # `_kernel` takes arrays of one axis
        result: Any = np.zeros_like(flat[0], dtype=_dtype(self.result))
        launch(self._kernel, [*flat, result], grid=None)  # writes into `result`
        return result.reshape(first.shape)

    @functools.cached_property
    def _kernel(self) -> KernelSource:
        """Kernel that calls the import for each element of arrays of one axis: out[i] = import(x0[i], x1[i], ...).

        Programs launch it on their arrays. It is the one of `_TEMPLATES` for the number of parameters, with the types
        of the import: for `log2(x: f32) -> f32`, the kernel of `_unary` with the annotations x0: f32["n"] and
        out: f32["n"].

        Raise InvalidArgumentError if the import has more than MAX_PARAMETERS parameters.
        """
        count = len(self.parameters)
        if count > MAX_PARAMETERS:
            raise InvalidArgumentError(
                f"import '{self.name}': programs call imports of up to {MAX_PARAMETERS} parameters; call it in a kernel"
            )
        template = _TEMPLATES[count - 1](self)
        names = [*(f"x{index}" for index in range(count)), "out"]
        types = (*self.parameters, self.result)  # words such as "f32"
        # Each parameter is an array with one axis of symbolic size n.
        template.__annotations__ = {name: DType(type)["n"] for name, type in zip(names, types, strict=True)}
        template.__name__ = self.name
        return KernelSource(template, workgroup=(256,), grid=None)  # the grid covers `out`


def _dtype(name: str) -> Any:
    """Return the NumPy dtype of a type such as "f32"."""
    return dtype_from(DType(name)).numpy


# Kernels that call the import f for each element. `_kernel` replaces the annotations `Any` by types. Invocations of the
# last workgroup may be beyond the last element.


def _unary(f: Any) -> Any:
    """Return the kernel that applies an import `f` with one parameter: out[i] = f(x0[i])."""

    def applied(x0: Any, out: Any) -> None:
        i = functions.global_id(0)
        if i < out.shape[0]:
            out[i] = f(x0[i])

    return applied


def _binary(f: Any) -> Any:
    """Return the kernel that applies an import `f` with two parameters: out[i] = f(x0[i], x1[i])."""

    def applied(x0: Any, x1: Any, out: Any) -> None:
        i = functions.global_id(0)
        if i < out.shape[0]:
            out[i] = f(x0[i], x1[i])

    return applied


def _ternary(f: Any) -> Any:
    """Return the kernel that applies an import `f` with three parameters: out[i] = f(x0[i], x1[i], x2[i])."""

    def applied(x0: Any, x1: Any, x2: Any, out: Any) -> None:
        i = functions.global_id(0)
        if i < out.shape[0]:
            out[i] = f(x0[i], x1[i], x2[i])

    return applied


_TEMPLATES = (_unary, _binary, _ternary)
"""Functions that create the kernel of an import with one, two or three parameters."""


@overload
def imported(function: Callable[..., Any], /) -> Imported: ...
@overload
def imported(symbol: str, /) -> Callable[[Callable[..., Any]], Imported]: ...
def imported(declared: Callable[..., Any] | str, /) -> Any:
    """Declare a function of numbers that plugins, libraries or `device.add_import` define (docs/plugins.md).

    `@pydispatch.imported` links by the name of the decorated function, `@pydispatch.imported("symbol")` by the symbol.
    Types of parameters and of the result are numbers: `Annotated[float, pydispatch.f32]`. The body is what
    `program.python` computes. Raise InvalidArgumentError for other types.
    """
    if isinstance(declared, str):
        return lambda function: Imported(function, declared)
    return Imported(declared, symbol="")  # the name of the function
