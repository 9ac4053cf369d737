"""Programs written in Python that are called like functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydispatch.integrations.called_kernels import is_closed, options_of, require_open
from pydispatch.programs.array import Array
from pydispatch.programs.program import ProgramSource
from pydispatch.runtime.buffer import Buffer


class TracedProgram(ProgramSource):
    """A program: called with arrays, it is compiled for their device by the first call; `pydispatch.compile(program)`
    gives an artifact with a function of its name. `python` runs the function itself."""

    def __init__(self, function: Callable[..., Any], statics: Any = None) -> None:
        super().__init__(function, statics)
        self.derivative: Any = None  # see `pydispatch.vjp`
        self.__name__, self.__doc__, self.__wrapped__ = self.name, function.__doc__, function
        self._loaded: dict[str, Callable[..., Any]] = {}

    def specialize(self, **statics: Any) -> TracedProgram:
        """The program with values for static parameters. InvalidArgumentError for a name that is none."""
        return TracedProgram(self.function, {**self.statics, **statics})

    def __call__(self, *args: Any, **named: Any) -> Any:
        """What the function gives for arrays. In another program, or a part of one, it is traced there.

        InvalidArgumentError for arguments that do not fit, CompileError for what is no part of programs.
        """
        if any(isinstance(each, Array) for each in (*args, *named.values())):
            return self.function(*args, **{**self.statics, **named})
        first = next((each for each in args if type(each) is Buffer), None)
        device = "cpu" if first is None else first.device
        function = self._loaded.get(device)
        if function is None or is_closed(function):
            require_open(first)
            function = self._loaded[device] = self._load(device)
        return function(*args, **named)

    def _load(self, device: str) -> Callable[..., Any]:
        import pydispatch

        artifact = pydispatch.compile(self, **options_of(device))
        return pydispatch.device(device).load(artifact).functions[self.name]


def program(function: Callable[..., Any], /) -> TracedProgram:
    """A function over arrays, in the manner of NumPy, as a program for every target.

    Its parameters have types, as those of kernels do (docs/python-programs.md). InvalidArgumentError for one without.
    """
    return TracedProgram(function)
