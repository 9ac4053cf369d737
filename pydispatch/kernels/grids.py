"""The grid of a kernel: numbers of workgroups, computed from the sizes of its views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.entities import Scalar
from pydispatch.kernels.phases import Phases
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.tile_kernel import TileKernel
from pydispatch.kernels.writer import Writer


def _called(source: Source, grid: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        return grid(*arguments)
    except Exception as error:
        names = ", ".join(source.parameter_names)
        raise InvalidArgumentError(
            f"kernel '{source.name}': grid: {error}; it is called with the kernel's parameters ({names}) and computes "
            f"with + - * // of their sizes"
        ) from error


class Size:
    """A size while the grid is computed: arithmetic writes operations."""

    def __init__(self, writer: Writer, name: str) -> None:
        self.writer, self.name = writer, name

    def _with(self, operation: str, other: object, is_turned: bool = False) -> Size:
        if isinstance(other, int):
            other = Size(self.writer, self.writer.constant(other, "index").name)
        if not isinstance(other, Size):
            return NotImplemented
        a, b = (other, self) if is_turned else (self, other)
        return Size(self.writer, self.writer.value(f"{operation} {a.name}, {b.name} : index", "index").name)

    def __add__(self, other: object) -> Size:
        return self._with("arith.addi", other)

    def __radd__(self, other: object) -> Size:
        return self._with("arith.addi", other, True)

    def __sub__(self, other: object) -> Size:
        return self._with("arith.subi", other)

    def __rsub__(self, other: object) -> Size:
        return self._with("arith.subi", other, True)

    def __mul__(self, other: object) -> Size:
        return self._with("arith.muli", other)

    def __rmul__(self, other: object) -> Size:
        return self._with("arith.muli", other, True)

    def __floordiv__(self, other: object) -> Size:
        return self._with("arith.floordivsi", other)

    def __rfloordiv__(self, other: object) -> Size:
        return self._with("arith.floordivsi", other, True)

    def __neg__(self) -> Size:
        return self._with("arith.subi", 0, True)


class _Shape:
    """A view as the function of a grid gets it."""

    def __init__(self, shape: tuple[Size | int, ...]) -> None:
        self.shape, self.ndim = shape, len(shape)


def workgroup_counts(
    source: Source,
    writer: Writer,
    passed: Sequence[Parameter],
    symbols: Mapping[tuple[str, int], str],
    phases: Phases | TileKernel,
    statics: Mapping[str, Any],
    written: Sequence[int],
    grid: Callable[..., Any] | Sequence[int] | None,
    grid_in_call: bool,
) -> list[str]:
    """Write the three numbers of workgroups, and return their names."""
    if grid_in_call:
        return [writer.value(f"arith.index_cast %a_grid_{axis} : i64 to index", "index").name for axis in range(3)]

    def shape(parameter: Parameter) -> tuple[Size | int, ...]:
        sizes = (parameter.type and parameter.type.shape) or ()
        return tuple(
            size if isinstance(size, int) else Size(writer, symbols[parameter.name, d]) for d, size in enumerate(sizes)
        )

    if grid is None:
        chosen: Any = (
            _over_tiles(source, passed[written[0]].name, shape(passed[written[0]]), phases)
            if isinstance(phases, TileKernel)
            else _inferred(writer, phases)
        )
    elif callable(grid):
        views = {each.name: _Shape(shape(each)) if each.is_view else None for each in passed}
        arguments = [views.get(name, statics.get(name)) for name in source.parameter_names]
        chosen = _called(source, grid, arguments)
    else:
        chosen = grid
    chosen = list(chosen) if isinstance(chosen, (tuple, list)) else [chosen]
    if not 1 <= len(chosen) <= 3 or not all(isinstance(each, (int, Size)) for each in chosen):
        raise InvalidArgumentError(
            f"kernel '{source.name}': grid: expected one to three numbers of workgroups, got {chosen!r}"
        )
    chosen += [1] * (3 - len(chosen))
    return [each.name if isinstance(each, Size) else writer.constant(each, "index").name for each in chosen]


def _inferred(writer: Writer, phases: Phases) -> list[Size | int]:
    found: list[Size | int] = []
    for size, extent in phases.workgroups():
        each = Size(writer, size.name) if isinstance(size, Scalar) else int(size.value)
        found.append(each if extent == 1 else -(-each // extent))
    return found


def _over_tiles(source: Source, view: str, shape: Sequence[Size | int], phases: TileKernel) -> list[Size | int]:
    """Return the grid over a view of the tile that is stored into it, axis 0 along the last dimension."""
    extents, sizes = phases.covered(view), shape[::-1]
    if extents is None:
        raise source.error(
            source.tree,
            f"kernel '{source.name}' writes '{view}' in a loop or a condition, from which no grid is inferred",
            "give one: @pydispatch.kernel(grid=lambda ...: (...))",
        )
    chosen = [-(-size // extent) for size, extent in zip(sizes, extents, strict=False)]
    chosen += list(sizes[len(extents) :])
    if len(chosen) > 3:
        raise source.error(
            source.tree,
            f"the grid over '{view}' would have {len(chosen)} dimensions",
            "give one: @pydispatch.kernel(grid=lambda ...: (...))",
        )
    return chosen
