"""Functions of programs inside computations of JAX: XLA calls them on its own threads, without Python."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch._core.procedure import Procedure
from pydispatch._core.public import PublicFunction
from pydispatch._core.target import Target, xla_handler, xla_has
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.interface import check_types, public_function, result_shapes
from pydispatch.packages import importing

_registered: set[str] = set()
_lock = threading.Lock()
_callables: set[JaxFunction] = set()  # until they are closed: compiled computations do not hold them


def to_jax(function: Any, name: str = "") -> JaxFunction:
    """A callable for functions of JAX that calls `function`, a function of a program on the CPU.

    name: of the call in XLA's programs and errors, "pydispatch.<function>" by default. The callable takes arrays of
    the function's types and shapes, in order or by name, also inside `jax.jit`, loops and `jax.vmap`, which calls it
    for one element after another. It cannot be differentiated; `jax.custom_vjp` gives it a derivative. Program and
    callable stay alive until `close`: compiled computations may call them at any time.

    Raises InvalidArgumentError for another object, a closed program and element types that XLA does not have.
    """
    function = public_function(function)
    return JaxFunction(function, name or f"pydispatch.{function.name}")


class JaxFunction:
    """A function of a program as a function of JAX; see `to_jax`."""

    def __init__(self, function: PublicFunction, name: str) -> None:
        with importing("to_jax", "jax"):
            import jax
        self._jax = jax
        self._function = function
        self._name = name
        check_types(function, lambda kind, number: xla_has(kind.word) and not (number and kind.bits > 64), "XLA")
        self._target = Target(function)
        with _lock:
            if name not in _registered:
                jax.ffi.register_ffi_target(name, xla_handler, platform="cpu")
                _registered.add(name)
            _callables.add(self)

    def close(self) -> None:
        """Lets the program go. Computations that were compiled with this callable fail when they come to it."""
        self._target.close()
        with _lock:
            _callables.discard(self)

    def __repr__(self) -> str:
        return f"<{self._name}: {self._function.text()} for JAX>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        function = self._function
        if len(args) > len(function.inputs):
            raise InvalidArgumentError(
                f"@{function.name} has {len(function.inputs)} arguments, got {len(args)}: {function.text()}"
            )
        arrays = [self._array(i, value) for i, value in enumerate(function.arranged(args, named))]
        shapes = self._shapes(
            [None if value.shape is None else a.shape for a, value in zip(arrays, function.inputs, strict=True)]
        )
        results = tuple(
            self._jax.ShapeDtypeStruct(shape, self._usable(f"result {i}", value.dtype))
            for i, (shape, value) in enumerate(zip(shapes, function.outputs, strict=True))
        )
        has_state = isinstance(function, Procedure)
        call = self._jax.ffi.ffi_call(
            self._name, results, vmap_method=None if has_state else "sequential", has_side_effect=has_state
        )
        made = call(*arrays, function=np.int64(self._target.number))
        return made[0] if len(made) == 1 else tuple(made) or None

    def _array(self, place: int, value: Any) -> Any:
        """An argument as an array of JAX, of the type and rank that the function has."""
        function = self._function
        wanted = function.inputs[place]
        where = f"argument {place}" + (f" '{wanted.name}'" if wanted.name else "")
        dtype = self._usable(where, wanted.dtype)
        is_number = wanted.shape is None and isinstance(value, (int, float))
        array = self._jax.numpy.asarray(value, dtype if is_number else None)
        rank = len(wanted.shape or ())
        if array.dtype != dtype or array.ndim != rank:
            raise InvalidArgumentError(
                f"@{function.name}: {where}: expected {wanted.type}, got {array.dtype}{list(array.shape)}"
            )
        return array

    def _usable(self, where: str, dtype: Any) -> Any:
        if self._jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise InvalidArgumentError(
                f"@{self._function.name}: {where} is {dtype.name}, which JAX has only with "
                'jax.config.update("jax_enable_x64", True)'
            )
        return dtype

    def _shapes(self, given: Sequence[tuple[Any, ...] | None]) -> list[tuple[Any, ...]]:
        """The shapes of the results for those of the arguments."""
        function = self._function
        shapes = result_shapes(function, self._target, given, _require)
        open_sizes = {
            str(size)
            for value, shape in zip(function.outputs, shapes, strict=True)
            for size, known in zip(value.shape or (), shape, strict=True)
            if known is None
        }
        if open_sizes:
            raise InvalidArgumentError(
                f"@{function.name}: XLA needs the sizes of results before a call, and these are decided by it: "
                f"{', '.join(sorted(open_sizes))} in {function.text()}"
            )
        return shapes


def _require(holds: Any, text: str) -> None:
    if not holds:
        raise InvalidArgumentError(text)
