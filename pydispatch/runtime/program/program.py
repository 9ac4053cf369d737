"""A loaded program: its functions, ready to be called."""

from __future__ import annotations

import operator
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from pydispatch._core.function import Function
from pydispatch._core.program import Module
from pydispatch._core.tables import paragraph, table
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.suggestions import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self

    from pydispatch._core.procedure import Procedure
    from pydispatch._core.state import State
    from pydispatch.runtime.program.imports import Import
    from pydispatch.runtime.program.parameters import BoundParameter


class Program:
    """A loaded program. Call its functions as `program.f(a, b)` or `program["f"](a, b)`; iterate over their names.

    A tensor argument is an array of the exact dtype in CPU memory: a NumPy array, or an object with DLPack, the buffer
    protocol or `__array_interface__`. A contiguous array is read in place, another one is copied. A scalar argument is
    a Python or NumPy number. A call returns an array or a number for one result, a tuple for several, None for none.
    Result arrays are new, aligned to 64 bytes, and never share memory with an argument.

    `out=` takes an array, or a tuple with one entry per result (None: allocate it): of the exact shape and dtype,
    contiguous and writable. An output that overlaps an argument is written after the run, unless it is the argument
    that the program updates in place.

    Calls raise InvalidArgumentError for arguments that do not fit, and KernelError when a kernel reports a failure. Any
    thread may call any function; the GIL is released while kernels run.
    """

    def __init__(
        self, module: Module, name: str, imports: Sequence[Import] = (), state: State | None = None
    ) -> None:  # fmt: skip
        """Create the program of a loaded module.

        Args:
            module: The program in the C core, linked for its device.
            name: Name of the artifact, for messages.
            imports: The functions of other libraries that were linked at load.
            state: Values of the global variables of a session, a program that shares everything else with another one.
                None: the values that the module has.
        """
        self._module = module
        self._state = state
        self._name = name
        self._imports = tuple(imports)
        self._origin = Origin(self)
        self._is_session = False  # until `session` sets it
        functions = self._make_functions(module)
        self._functions = functions
        # Functions are instance attributes, the fastest lookup. None of them replaces a method of the same name.
        attributes = self.__dict__
        for entry, function in functions.items():
            function.origin = self._origin
            if not entry.startswith("_") and not hasattr(Program, entry):
                attributes[entry] = function

    def _make_functions(self, module: Module) -> dict[str, Any]:
        """Create the callable objects of a module's public functions, by name.

        A `Function` only runs commands of a plan. A `Procedure` also runs host code: loops and branches, checks, and
        accesses to global variables.
        """
        functions: dict[str, Any] = {entry: Function(module, index) for index, entry in module.functions()}
        if module.state is not None:
            from pydispatch._core.procedure import Procedure

            for index, entry in module.procedures():
                functions[entry] = Procedure(module, index, verify=_verify, state=self._state)
        return functions

    @property
    def functions(self) -> Mapping[str, Function | Procedure]:
        """The public functions by name."""
        return MappingProxyType(self._functions)

    @property
    def imports(self) -> tuple[Import, ...]:
        """The functions that were linked at load: importers, provider, candidates and C declaration of each."""
        return self._imports

    @property
    def parameters(self) -> tuple[BoundParameter, ...]:
        """The parameters that were bound at load: scope, key, type, source, and whether it was copied."""
        return self._module.bound or ()

    def __getitem__(self, name: str) -> Function | Procedure:
        """Return a function by its name. Raise InvalidArgumentError, which lists all names, if there is none."""
        try:
            return self._functions[name]
        except KeyError:
            raise InvalidArgumentError(self._unknown(name)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __getattr__(self, name: str) -> Function:
        """Raise AttributeError: functions are instance attributes, so Python calls this only for an unknown name."""
        raise AttributeError(self._unknown(name))

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._functions})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the artifact, or its path, with the name of the device and the parameters.

        The other process opens a device of that name and loads the program.

        Raises:
            InvalidArgumentError: Plugins, imports, commands or code were added to the device, which cannot be pickled.
        """
        return self._origin.__reduce__()

    def session(self) -> Self:
        """Return a program with the code and weights of this one, and globals of its own.

        Its globals begin with their initial values, and its initializers run now. It can be used as long as this
        program is open; closing it does not close this one. If the program has no globals, a session only has plans
        (schedules of a function's dispatches, cached by shape) of its own.

        Example:
            >>> first, second = program.session(), program.session()
            >>> first.step(token)                    # the cache of `second` is unchanged
        """
        state = None
        if self._module.state is not None:
            from pydispatch._core.state import State

            if self._module.closed:
                raise Error(f"{self!r} is closed; load it again")
            state = State(self._module, is_session=True)
        session = self._with_state(state)
        session._origin.arguments, session._is_session = self._origin.arguments, True
        return session

    def _with_state(self, state: State | None) -> Self:
        """Return a program of the same code and imports, with other globals; None for a program without globals."""
        return type(self)(self._module, self._name, self._imports, state)

    def close(self) -> None:
        """Release code, constants and plans; a session releases only its own plans.

        Running calls finish. Later calls raise Error.
        """
        if not self._is_session:
            self._module.close()
        for function in self._functions.values():
            function.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the program at the end of a `with` block; an exception of the block is propagated."""
        self.close()

    def __repr__(self) -> str:
        """Return the name of the artifact, the names of the functions, and whether the program is closed."""
        state = " (closed)" if self._module.closed else ""
        return f"<pydispatch.Program {self._name!r}{state}: {', '.join(self._functions) or 'no functions'}>"

    def _repr_html_(self) -> str:
        """Render the functions as a table, for notebooks."""
        rows = [(name, function.signature) for name, function in self._functions.items()]
        return paragraph(repr(self)) + table(["function", "type"], rows)

    def _unknown(self, name: str) -> str:
        """Return the message for a name that no function has, with the nearest name if one is close."""
        functions = self.__dict__.get("_functions", {})  # __getattr__ may call this before __init__ has set it
        hint = did_you_mean(name, functions) if isinstance(name, str) else ""
        separator = "; " if hint else ". "
        known = ", ".join(functions) or "none"
        return f"the program has no function '{name}'{separator}{hint}It has: {known}"


def remember(program: Program, device: str, source: Any, parameters: Mapping[str, Any] | None) -> None:
    """Record what a program was loaded from, so that it can be pickled.

    Args:
        program: The program.
        device: The name of its device with options, as passed to `pydispatch.device`.
        source: The argument of `Device.load`.
        parameters: The argument of `Device.load`.
    """
    if isinstance(source, (str, os.PathLike)):
        source = os.fsdecode(source)
        # os.path, because pathlib takes a measurable part of the time of a load. getcwd() only for a relative path: it
        # fails if the working directory has been removed.
        if not os.path.isabs(source):  # noqa: PTH117
            source = os.path.join(os.getcwd(), source)  # noqa: PTH109, PTH118
    elif isinstance(source, (bytearray, memoryview)):
        source = bytes(source)  # a copy: the caller may change the bytes
    program._origin.arguments = device, source, parameters


class Origin:
    """Device, source and parameters that a program was loaded from, pickled as the program.

    The functions of a program refer to it, and not to the program, with which they would be a reference cycle.

    Attributes:
        arguments: Arguments of `_load`. None if the program cannot be pickled; see `remember`.
    """

    def __init__(self, program: Program) -> None:
        """Create the origin of a program that cannot be pickled, until `arguments` is set."""
        self.arguments: tuple[str, Any, Mapping[str, Any] | None] | None = None
        self._name, self._program = program._name, weakref.ref(program)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program. Raise InvalidArgumentError if it cannot be pickled."""
        if self.arguments is None:
            raise InvalidArgumentError(
                f"program {self._name!r} cannot be pickled: plugins, imports, commands or code were added to its "
                "device; send its artifact, and load it where a device has the same"
            )
        return _load, self.arguments

    def reduce_function(self, name: str) -> tuple[Any, ...]:
        """Pickle a function of the program. Functions that are pickled together have one program again."""
        return operator.getitem, (self._program() or self, name)


def _load(device: str, source: Any, parameters: Mapping[str, Any] | None) -> Program:
    """Load a pickled program again.

    device: name of the device with its options. source, parameters: the arguments of `Device.load`.
    """
    import pydispatch  # here, because pydispatch imports the modules of devices, and these import this module

    return pydispatch.device(device).load(source, parameters)


def _verify(function: str, observed: Sequence[tuple[tuple[Any, ...], Sequence[Any]]]) -> None:
    """Raise CheckError for the failed checks of a call.

    observed: (fields of its `Check`, the values that it compared) for each check that ran.
    """
    from pydispatch.runtime.program.checks import Check, verify

    verify(function, [(Check(*record), values) for record, values in observed])
