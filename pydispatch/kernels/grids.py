"""The grid of a kernel: the number of workgroups along each axis, computed from the sizes of its views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.entities import Literal, Scalar
from pydispatch.kernels.grid_sizes import GridCall, Size, emit_grid
from pydispatch.kernels.phases import Phases
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.tile_kernel import TileKernel
from pydispatch.kernels.writer import Writer


class _Shape:
    """Stand-in for a view as argument of a grid function: it has only `shape` (int or Size by dimension) and `ndim`."""

    def __init__(self, shape: tuple[Size | int, ...]) -> None:
        """Take the size of each dimension of the view."""
        self.shape, self.ndim = shape, len(shape)


def workgroup_counts(
    source: Source,
    writer: Writer,
    passed: Sequence[Parameter],
    symbols: Mapping[tuple[str, int], str],
    statics: Mapping[str, Any],
    covered: Sequence[tuple[Scalar | Literal, int]],
    grid: Callable[..., Any] | Sequence[int] | None,
    grid_in_call: bool,
) -> list[str]:
    """Emit the number of workgroups along each of the three axes, and return their SSA names.

    Args:
        source: Source of the kernel.
        writer: Writer of the host function.
        passed: Parameters that are passed at run time.
        symbols: SSA name of each dynamic size, by (view, dimension).
        statics: Values of the static parameters.
        covered: For a kernel whose grid is inferred: for each axis, x first, a size, and how many of its elements a
            workgroup covers.
        grid: The stated grid, or a function that computes it; None for an inferred grid.
        grid_in_call: Whether the host function has the grid as arguments; then `covered` and `grid` are ignored.
    """
    if grid_in_call:
        return [writer.value(f"arith.index_cast %a_grid_{axis} : i64 to index", "index").name for axis in range(3)]

    def counts_of(call: GridCall) -> list[Size | int]:
        """Call the grid function with symbolic sizes; return the number of workgroups along the three axes.

        Its arguments are stand-ins of the views, which have only a shape, and the values of static parameters.
        """
        assert callable(grid)
        views = stand_ins(passed, lambda parameter, axis: Size(call, symbols[parameter.name, axis]))
        return _checked_counts(source, grid(*(views.get(name, statics.get(name)) for name in source.parameter_names)))

    # An inferred grid, else the grid function with symbolic sizes, else stated numbers.
    call = GridCall(writer)
    counts: list[Size | int]
    if grid is None:
        counts = _covering_counts(covered, call)
    else:
        counts = emit_grid(source, call, counts_of) if callable(grid) else _checked_counts(source, grid)
    return [count.name if isinstance(count, Size) else writer.constant(count, "index").name for count in counts]


def stand_ins(passed: Sequence[Parameter], size_of: Callable[[Parameter, int], Size | int]) -> dict[str, Any]:
    """Return the arguments of a grid function, by name: `_Shape`s for views, and tuples of these for tuples of views.

    Numbers have None, because a grid depends on sizes only. size_of: returns the size of a view along an axis, called
    for sizes that the kernel does not state.
    """
    views: dict[str, Any] = {}
    for parameter in passed:
        sizes = (parameter.type and parameter.type.shape) or ()
        shape = tuple(size if isinstance(size, int) else size_of(parameter, axis) for axis, size in enumerate(sizes))
        view: Any = _Shape(shape) if parameter.is_view else None
        if parameter.tuple_name:  # an item of a tuple of views
            view = (*views.get(parameter.tuple_name, ()), view)
        views[parameter.tuple_name or parameter.name] = view
    return views


def _covering_counts(covered: Sequence[tuple[Scalar | Literal, int]], call: GridCall) -> list[Size | int]:
    """Emit how many workgroups cover the sizes of an inferred grid, along three axes.

    covered: for each axis a size, and how many of its elements a workgroup covers.
    """
    counts: list[Size | int] = []
    for size, extent in covered:
        count = Size(call, size.name) if isinstance(size, Scalar) else int(size.value)
        counts.append(count if extent == 1 else -(-count // extent))  # count / extent, rounded up
    return counts + [1] * (3 - len(counts))


def _checked_counts(source: Source, chosen: Any) -> list[Size | int]:
    """Return a grid as a list of three numbers of workgroups, padded with 1.

    Raise InvalidArgumentError for a value that is no grid.
    """
    chosen = list(chosen) if isinstance(chosen, (tuple, list)) else [chosen]
    if not 1 <= len(chosen) <= 3 or not all(isinstance(count, (int, Size)) for count in chosen):
        raise InvalidArgumentError(
            f"kernel '{source.name}': grid: expected one to three numbers of workgroups, got {chosen!r}"
        )
    return [*chosen, *[1] * (3 - len(chosen))]


def covering(
    source: Source, written: Parameter, symbols: Mapping[tuple[str, int], str], phases: Phases | TileKernel
) -> list[tuple[Scalar | Literal, int]]:
    """Return for each axis of an inferred grid a size, and how many of its elements one workgroup covers.

    A kernel with tiles covers `written`, the first view that it writes, by the block that each workgroup stores; axis 0
    is along the last dimension. If it stores y[i:i + 16, j:j + 32] of a view y[m, n], the result is [(n, 32), (m, 16)]:
    the grid has ceil(n / 32) workgroups along axis 0, and ceil(m / 16) along axis 1.

    Other kernels cover the sizes that bound their global or group ids. With 64 invocations in a workgroup, and
    y[global_id(0)] of a view y[n], the result is [(n, 64), (1, 1), (1, 1)].

    symbols: SSA name of each dynamic size, by (view, dimension). phases: code generator that has emitted the kernel.
    Raise CompileError if no grid can be inferred.
    """
    if isinstance(phases, Phases):  # a kernel without tiles
        return phases.workgroups()
    extents = phases.covered(written.name)
    if extents is None:
        raise source.error(
            source.tree,
            f"no grid follows: kernel '{source.name}' writes '{written.name}' in a loop, a condition or by tiles of "
            f"indices",
            "give one: @pydispatch.kernel(grid=lambda ...: (...))",
        )
    shape = (written.type and written.type.shape) or ()
    sizes: list[Scalar | Literal] = [
        Literal(size) if isinstance(size, int) else Scalar(symbols[written.name, dimension], "index")
        for dimension, size in enumerate(shape)
    ]
    if len(sizes) > 3:
        raise source.error(
            source.tree,
            f"the grid over '{written.name}' would have {len(sizes)} dimensions",
            "give one: @pydispatch.kernel(grid=lambda ...: (...))",
        )
    # `extents` has the last dimension of the view first, which is axis 0 of the grid: so have the reversed sizes.
    padded = [*extents, *[1] * (len(sizes) - len(extents))]
    return list(zip(sizes[::-1], padded, strict=True))
