"""Functions of programs inside JAX computations: XLA calls them on its own threads, without Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch._core.procedure import Procedure
from pydispatch._core.process_lock import process_lock
from pydispatch._core.target import Target, xla_handler, xla_has
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.gradients import Gradient, LoadedFunction, loaded
from pydispatch.integrations.interface import argument_label, array_of_rank_0, check_types, result_shapes
from pydispatch.integrations.kernel_batches import KernelBatches
from pydispatch.packages import importing

_registered: set[str] = set()  # names of calls that XLA has a handler for
_lock = process_lock()  # guards `_registered` and `_callables`
# Functions that are not closed. This keeps them alive, as compiled computations call them but have no reference.
_callables: set[JaxFunction] = set()


def to_jax(function: Any, name: str = "") -> JaxFunction:
    """Return a callable for use in JAX functions that calls a function of a program.

    The callable takes arrays of the function's types and shapes, by position or by name, also inside `jax.jit`, loops
    and `jax.vmap`. `jax.vmap` calls a kernel once for a whole batch, if no scalar is batched and every array that the
    kernel writes is. It calls any other function once for each element.
    The callable has the derivative that `pydispatch.vjp` sets; `jax.custom_vjp` can replace it. Program and callable
    stay alive until `close`, since compiled computations may call them at any time.

    Args:
        function: Function of a program on the CPU, or a kernel or program in Python, which is compiled for this CPU.
        name: Name of the call in XLA programs and errors; "pydispatch.<function>" by default.

    Raises:
        InvalidArgumentError: The object is no such function, its program is closed, or XLA lacks an element type.
    """
    callee = loaded(function)
    return JaxFunction(callee, name or f"pydispatch.{callee.function.name}")


class JaxFunction:
    """Function of a program as a JAX function; see `to_jax`.

    A call becomes a custom call of XLA, whose C function runs the program. `jax.grad` and `jax.vmap` use the rules for
    derivatives and batches that the function has.
    """

    def __init__(self, callee: LoadedFunction, name: str) -> None:
        """Register the function with XLA, and its derivative if it has one.

        Args:
            callee: The function, its derivative, and its versions that compute a batch.
            name: Name of the call in XLA programs.

        Raises:
            InvalidArgumentError: XLA cannot pass the type of an argument or result.
        """
        with importing("to_jax", "jax"):
            import jax
        self._jax = jax
        self._function = function = callee.function
        self._name = name
        # XLA passes numbers, which are values outside of tensors, as arrays without axes of at most 64 bits.
        check_types(function, lambda kind, is_number: xla_has(kind.word) and not (is_number and kind.bits > 64), "XLA")
        self._target = Target(function)
        with _lock:
            if name not in _registered:
                jax.ffi.register_ffi_target(name, xla_handler, platform="cpu")
                _registered.add(name)
            _callables.add(self)
        gradient = callee.gradient
        self._rule = None if gradient is None else JaxFunction(gradient.rule, f"{name}.vjp")
        self._batches = callee.batches
        # `_run` is the call with the rule for jax.vmap, if there is one; `_call` is `_run` with the derivative.
        self._run = self._bind_call if self._batches is None else self._batchable(self._batches)
        self._call = self._run if gradient is None else self._differentiable(gradient)

    def close(self) -> None:
        """Release the program. Computations that were compiled with this callable then fail when they call it."""
        self._target.close()
        for other in (self._rule, self._batches):
            if other is not None:
                other.close()
        with _lock:
            _callables.discard(self)

    def __repr__(self) -> str:
        return f"<{self._name}: {self._function.text()} for JAX>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function in a JAX computation, with arguments by position or by name."""
        function = self._function
        if len(args) > len(function.inputs):
            raise InvalidArgumentError(
                f"@{function.name} has {len(function.inputs)} arguments, got {len(args)}: {function.text()}"
            )
        return self._call(*[self._array(i, value) for i, value in enumerate(function.arranged(args, named))])

    def _differentiable(self, gradient: Gradient) -> Any:
        """Return the call as a function of JAX whose derivative `self._rule` computes.

        For y = f(a, b), the rule of a derivative with the operands (0, 3) and the positions (0,) is called as
        rule(a, dy). Its result is the gradient of a; b has none, so `backward` returns (da, None).

        Args:
            gradient: Its `operands` are the values that the rule takes, as indices into (a, b, y, dy): the arguments,
                the results and the gradients of the results. Its `positions` are the arguments whose gradients the rule
                returns.
        """
        call, rule = self._jax.custom_vjp(self._run), self._rule
        assert rule is not None
        count = len(self._function.inputs)

        def forward(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
            """Return the results of a call, and what `backward` needs: the arguments and the results."""
            results = self._run(*arrays)
            return results, (*arrays, *_items(results))

        def backward(saved: tuple[Any, ...], gradients: Any) -> tuple[Any, ...]:
            """Return the gradient of each argument, or None, from the gradients of the results."""
            results = saved[count:]  # after the arguments
            # Arguments, results, and gradients of the results: the indices in `gradient.operands` count these.
            known = (*saved, *map(self._zeros_if_missing, results, _items(gradients)))
            computed = rule(*(known[operand] for operand in gradient.operands))
            gradient_of = dict(zip(gradient.positions, _items(computed), strict=True))
            return tuple(gradient_of.get(i) for i in range(count))

        call.defvjp(forward, backward)
        return call

    def _zeros_if_missing(self, result: Any, gradient: Any) -> Any:
        """Return the gradient of a result: zeros of its shape for an integer result, of which JAX has no gradient."""
        return self._jax.numpy.zeros_like(result) if gradient.dtype == self._jax.dtypes.float0 else gradient

    def _batchable(self, batches: KernelBatches) -> Any:
        """Return the call as a function of JAX with a rule for `jax.vmap`: one call for a batch if the kernel allows.

        Example: f(x, w) takes x of the shape (8,) and w of the shape (3,). `jax.vmap(f, (0, None))` of an x of the
        shape (32, 8) then calls another version of the kernel once, which takes x as (32, 8) and w as (3,). If
        `batches` has no such version, f is called 32 times.
        """
        run = self._jax.custom_batching.custom_vmap(self._bind_call)

        def over_batch(_: int, batched: Sequence[bool], *arrays: Any) -> tuple[Any, Any]:
            """Return the results for all elements of a batch, and True for each: it has a leading dimension.

            The size of the batch, which JAX passes first, is not used. batched: for each argument, whether it has a
            leading dimension.
            """
            # All versions have the same name in XLA programs. The C function that XLA calls for it finds the version by
            # the number that `_bind_call` passes.
            operator = batches.operator(
                batched, lambda function: JaxFunction(LoadedFunction(function), f"{self._name}.batch")
            )
            if operator is not None:
                call = operator._bind_call  # one call of a kernel that takes the whole batch
            else:
                call = self._jax.vmap(self._bind_call, tuple(0 if is_batched else None for is_batched in batched))
            results = call(*arrays)
            return results, self._jax.tree_util.tree_map(lambda _: True, results)

        run.def_vmap(over_batch)
        return run

    def _bind_call(self, *arrays: Any) -> Any:
        """Bind the call of the function into the JAX computation that is being traced, and return its results.

        The call becomes a custom call of XLA with the name `self._name`. Its attribute `function` is the number by
        which the C function of the custom call finds the program's function.

        Under `jax.vmap` JAX calls the function once for each element of a batch. A procedure, which has state, raises
        an error there (`vmap_method=None`).
        """
        function = self._function
        shapes = self._shapes(
            [None if value.shape is None else a.shape for a, value in zip(arrays, function.inputs, strict=True)]
        )
        results = tuple(
            self._jax.ShapeDtypeStruct(shape, self._jax_dtype(f"result {i}", value.dtype))
            for i, (shape, value) in enumerate(zip(shapes, function.outputs, strict=True))
        )
        has_state = isinstance(function, Procedure)
        call = self._jax.ffi.ffi_call(
            self._name, results, vmap_method=None if has_state else "sequential", has_side_effect=has_state
        )
        returned = call(*arrays, function=np.int64(self._target.number))
        if not returned:
            return None
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _array(self, position: int, value: Any) -> Any:
        """Return an argument as an array of JAX, of the type and rank that the function has."""
        function = self._function
        wanted = function.inputs[position]
        where = argument_label(function, position)
        dtype = self._jax_dtype(where, wanted.dtype)
        if wanted.shape == ():  # a tensor of rank 0; a number has the shape None
            converted = array_of_rank_0(function, position, value)
            value = value if converted is None else converted
        is_number = wanted.shape is None and isinstance(value, (int, float))  # of Python: it gets the wanted type
        array = self._jax.numpy.asarray(value, dtype if is_number else None)
        rank = len(wanted.shape or ())
        if array.dtype != dtype or array.ndim != rank:
            raise InvalidArgumentError(f"{where}: expected {wanted.type}, got {array.dtype}{list(array.shape)}")
        return array

    def _jax_dtype(self, where: str, dtype: Any) -> Any:
        """Return `dtype`. Raise InvalidArgumentError if it has 64 bits and JAX is configured without such types.

        `where` is the argument or result in the error.
        """
        if self._jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise InvalidArgumentError(
                f'{where} is {dtype.name}, which JAX has only with jax.config.update("jax_enable_x64", True)'
            )
        return dtype

    def _shapes(self, argument_shapes: Sequence[tuple[Any, ...] | None]) -> list[tuple[Any, ...]]:
        """Return the shapes of the results for arguments of these shapes.

        Example: for f(x: float32[n, 4], k: int32) -> float32[n * 4], the argument shapes [(3, 4), None] give [(12,)].

        Args:
            argument_shapes: Shape of each argument; None for a number, whose value is not known while JAX traces.

        Raises:
            InvalidArgumentError: The shapes do not fit each other or the function, or the size of a result depends on
                the values of arguments, so that it is known only after the call.
        """
        function = self._function
        shapes = result_shapes(function, self._target, argument_shapes, _require)
        # The sizes that `result_shapes` could not compute, as the interface of the function writes them.
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


def _items(results: Any) -> tuple[Any, ...]:
    """Return the results of a call as a tuple; a call with one result returns it without a tuple."""
    return results if isinstance(results, tuple) else (results,)


def _require(holds: Any, text: str) -> None:
    """Raise InvalidArgumentError with a text unless a condition holds."""
    if not holds:
        raise InvalidArgumentError(text)
