"""Program written in Python, before it is compiled: a function over arrays that is traced into a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch.errors import CompileError, InvalidArgumentError
from pydispatch.faults import faults_as_internal_errors
from pydispatch.graph.builder import Input
from pydispatch.graph.dtypes import DType as ElementType
from pydispatch.graph.sizes import Expr, Size, UndecidedError
from pydispatch.ir.core.locations import CodeLoc
from pydispatch.kernels.annotations import Static, type_of
from pydispatch.locations import definition_line
from pydispatch.patterns.closures import closure_of
from pydispatch.patterns.types import DType, TensorType
from pydispatch.patterns.types import Size as PatternSize
from pydispatch.programs import functions as _functions  # adds the handlers of NumPy's functions to Array
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import dtype_from
from pydispatch.programs.retrace import require_same
from pydispatch.programs.trace import Copied, Trace, current


class ProgramSource:
    """Program before compilation: a function over arrays.

    statics: values of static parameters by name, which are known at compile time. `specialize` may add missing ones.
    """

    primal: Any = None
    """Program whose gradients reverse mode computes by this one; None for a program that the user has written."""

    def __init__(self, function: Callable[..., Any], statics: Mapping[str, Any] | None = None) -> None:
        """Read the parameters of `function`. Raise InvalidArgumentError if it is no function of Python."""
        if not inspect.isfunction(function):
            raise InvalidArgumentError(
                f"program: expected a function, got {function!r}; write @pydispatch.program over one"
            )
        self.function, self.name = function, function.__name__
        self.statics = dict(statics or {})
        self.has_state = False
        """Whether the traced program has state that calls change."""
        # (program that computes gradients, names of the arguments that these are gradients of), as `pydispatch.vjp`
        # states them; None without.
        self.derivative: Any = None
        self.parameters = self._parameters()

    @property
    def stated_derivative(self) -> Any:
        """`derivative` if the user has stated it; None if there is none, or if reverse mode has computed it.

        A gradient program that reverse mode has computed for this program has this program as its `primal`.
        """
        if self.derivative is None:
            return None
        gradient_program, _ = self.derivative
        return None if gradient_program.primal is self else self.derivative

    def statics_among(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the values, by name of a parameter, that are for static parameters of this program."""
        return {name: values[name] for name, type in self.parameters.items() if type is None and name in values}

    def _annotations(self) -> dict[str, Any]:
        """Return the annotations of the function, evaluated. They may name variables of the enclosing function."""
        try:
            return inspect.get_annotations(self.function, locals=closure_of(self.function), eval_str=True)
        except NameError as error:
            raise InvalidArgumentError(f"program '{self.name}': a type is wrong: {error}") from None

    def _parameters(self) -> dict[str, TensorType | None]:
        """Return the type of each parameter by name; None for static parameters, whose values are known when compiling.

        Defaults of static parameters become their values in `statics`, unless they have one there already. Raise
        InvalidArgumentError for a parameter without a type, and for a value of a parameter that is not static.
        """
        annotations = self._annotations()
        types: dict[str, TensorType | None] = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            type = type_of(annotations.get(name))
            if type is None:
                raise InvalidArgumentError(
                    f"program '{self.name}': parameter '{name}' needs a type; write {name}: "
                    "Annotated[numpy.ndarray, pydispatch.f32['n']], or pydispatch.static for a value that is known"
                )
            if type is Static:
                if parameter.default is not parameter.empty:
                    self.statics.setdefault(name, parameter.default)
                types[name] = None
            else:
                assert isinstance(type, TensorType)
                types[name] = type
        static_names = {name for name, type in types.items() if type is None}
        unknown = next((name for name in self.statics if name not in static_names), None)
        if unknown is not None:
            raise InvalidArgumentError(f"program '{self.name}' has no static parameter '{unknown}'")
        return types

    @faults_as_internal_errors()
    def module(self, weights: str = "embed", state_names: dict[Any, str] | None = None) -> ModuleOp:
        """Trace the program and return its module.

        Args:
            weights: "embed" stores large constants in the artifact, "external" does not.
            state_names: Name of each state (`pydispatch.state`, an array that keeps its value between calls) in the
                module. States of this program without a name get one, by which this mapping is changed; programs that
                share states pass the same mapping.

        Raises:
            CompileError: The function uses something that programs lack; the error has the line.
            InvalidArgumentError: A static parameter has no value. Exceptions of the function are raised unchanged.
        """
        self._require_static_values()
        if current() is not None:
            raise InvalidArgumentError(f"program '{self.name}': a program is not compiled while another one is traced")
        state_names = {} if state_names is None else state_names
        trace = self._trace_function(weights, state_names)
        # A function with side effects, or one that draws random numbers, gives another module the second time.
        require_same(self.name, trace.module, self._trace_function(weights, state_names, trace.copies).module)
        self.has_state = trace.states is not None
        return trace.module

    def _require_static_values(self) -> None:
        """Raise InvalidArgumentError if a static parameter has no value."""
        missing = next((n for n, type in self.parameters.items() if type is None and n not in self.statics), None)
        if missing is not None:
            raise InvalidArgumentError(
                f"program '{self.name}': the static parameter '{missing}' has no value; "
                f"write {self.name}.specialize({missing}=...)"
            )

    @faults_as_internal_errors()
    def result_types(self) -> dict[str, TensorType]:
        """Trace the program, and return the types of its results by name. A size that is computed from others is None.

        Raises as `module`, and may be called while another program is traced.
        """
        self._require_static_values()
        # The module of this trace is not used, only its types.
        results = self._trace_function(weights="embed", state_names={}).results
        return {
            name: TensorType(_annotated(result.dtype), tuple(map(_annotated_size, result.shape)))
            for name, result in results.items()
        }

    def _trace_function(
        self, weights: str, state_names: dict[Any, str], copies: dict[int, Copied] | None = None
    ) -> Trace:
        """Run the function on traced arrays, and return the finished trace.

        Args:
            weights: "embed" stores large constants in the artifact, "external" does not.
            state_names: Name of each state (`pydispatch.state`) in the module; names of new states are added.
            copies: Copies of the user's arrays that an earlier trace of this function made, which this one shares; None
                for the first trace.
        """
        trace = Trace(self.function.__code__.co_filename, weights, copies, state_names)
        inputs = {name: type for name, type in self.parameters.items() if type is not None}  # None: a static parameter
        code = self.function.__code__
        # The arguments are located at the line of the definition. No instruction belongs to it: its index is -1.
        with trace.at(CodeLoc(code, instruction=-1, line=definition_line(code))):
            # The inputs become arguments of the module's function; the function in Python is called with these arrays.
            tensors = trace.begin([_input(name, type) for name, type in inputs.items()])
            arrays = {name: Array(trace, tensor) for name, tensor in zip(inputs, tensors, strict=True)}
            with trace.running():
                returned = self._run(trace, arrays)
                trace.results = {name: trace.tensor_of(tensor) for name, tensor in self.named(trace, returned).items()}
                trace.finish(self.name, trace.results)
        return trace

    def _run(self, trace: Trace, arrays: Mapping[str, Array]) -> Any:
        """Call the function. Unbounded recursion, and a comparison of sizes that depends on the call, become a
        CompileError at the innermost line of the function.
        """
        try:
            return self.traced(**arrays)
        except UndecidedError as error:
            with trace.at(_innermost_location(error, trace.filename)):
                raise trace.fail(
                    f"program '{self.name}': {error}",
                    "Python chooses once, while the program is recorded: state the size, or use np.where or "
                    "pydispatch.cond, which choose in each call",
                ) from None
        except RecursionError as error:
            with trace.at(_innermost_location(error, trace.filename)):
                raise trace.fail(
                    f"program '{self.name}' calls itself, or nests too deeply",
                    "repeat with pydispatch.loop, which is no call; split long expressions over several statements",
                ) from None

    def traced(self, *args: Any, **named: Any) -> Any:
        """Call the function with traced arrays, which records its operations in the trace that is being recorded.

        That is the trace of this program, or of a program that calls this one, which is inlined.
        """
        return self.function(*args, **{**self.statics, **named})

    def named(self, trace: Trace, returned: Any) -> dict[str, Any]:
        """Return the results of the program by name.

        The names are the keys of a dict, "result0", "result1", ... for a tuple or list, and "result" for one array.
        """
        if returned is None:
            raise trace.fail(f"program '{self.name}' returns nothing", "return an array, a tuple or a dict of arrays")
        if isinstance(returned, dict):
            return {str(name): value for name, value in returned.items()}
        if isinstance(returned, (tuple, list)):
            return {f"result{index}": value for index, value in enumerate(returned)}
        return {"result": returned}

    def mlir(self) -> str:
        """Return the program as MLIR text. Raises as `module`."""
        return str(self.module())

    def python(self, *args: Any, **named: Any) -> Any:
        """Run the undecorated function on NumPy arrays."""
        return self.function(*args, **{**self.statics, **named})

    def __repr__(self) -> str:
        """Return the name, and the parameters with their types."""
        shown = ", ".join(f"{name}: {type or 'static'}" for name, type in self.parameters.items())
        return f"<pydispatch program {self.name}({shown})>"


def _innermost_location(error: BaseException, filename: str) -> CodeLoc | str:
    """Return the location of the innermost frame in a file that an exception has passed; "" without one."""
    location: CodeLoc | str = ""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == filename:
            location = CodeLoc(code, traceback.tb_lasti, traceback.tb_lineno)
        traceback = traceback.tb_next  # the frame that this one called; the last match is the innermost
    return location


def _annotated(dtype: ElementType) -> str:
    """Return the name of an element type in annotations."""
    return "i1" if dtype.is_bool else dtype.name


def _annotated_size(size: Size) -> PatternSize:
    """Return a size as annotations state it: a number or a name; None for one that is computed from others."""
    if not isinstance(size, Expr):
        return size
    return str(size) if str(size).isidentifier() else None


def _input(name: str, type: TensorType) -> Input:
    """Return the traced input for a parameter. A size that is None, for any value, becomes "<name>_size<axis>"."""
    shape = tuple(f"{name}_size{axis}" if n is None else n for axis, n in enumerate(type.shape or ()))
    return Input(name, dtype_from(DType(type.dtype)), shape)


__all__ = ["CompileError", "ProgramSource", "_functions"]
