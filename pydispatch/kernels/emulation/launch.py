"""A launch of a kernel under plain Python."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch._core.extended_types import BY_MLIR
from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.called_functions import named_object
from pydispatch.kernels.collectives import COLLECTIVES
from pydispatch.kernels.emulation.tile_functions import dtype_of
from pydispatch.kernels.emulation.views import ArrayView
from pydispatch.kernels.emulation.workgroups import run_workgroup
from pydispatch.kernels.grid_sizes import grid_error
from pydispatch.kernels.grids import stand_ins
from pydispatch.kernels.kernel import KernelSource, checked_grid
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.style import has_tiles
from pydispatch.kernels.view_sizes import size_symbols
from pydispatch.patterns.types import DType


def launch(kernel: KernelSource, args: Sequence[Any], grid: Sequence[int] | None = None) -> None:
    """Run a kernel under plain Python, workgroup by workgroup, on arrays that it changes in place.

    For the workgroup (64,) and the grid (2, 1, 1), the kernel's function is called for each of 64 invocations of the
    workgroup (0, 0, 0), then for those of (1, 0, 0). A kernel on tiles is called once for each workgroup.

    Args:
        kernel: The kernel.
        args: Arrays of NumPy and numbers, one for each item of `kernel.passed`. A parameter that is a tuple of views
            has an item for each of its views.
        grid: Numbers of workgroups along the three axes, axis 0 first; None for the grid that the kernel declares, or
            that is inferred from its code.

    Raises:
        InvalidArgumentError: An array has another element type or rank than its parameter, or a grid function returns
            no grid.
        KernelError: An index is out of bounds, or some invocations of a workgroup do not reach a barrier that others
            wait at.
        CompileError: The grid is to be inferred, and the function is no valid kernel.
    """
    values = _arguments(kernel, args)
    counts = grid or _counts(kernel, args)
    extents = (*kernel.workgroup, 1, 1)[:3]  # invocations of a workgroup along three axes
    # is_whole: one call of the function computes a whole workgroup. has_collectives: each invocation needs a thread.
    is_whole, has_collectives = has_tiles(kernel.source), _has_collectives(kernel.source)
    # The product changes its last item fastest: it runs over reversed axes, so that axis 0 does.
    for group in itertools.product(*map(range, reversed(counts))):
        run_workgroup(
            lambda: kernel.source.function(*values.values()), group[::-1], extents, counts,
            is_whole=is_whole, has_collectives=has_collectives,
        )  # fmt: skip


def _arguments(kernel: KernelSource, args: Sequence[Any]) -> dict[str, Any]:
    """Return the argument of each parameter of the function by name, in order: views, NumPy numbers and static values.

    args: as for `launch`. The views of a tuple, which are separate items there, become a tuple again.
    """
    passed: dict[str, Any] = {}
    for parameter, argument in zip(kernel.passed, args, strict=True):
        assert parameter.type is not None
        value = _view(kernel, parameter, argument) if parameter.is_view else DType(parameter.type.dtype)(argument)
        if parameter.tuple_name:
            value = (*passed.get(parameter.tuple_name, ()), value)
        passed[parameter.tuple_name or parameter.name] = value
    return {name: passed.get(name, kernel.statics.get(name)) for name in kernel.source.parameter_names}


def _view(kernel: KernelSource, parameter: Parameter, argument: object) -> ArrayView:
    """Return a view over an array. Raise InvalidArgumentError unless it has the parameter's element type and rank."""
    type_ = parameter.type
    assert type_ is not None and type_.shape is not None
    got = f"a {type(argument).__name__}"
    if isinstance(argument, np.ndarray):
        expected = BY_MLIR[type_.dtype].name if type_.dtype in BY_MLIR else dtype_of(DType(type_.dtype)).name
        if argument.dtype.name == expected and argument.dtype.isnative and argument.ndim == len(type_.shape):
            return ArrayView(parameter.name, argument)
        got = f"one of {argument.dtype}{list(argument.shape)}"
    raise InvalidArgumentError(f"kernel '{kernel.name}': '{parameter.name}': expected a NumPy array {type_}, got {got}")


def _counts(kernel: KernelSource, args: Sequence[Any]) -> tuple[int, ...]:
    """Return the number of workgroups along the three axes, 1 along axes that the kernel's grid omits.

    Raise InvalidArgumentError if a grid function raises, or returns anything but one to three numbers of workgroups.

    args: one for each item of `kernel.passed`.
    """

    def size_of(name: str, axis: int) -> int:
        """Return the size of a view along an axis."""
        position = next(index for index, parameter in enumerate(kernel.passed) if parameter.name == name)
        return int(args[position].shape[axis])

    if kernel.grid is None:
        size_by_symbol: dict[str, Any] = {s: size_of(*key) for key, s in size_symbols(kernel.passed).items()}
        # `covering` has for each axis a size or its SSA name, and how many of its elements (extent) a workgroup covers.
        # The number of workgroups is size / extent, rounded up.
        chosen: Any = [-(-size_by_symbol.get(str(size), size) // extent) for size, extent in kernel.covering]
    elif callable(kernel.grid):
        views = stand_ins(kernel.passed, lambda parameter, axis: size_of(parameter.name, axis))
        try:
            chosen = kernel.grid(*(views.get(name, kernel.statics.get(name)) for name in kernel.source.parameter_names))
        except Exception as error:
            raise grid_error(kernel.source, error) from error
    else:
        chosen = kernel.grid
    return (*checked_grid(kernel.name, chosen), 1, 1)[:3]


def _has_collectives(source: Source) -> bool:
    """Return whether a kernel calls collectives at which invocations wait: barriers, reductions or exchanges.

    `shared` is a collective as well, but only allocates.
    """
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return any(COLLECTIVES.get(named_object(source, call.func), "shared") != "shared" for call in calls)
