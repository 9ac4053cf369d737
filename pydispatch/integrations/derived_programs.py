"""Programs that compute the gradients of other programs, by reverse mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydispatch.derivatives.cotangents import fits, with_shape
from pydispatch.derivatives.reverse import differentiated
from pydispatch.derivatives.stated import recorded
from pydispatch.errors import InvalidArgumentError
from pydispatch.graph.values import Tensor
from pydispatch.integrations.python_programs import TracedProgram
from pydispatch.operations import shapes
from pydispatch.patterns.types import TensorType
from pydispatch.programs.array import arrays_of
from pydispatch.programs.trace import Trace, current


class DerivedProgram(TracedProgram):
    """Program of the gradients of another program, the primal, compiled together with the primal.

    Attributes:
        primal: The program whose gradients are computed.
        wrt: Names of the arguments that have gradients, in the order of the gradients.
        suffix: End of the program's name, after that of the primal.
        has_value: Whether the results begin with that of the primal.
    """

    suffix = "grad"
    has_value = False

    def __init__(self, primal: TracedProgram, wrt: Sequence[str] | str | None = None) -> None:
        """Create the program. wrt: names, one name, or None for all arrays of floats, as for `grad`."""
        self.primal, self._chosen = primal, wrt
        self.wrt = names_with_gradients(primal, wrt)
        super().__init__(primal.function, primal.statics)
        self.name = self.__name__ = f"{primal.name}_{self.suffix}"

    def _parameters(self) -> dict[str, TensorType | None]:
        """Return the parameters of this program: those of the primal. A static one has the type None."""
        return self.primal.parameters

    def specialize(self, **statics: Any) -> DerivedProgram:
        """Return the derived program of the primal with values for static parameters."""
        return type(self)(self.primal.specialize(**statics), self._chosen)

    def python(self, *args: Any, **named: Any) -> Any:
        """Raise InvalidArgumentError: there is no Python function of the gradients."""
        raise InvalidArgumentError(
            f"program '{self.name}' is derived and has no Python function; run that of '{self.primal.name}'"
        )

    def _values_of(self, trace: Trace, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all parameters by name: static parameters, positional and keyword arguments."""
        repeated = [name for name in list(self.parameters)[: len(args)] if name in named]
        if repeated:
            raise trace.fail(
                f"argument '{repeated[0]}' of program '{self.name}' is passed by position and by name",
                "pass each argument once",
            )
        values = {**self.statics, **dict(zip(self.parameters, args, strict=False)), **named}
        lacks_argument = any(name not in values for name in self.parameters)
        # With more values than parameters, one of them is passed under a name that is no parameter.
        if lacks_argument or len(values) > len(self.parameters) or len(args) > len(self.parameters):
            names = ", ".join(self.parameters)
            raise trace.fail(f"program '{self.name}' takes the arguments {names}, got {len(args) + len(named)}")
        return values

    def traced(self, *args: Any, **named: Any) -> Any:
        """Record a call of this program in the program that is being traced: the primal's operations, then those of its
        gradients.

        Return a tuple of the gradients in the order of `wrt`, after the result of the primal if `has_value`. A single
        array is returned by itself, unless the user has passed a list as `wrt`. For the primal loss(x, w), wrt="w"
        gives dw, ["w"] gives (dw,), and with `has_value` both give (value, dw).

        args, named: arguments of the call. Raise CompileError for wrong arguments, and for arrays that have no
        gradient.
        """
        trace = current()
        assert trace is not None
        # Check the arguments.
        values = self._values_of(trace, args, named)
        inputs = [trace.tensor_of(values[name]) for name in self.wrt]
        for name, tensor in zip(self.wrt, inputs, strict=True):
            if not tensor.dtype.is_float:
                raise trace.fail(
                    f"argument '{name}' of '{self.primal.name}' is {tensor}, which has no gradient",
                    "only floats have gradients: convert the array, x.astype(numpy.float32)",
                )

        def run_primal(tensors: list[Tensor]) -> list[Tensor]:
            """Record a call of the primal, and return its results. `tensors` replace the arguments named in `wrt`."""
            replaced = dict(zip(self.wrt, arrays_of(trace, tensors), strict=True))
            arguments = {name: replaced.get(name, values[name]) for name in self.primal.parameters}
            returned = self.primal.named(trace, self._recorded(trace, arguments))
            return [trace.tensor_of(value) for value in returned.values()]

        # `differentiated` calls `run_primal`. It passes the results to the lambda, which returns their cotangents.
        results, gradients = differentiated(trace, inputs, run_primal, lambda of: self._cotangents(trace, of, values))
        arrays = arrays_of(trace, [*(results if self.has_value else ()), *gradients])
        is_single = len(arrays) == 1 and not isinstance(self._chosen, (list, tuple))
        return arrays[0] if is_single else tuple(arrays)

    def _recorded(self, trace: Trace, arguments: dict[str, Any]) -> Any:
        """Record a call of the primal, and return its results.

        `recorded` also handles a derivative that the user has stated for the primal: it marks the call, so that reverse
        mode applies that derivative.
        """
        return recorded(trace, self.primal, args=(), named=arguments)

    def _cotangents(self, trace: Trace, results: list[Tensor], values: dict[str, Any]) -> list[Tensor]:
        """Return [1], the cotangent of the float that the primal returns: cotangents of arguments are then gradients.

        values: arguments of this program by name. Raise CompileError if the primal returns anything else.
        """
        if len(results) != 1 or results[0].rank or not results[0].dtype.is_float:
            shown = ", ".join(map(str, results))
            raise trace.fail(
                f"program '{self.primal.name}' returns {shown}; a gradient is that of one float of rank 0",
                "add the elements up, x.sum(), or pass the gradients of the results: pydispatch.vjp(program)",
            )
        return [shapes.full(trace, 1, (), results[0].dtype)]

    def named(self, trace: Trace, returned: Any) -> dict[str, Any]:
        """Return the results of this program by name: `value` for that of the primal, if `has_value`, and `dx` for the
        gradient of the argument x. returned: what `traced` has returned.
        """
        values = returned if isinstance(returned, tuple) else (returned,)
        names = [*(["value"] if self.has_value else []), *(f"d{name}" for name in self.wrt)]
        return dict(zip(names, values, strict=True))


class DerivedWithValue(DerivedProgram):
    """Program that returns the result of another program, and its gradients."""

    suffix = "value_and_grad"
    has_value = True


class Pullback(DerivedProgram):
    """Vector-Jacobian product of another program, the primal: from the arguments of the primal and the gradients of its
    results (cotangents, often those of a loss) it computes the gradients of arguments.

    `pydispatch.vjp(program)` returns one. For the primal `hidden(x, w)`, which returns one array, it has the parameters
    (x, w, dresult) and returns (dx, dw). The base class computes the gradients from the cotangents of the results:
    here they are arguments, not 1 as for `grad`.
    """

    suffix = "vjp"

    def _parameters(self) -> dict[str, TensorType | None]:
        """Return the parameters of the primal, and after them one for the gradient of each result: `dresult` for
        `result`, or `dresult_` if the primal has a parameter `dresult`. Set `_seeds` to the names of the latter.

        The primal is the program that is differentiated. Raise InvalidArgumentError if it has a complex result.
        """
        parameters = dict(self.primal.parameters)
        self._seeds = []  # names of the parameters that are gradients of results, in the order of the results
        for result, type in self.primal.result_types().items():
            if type.dtype.startswith("c"):
                raise InvalidArgumentError(
                    f"result '{result}' of program '{self.primal.name}' is complex, which has no gradient; return its "
                    f"real and its imaginary part"
                )
            name = f"d{result}"
            while name in parameters:
                name += "_"
            parameters[name] = type
            self._seeds.append(name)
        return parameters

    def _recorded(self, trace: Trace, arguments: dict[str, Any]) -> Any:
        """Record the operations of the primal, and return its results.

        Unlike the base class, ignore a derivative that the user has stated for the primal: a pullback always
        differentiates the operations.
        """
        return self.primal.traced(**arguments)

    def _cotangents(self, trace: Trace, results: list[Tensor], values: dict[str, Any]) -> list[Tensor]:
        """Return the arguments that are gradients of results, in the order of the results.

        values: arguments of this program by name. Raise CompileError if one does not have the type of its result.
        """
        seeds = []
        for name, result in zip(self._seeds, results, strict=True):
            seed = trace.tensor_of(values[name], result.dtype)
            if not fits(seed, result):
                raise trace.fail(f"'{name}' of program '{self.name}' is {seed}, and the result is {result}")
            seeds.append(with_shape(trace, seed, result.shape, f"'{name}' of program '{self.name}'"))
        return seeds


def names_with_gradients(program: TracedProgram, wrt: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the names of the arguments of `program` that have gradients: those in `wrt`, all arrays of floats if None.

    Raise InvalidArgumentError for other objects than programs, and for names that are no such arrays or are repeated.
    """
    if not isinstance(program, TracedProgram):
        raise InvalidArgumentError(f"expected a program (@pydispatch.program), got {program!r}")
    floats = [
        name for name, type in program.parameters.items() if type is not None and type.shape is not None
        and type.dtype.startswith(("f", "bf"))
    ]  # fmt: skip
    if wrt is None:
        names = floats
    else:
        names = [wrt] if isinstance(wrt, str) else list(wrt)
    has_unknown_name = not set(names) <= set(floats)
    has_repeated_name = len(set(names)) < len(names)
    if not names or has_unknown_name or has_repeated_name:
        raise InvalidArgumentError(
            f"wrt: expected names of arrays of floats among the arguments of '{program.name}' "
            f"({', '.join(floats) or 'it has none'}), got {wrt if wrt is not None else names!r}; other arguments have "
            f"no gradient"
        )
    return tuple(names)


def grad(program: TracedProgram, /, wrt: Sequence[str] | str | None = None) -> DerivedProgram:
    """Return the program of the gradients of a program that returns one float.

    It takes the arguments of the program. The program and its derivative are compiled as one, for every target; inside
    of another program a call becomes a part of that.

    Args:
        program: Program (`@pydispatch.program`) that returns one float of rank 0, such as a loss.
        wrt: Name or names of the arrays of floats among its arguments whose gradients are returned; all of them by
            default. A name gives an array, a list a tuple.

    Raises:
        InvalidArgumentError: `program` is no program, or `wrt` names other arguments.
        CompileError: An operation has no derivative, or the program returns something else; raised by the first call.

    Example:
        ```python
        gradient = pydispatch.grad(loss, wrt=["w1", "w2"])
        dw1, dw2 = gradient(x, w1, w2)
        ```
    """
    return DerivedProgram(program, wrt)


def value_and_grad(program: TracedProgram, /, wrt: Sequence[str] | str | None = None) -> DerivedProgram:
    """Return the program of the result and the gradients of a program that returns one float.

    Its results are those of the program and of `grad`, one after the other: `value, dw1, dw2`. Arguments and errors are
    those of `grad`.
    """
    return DerivedWithValue(program, wrt)
