"""Programs written in Python that are called like functions: compiled for the device of their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydispatch.derivatives.stated import recorded
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.called_kernels import is_closed, options_of, require_open
from pydispatch.integrations.captures import Captures
from pydispatch.programs.array import Array
from pydispatch.programs.program import ProgramSource
from pydispatch.programs.trace import current
from pydispatch.runtime.buffer import Buffer


class _LoadedProgram(NamedTuple):
    """Program that is loaded on one device.

    Attributes:
        function: The compiled function.
        captures: Snapshot of the globals, closure variables and attributes that it was traced with.
    """

    function: Callable[..., Any]
    captures: Captures


class TracedProgram(ProgramSource):
    """Program that is called like a function with arrays. The first call compiles it for their device.

    `pydispatch.compile(program)` returns an artifact with a function of its name. `python` runs the undecorated
    function.
    """

    def __init__(self, function: Callable[..., Any], statics: Any = None) -> None:
        """Take the name and the docstring of `function`; `statics` has values of static parameters by name."""
        super().__init__(function, statics)
        self.__name__, self.__doc__, self.__wrapped__ = self.name, function.__doc__, function
        self._loaded: dict[str, _LoadedProgram] = {}  # by the name of the device

    def specialize(self, **statics: Any) -> TracedProgram:
        """Return the program with values for static parameters, and with the derivative that the user stated for it.

        Raise InvalidArgumentError for a name that is not a static parameter.
        """
        specialized = TracedProgram(self.function, {**self.statics, **statics})
        specialized.derivative = self.stated_derivative  # without one that reverse mode has computed
        return specialized

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the program with arrays, and return its results. A call inside another program becomes a part of that.

        The first call on a device compiles the program for it. The program is compiled again if a value that it
        captured, such as a global of its module, has changed.

        Raises:
            InvalidArgumentError: Arguments do not match the parameters, or a captured value has changed and the program
                has state, which compiling it again would lose.
            CompileError: The function uses something that programs lack.
        """
        if any(isinstance(argument, Array) for argument in (*args, *named.values())):  # inside of another program
            trace = current()
            if trace is None:  # arrays of a trace that has ended: operations raise
                return self.traced(*args, **named)
            trace.count_inlined(self.name)  # raises CompileError if inlined calls make the program too large
            with trace.here():  # operations get the line of this call
                return recorded(trace, self, args, named)
        # Outside of programs: compile for the device of the arrays, unless that was done with the present captures.
        buffer = next((argument for argument in args if type(argument) is Buffer), None)
        device = "cpu" if buffer is None else buffer.device  # arrays other than buffers are in host memory
        loaded = self._loaded.get(device)
        if loaded is None or is_closed(loaded.function):
            require_open(buffer)  # raises DeviceUnavailableError for a buffer of a closed device
            loaded = self._load(device)
        else:
            changed = loaded.captures.changed()
            if changed is not None:
                self._require_no_state(changed)
                loaded = self._load(device)
        return loaded.function(*args, **named)

    def _load(self, device: str) -> _LoadedProgram:
        """Compile the program for a device, load it, and record the values that it captures."""
        import pydispatch

        artifact = pydispatch.compile(self, **options_of(device))
        function = pydispatch.device(device).load(artifact).functions[self.name]
        loaded = self._loaded[device] = _LoadedProgram(function, Captures(self.function, self._constants()))
        return loaded

    def _constants(self) -> dict[str, Any]:
        """Return values that the program is traced with besides its function, by name.

        One of them is `primal`, the program whose gradients this one computes, if reverse mode has derived it.
        """
        return self.statics if self.primal is None else {**self.statics, self.primal.name: self.primal}

    def _require_no_state(self, changed: str) -> None:
        """Raise InvalidArgumentError if compiling again would lose state. `changed` is the value that is the reason."""
        if self.has_state:
            raise InvalidArgumentError(
                f"program '{self.name}': '{changed}' has changed since the first call, and compiling the program again "
                f"would lose its state; pass the value as an argument, or begin anew with {self.name}.specialize()"
            )


def program(function: Callable[..., Any], /) -> TracedProgram:
    """Create a program for every target from a function over arrays, in the style of NumPy.

    Its parameters have types like those of kernels (docs/python-programs.md). Raise InvalidArgumentError if a parameter
    has none.
    """
    return TracedProgram(function)
