"""The grid of a kernel: the number of workgroups along each axis, computed from the sizes of its views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.entities import Scalar
from pydispatch.kernels.grid_sizes import Size, Sizes, called
from pydispatch.kernels.phases import Phases
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.tile_kernel import TileKernel
from pydispatch.kernels.writer import Writer


class _Shape:
    """Stand-in for a view as argument of a grid function: it has only `shape` and `ndim`."""

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
    """Emit the number of workgroups along each of the three axes, and return their SSA names."""
    if grid_in_call:
        return [writer.value(f"arith.index_cast %a_grid_{axis} : i64 to index", "index").name for axis in range(3)]

    def shape(parameter: Parameter, of: Sizes) -> tuple[Size | int, ...]:
        sizes = (parameter.type and parameter.type.shape) or ()
        return tuple(
            size if isinstance(size, int) else Size(of, symbols[parameter.name, d]) for d, size in enumerate(sizes)
        )

    def results(sizes: Sizes) -> list[Size | int]:
        """Return the numbers of workgroups that the function of the grid computes."""
        assert callable(grid)
        views: dict[str, Any] = {}
        for parameter in passed:
            view = _Shape(shape(parameter, sizes)) if parameter.is_view else None
            if parameter.group:
                view = (*views.get(parameter.group, ()), view)
            views[parameter.group or parameter.name] = view
        return _checked_counts(source, grid(*(views.get(name, statics.get(name)) for name in source.parameter_names)))

    sizes = Sizes(writer)
    if grid is None:
        if isinstance(phases, TileKernel):
            over = passed[written[0]]
            chosen = _tile_counts(source, over.name, shape(over, sizes), phases)
        else:
            chosen = _inferred_counts(sizes, phases)
        chosen += [1] * (3 - len(chosen))
    else:
        chosen = called(source, sizes, results) if callable(grid) else _checked_counts(source, grid)
    return [count.name if isinstance(count, Size) else writer.constant(count, "index").name for count in chosen]


def _checked_counts(source: Source, chosen: Any) -> list[Size | int]:
    """Return three numbers of workgroups, padded with 1. Raise InvalidArgumentError for a value that is no grid."""
    chosen = list(chosen) if isinstance(chosen, (tuple, list)) else [chosen]
    if not 1 <= len(chosen) <= 3 or not all(isinstance(count, (int, Size)) for count in chosen):
        raise InvalidArgumentError(
            f"kernel '{source.name}': grid: expected one to three numbers of workgroups, got {chosen!r}"
        )
    return [*chosen, *[1] * (3 - len(chosen))]


def _inferred_counts(sizes: Sizes, phases: Phases) -> list[Size | int]:
    """Return the grid that the sizes recorded by `Coverage` imply."""
    counts: list[Size | int] = []
    for size, extent in phases.workgroups():
        count = Size(sizes, size.name) if isinstance(size, Scalar) else int(size.value)
        counts.append(count if extent == 1 else -(-count // extent))
    return counts


def _tile_counts(source: Source, view: str, shape: Sequence[Size | int], phases: TileKernel) -> list[Size | int]:
    """Return the grid that covers a view with the block that each workgroup stores, axis 0 along the last dimension."""
    extents, sizes = phases.covered(view), shape[::-1]
    if extents is None:
        raise source.error(
            source.tree,
            f"no grid follows: kernel '{source.name}' writes '{view}' in a loop, a condition or by tiles of indices",
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
