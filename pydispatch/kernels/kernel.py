"""A kernel written in Python, before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.module import Lowered, lower
from pydispatch.kernels.source import Source
from pydispatch.locations import GeneratedText
from pydispatch.patterns.kernels import KernelLike
from pydispatch.suggestions import did_you_mean

Grid = Callable[..., Any] | Sequence[int] | int | None
"""Grid of a kernel: numbers of workgroups, axis 0 first, a function of the kernel's parameters that returns them, or
None to infer them from the kernel's code."""
MAX_INVOCATIONS = 1024
"""Maximum number of invocations of a workgroup: what CUDA and common Vulkan devices support."""


class KernelSource(KernelLike):
    """Kernel before compilation: a Python function, the shape of its workgroup, its grid and its static parameters.

    Attributes:
        source: The function with its source text.
        parameters: Its parameters in order; the views of a tuple are parameters of their own.
        workgroup: Invocations of a workgroup along each of one to three axes.
        grid: Numbers of workgroups along one to three axes, or a function that returns them and is called with the
            kernel's parameters, views having sizes only; None to infer them from the body.
        statics: Values of static parameters by name.
        checks: Whether accesses and races are checked at run time.
        derivative: (kernel or program that computes gradients, the arguments they are of), as `pydispatch.vjp` sets it;
            None without one.
    """

    def __init__(
        self, function: Callable[..., Any], workgroup: Sequence[int] | int = (64,), grid: Grid = None,
        statics: Mapping[str, Any] | None = None, checks: bool = False,
    ) -> None:  # fmt: skip
        """Read the parameters, and check the other arguments; an int `workgroup` or `grid` is that of axis 0."""
        self.source = Source(function)
        self.parameters = self.source.parameters()
        self.workgroup = _checked_workgroup(self.source.name, workgroup)
        self.grid = grid if callable(grid) or grid is None else checked_grid(self.source.name, grid)
        self.statics = self._statics(statics or {})
        self.checks = checks
        self.derivative: Any = None  # set by `pydispatch.vjp`

    @property
    def name(self) -> str:
        """Name of the Python function."""
        return self.source.name

    @property
    def passed(self) -> tuple[Parameter, ...]:
        """Parameters that are passed at run time: all but the static ones."""
        return tuple(parameter for parameter in self.parameters if parameter.type is not None)

    def _statics(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of static parameters, defaults included. Raise InvalidArgumentError for unknown names."""
        names = [parameter.name for parameter in self.parameters if parameter.type is None]
        unknown = next((name for name in values if name not in names), None)
        if unknown is not None:
            listed = f"; there are {', '.join(names)}" if names else ""
            raise InvalidArgumentError(f"kernel '{self.name}' has no static parameter '{unknown}'{listed}")
        defaults = {
            parameter.name: parameter.default
            for parameter in self.parameters
            if parameter.type is None and parameter.has_default
        }
        return {**defaults, **values}

    def lowered(
        self, grid_in_call: bool = False, allocated: Collection[str] = (), batched: Collection[str] = ()
    ) -> Lowered:
        """Lower the kernel to a program.

        Args:
            grid_in_call: Whether three more arguments of the host function are the grid; else it is that of the kernel.
            allocated: Names of written views that the host function allocates and does not take.
            batched: Names of views that have a leading dimension in the host function, the batch: the kernel runs for
                each of its elements.

        Raises:
            CompileError: The function is no valid kernel.
            InvalidArgumentError: A static parameter has no value.
        """
        missing = [
            parameter.name
            for parameter in self.parameters
            if parameter.type is None and parameter.name not in self.statics
        ]
        if missing:
            raise InvalidArgumentError(
                f"kernel '{self.name}': the static parameter '{missing[0]}' has no value; "
                f"write {self.name}.specialize({missing[0]}=...)"
            )
        with self.source.located():
            return lower(
                self.source, self.parameters, self.workgroup, self.statics, self.grid, grid_in_call, self.checks,
                allocated, batched,
            )  # fmt: skip

    @cached_property
    def computed(self) -> tuple[str, ...]:
        """Names of the views that a call of the kernel as an operator allocates and returns, and does not take.

        The kernel writes them as a whole and never reads them, and each of their sizes is static or a named size of a
        view that is passed. Raises as `lowered`.
        """
        views = [self.passed[position] for position in self.launched.overwritten]
        others = [parameter.type for parameter in self.passed if parameter not in views]
        sizes = {size for type in others for size in ((type and type.shape) or ()) if isinstance(size, str)}
        is_known = {
            view.name: all(isinstance(size, int) or size in sizes for size in (view.type and view.type.shape) or ())
            for view in views
        }
        return tuple(name for name, known in is_known.items() if known)

    @cached_property
    def _default_lowering(self) -> Lowered:
        """Return the program of the kernel with its own grid; it is lowered once."""
        return self.lowered()

    @cached_property
    def launched(self) -> Lowered:
        """Program of the kernel for calls that state a grid, its last three arguments. Raises as `lowered`."""
        return self.lowered(grid_in_call=True)

    @property
    def written(self) -> tuple[int, ...]:
        """Positions of the parameters passed at run time that the kernel writes. Raises as `lowered`."""
        return self.launched.written

    @property
    def covering(self) -> tuple[tuple[str | int, int], ...]:
        """For each axis of an inferred grid: (size or its SSA name, how many of its elements a workgroup covers).

        Empty for a stated grid. Raises as `lowered`.
        """
        return self._default_lowering.covering

    def check_count(self, args: tuple[Any, ...]) -> None:
        """Raise InvalidArgumentError unless `args`, the result of `flat`, has one for each parameter in `passed`."""
        if len(args) != len(self.passed):
            names = ", ".join(parameter.name for parameter in self.passed)
            raise InvalidArgumentError(
                f"kernel '{self.name}' takes {len(self.passed)} arguments ({names}), got {len(args)}"
            )

    def arranged(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call in the order of the parameters; a tuple of views is one argument.

        Args:
            args: The first arguments, by position.
            named: The others, by name.

        Raises:
            InvalidArgumentError: A name is unknown, or an argument is missing or given twice.
        """
        names = list(dict.fromkeys(parameter.tuple_name or parameter.name for parameter in self.passed))
        takes = f"the kernel takes ({', '.join(names)})"
        for name in named:
            if name in self.source.parameter_names and name not in names:
                raise InvalidArgumentError(
                    f"kernel '{self.name}': '{name}' is a static parameter; write {self.name}.specialize({name}=...)"
                )
            if name not in names:
                raise InvalidArgumentError(
                    f"kernel '{self.name}': unexpected keyword argument '{name}'; {did_you_mean(name, names)}{takes}"
                )
            if name in names[: len(args)]:
                raise InvalidArgumentError(
                    f"kernel '{self.name}': argument '{name}' is given twice, by position and by name; {takes}"
                )
        missing = [f"'{name}'" for name in names[len(args) :] if name not in named]
        if missing:
            noun = "argument" if len(missing) == 1 else "arguments"
            raise InvalidArgumentError(f"kernel '{self.name}': missing {noun} {', '.join(missing)}; {takes}")
        return (*args, *(named[name] for name in names[len(args) :]))

    def flat(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a call, one for each parameter in `passed`: a tuple of views becomes its views."""
        if not any(parameter.tuple_name for parameter in self.passed):
            return args
        return tuple(item for view in args for item in (view if isinstance(view, (tuple, list)) else (view,)))

    def mlir(self) -> GeneratedText:
        """Return the program as MLIR text: an executable, and a host function that returns the written views.

        Raises as `lowered`.
        """
        return self._default_lowering.text

    def __repr__(self) -> str:
        """Return the name, the parameters with their types, and the workgroup."""
        shown = ", ".join(f"{parameter.name}: {parameter.type or 'static'}" for parameter in self.parameters)
        return f"<pydispatch kernel {self.name}({shown}), workgroup {self.workgroup}>"


def _checked_workgroup(name: str, requested: Sequence[int] | int) -> tuple[int, ...]:
    """Return a workgroup shape as a tuple of one to three sizes. Raise InvalidArgumentError for any other value.

    name: the kernel, for the error.
    """
    sizes = (requested,) if isinstance(requested, int) else requested
    product = 1
    is_shape = isinstance(sizes, (tuple, list)) and 1 <= len(sizes) <= 3
    for size in sizes if is_shape else ():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:  # a bool is an int in Python
            is_shape = False
            break
        product *= size
    if not is_shape or product > MAX_INVOCATIONS:
        raise InvalidArgumentError(
            f"kernel '{name}': workgroup: expected one to three numbers, at most {MAX_INVOCATIONS} invocations in "
            f"all, got {requested!r}"
        )
    return tuple(sizes)


def checked_grid(name: str, requested: Any) -> tuple[int, ...]:
    """Return a grid as a tuple of one to three numbers of workgroups. Raise InvalidArgumentError for any other value.

    name: the kernel, for the error.
    """
    sizes = (requested,) if isinstance(requested, int) else requested
    is_grid = isinstance(sizes, (tuple, list)) and 1 <= len(sizes) <= 3
    if not is_grid or not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise InvalidArgumentError(
            f"kernel '{name}': grid: expected one to three numbers of workgroups, got {requested!r}"
        )
    return tuple(sizes)
