"""Kernels over a batch: views with a leading dimension, for each element of which the kernel runs.

The batch is a part of axis 1 of the grid, whose number of workgroups is multiplied by its size; axis 2 has at most
65,535.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.entities import bytes_of
from pydispatch.patterns.types import TensorType

SIZE = "%batch"
"""SSA name of the size of the batch, in the host function and in the kernel."""

Symbols = Mapping[tuple[str, int], str]
"""SSA name of each dynamic size, by view and dimension."""


def outer_parameters(passed: Sequence[Parameter], batched: Collection[str]) -> list[Parameter]:
    """Return the parameters with the types that they have in the host function.

    `batched` has the names of the views that have a leading dimension there.
    """
    outer = []
    for parameter in passed:
        type = parameter.type
        if parameter.name in batched and type is not None:
            parameter = replace(parameter, type=TensorType(type.dtype, (None, *(type.shape or ()))))
        outer.append(parameter)
    return outer


def outer_symbols(symbols: Symbols, batched: Collection[str]) -> dict[tuple[str, int], str]:
    """Return the sizes of `outer_parameters`; that of the batch is the last one."""
    moved = {(name, dimension + (name in batched)): symbol for (name, dimension), symbol in symbols.items()}
    return {**moved, **{(name, 0): SIZE for name in batched}}


def offset_lines(parameter: Parameter, symbols: Symbols) -> list[str]:
    """Return the lines that define `%offset_NAME`, the byte where the element of the batch begins in a view."""
    assert parameter.type is not None
    shape = parameter.type.shape or ()
    known = math.prod(size for size in shape if isinstance(size, int)) * bytes_of(parameter.type.dtype)
    name = f"%offset_{parameter.name}"
    lines, last = [f"{name}_bytes = arith.constant {known} : index"], f"{name}_bytes"
    sizes = [symbols[parameter.name, d] for d, size in enumerate(shape) if not isinstance(size, int)]
    for position, size in enumerate(sizes):
        lines.append(f"{name}_{position} = arith.muli {last}, {size} : index")
        last = f"{name}_{position}"
    return [*lines, f"{name} = arith.muli {last}, %batch_index : index"]


PROLOGUE = (
    "%batch_axis = stream.dispatch.workgroup.id[1] : index",
    "%batch_count = stream.dispatch.workgroup.count[1] : index",
    f"%batch_index = arith.remui %batch_axis, {SIZE} : index",
)
"""Lines at the beginning of a kernel over a batch."""

_GRID = {
    "stream.dispatch.workgroup.id[1] : index": f"arith.divui %batch_axis, {SIZE} : index",
    "stream.dispatch.workgroup.count[1] : index": f"arith.divui %batch_count, {SIZE} : index",
}
"""Operation on axis 1 of the whole grid → operation that gives the same of one element of the batch."""


def within_batch(lines: Sequence[str]) -> list[str]:
    """Return the lines of a kernel with the grid of one element of the batch instead of the whole grid."""
    replaced = []
    for line in lines:
        for whole, own in _GRID.items():
            line = line.replace(whole, own)
        replaced.append(line)
    return replaced
