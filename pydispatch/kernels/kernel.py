"""A kernel written in Python, before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.module import Lowered, lower
from pydispatch.kernels.source import Source
from pydispatch.patterns.kernels import KernelLike

Grid = Callable[..., Any] | Sequence[int] | int | None
MAX_INVOCATIONS = 1024


class KernelSource(KernelLike):
    """A function over views, with the shape of its workgroup, its grid and the values that are known."""

    def __init__(
        self, function: Callable[..., Any], workgroup: Sequence[int] | int = (64,), grid: Grid = None,
        statics: Mapping[str, Any] | None = None, checks: bool = False,
    ) -> None:  # fmt: skip
        self.source = Source(function)
        self.parameters = self.source.parameters()
        self.workgroup = _workgroup(self.source.name, workgroup)
        self.grid = grid if callable(grid) or grid is None else _grid(self.source.name, grid)
        self.statics = self._statics(statics or {})
        self.checks = checks

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def passed(self) -> tuple[Parameter, ...]:
        """The parameters that calls of a compiled kernel give: those that are no statics."""
        return tuple(parameter for parameter in self.parameters if parameter.type is not None)

    def _statics(self, values: Mapping[str, Any]) -> dict[str, Any]:
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

    def lowered(self, grid_in_call: bool = False) -> Lowered:
        """Return the program of the kernel. CompileError for what is no kernel; InvalidArgumentError where a static
        parameter has no value.
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
                self.source, self.parameters, self.workgroup, self.statics, self.grid, grid_in_call, self.checks
            )

    @cached_property
    def _default_lowering(self) -> Lowered:
        return self.lowered()

    @cached_property
    def launched(self) -> Lowered:
        """The program of the kernel with the grid as three more arguments. Raises as `lowered`."""
        return self.lowered(grid_in_call=True)

    @property
    def written(self) -> tuple[int, ...]:
        """Which of the parameters that calls give the kernel writes, by position. Raises as `lowered`."""
        return self.launched.written

    def mlir(self) -> str:
        """Return the program as MLIR text: an executable, and a function of the kernel's parameters whose results are
        the views that it writes. Raises as `lowered`.
        """
        return self._default_lowering.text

    def __repr__(self) -> str:
        shown = ", ".join(f"{parameter.name}: {parameter.type or 'static'}" for parameter in self.parameters)
        return f"<pydispatch kernel {self.name}({shown}), workgroup {self.workgroup}>"


def _workgroup(name: str, requested: Sequence[int] | int) -> tuple[int, ...]:
    sizes = (requested,) if isinstance(requested, int) else requested
    product = 1
    is_list = isinstance(sizes, (tuple, list)) and 1 <= len(sizes) <= 3
    for size in sizes if is_list else ():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            is_list = False
            break
        product *= size
    if not is_list or product > MAX_INVOCATIONS:
        raise InvalidArgumentError(
            f"kernel '{name}': workgroup: expected one to three numbers, at most {MAX_INVOCATIONS} invocations in "
            f"all, got {requested!r}"
        )
    return tuple(sizes)


def _grid(name: str, requested: Any) -> tuple[int, ...]:
    sizes = (requested,) if isinstance(requested, int) else requested
    is_grid = isinstance(sizes, (tuple, list)) and 1 <= len(sizes) <= 3
    if not is_grid or not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise InvalidArgumentError(
            f"kernel '{name}': grid: expected one to three numbers of workgroups, got {requested!r}"
        )
    return tuple(sizes)
