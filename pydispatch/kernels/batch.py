"""Kernels over a batch: views with a leading dimension, for each element of which the kernel runs.

Axis 1 of the grid has batch size * own workgroups: the kernel's index along it is (index // batch size), and the
element of the batch is (index % batch size). Axis 2 would limit the batch, since it has at most 65,535 workgroups.
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
"""SSA name of each dynamic size, such as "%n_m", by the name of the view and the dimension, from 0 on."""


def outer_parameters(passed: Sequence[Parameter], batched: Collection[str]) -> list[Parameter]:
    """Return the parameters with the types that they have in the host function.

    `batched` has the names of the views to which a leading dimension of dynamic size, the batch, is added there.
    """
    outer = []
    for parameter in passed:
        type = parameter.type
        if parameter.name in batched and type is not None:
            parameter = replace(parameter, type=TensorType(type.dtype, (None, *(type.shape or ()))))
        outer.append(parameter)
    return outer


def outer_symbols(symbols: Symbols, batched: Collection[str]) -> dict[tuple[str, int], str]:
    """Return the SSA names of the dynamic sizes of the parameters that `outer_parameters` returns.

    In a view of `batched` dimension 0 is the batch, of size SIZE, and the other dimensions are shifted by one.
    """
    moved = {(name, dimension + (name in batched)): symbol for (name, dimension), symbol in symbols.items()}
    return {**moved, **{(name, 0): SIZE for name in batched}}


def offset_lines(parameter: Parameter, symbols: Symbols) -> list[str]:
    """Return the lines that define `%offset_NAME`, the byte offset of the element of the batch in a view.

    It is the index of the element, %batch_index, times its bytes. Static sizes are multiplied here, dynamic ones by
    arith.muli: for a view f32["n", 4], the offset is 16 * n * %batch_index.
    """
    assert parameter.type is not None
    shape = parameter.type.shape or ()
    known_bytes = math.prod(size for size in shape if isinstance(size, int)) * bytes_of(parameter.type.dtype)
    name = f"%offset_{parameter.name}"
    lines, product = [f"{name}_bytes = arith.constant {known_bytes} : index"], f"{name}_bytes"
    sizes = [symbols[parameter.name, d] for d, size in enumerate(shape) if not isinstance(size, int)]
    for position, size in enumerate(sizes):
        lines.append(f"{name}_{position} = arith.muli {product}, {size} : index")
        product = f"{name}_{position}"
    return [*lines, f"{name} = arith.muli {product}, %batch_index : index"]


PROLOGUE = (
    "%batch_axis = stream.dispatch.workgroup.id[1] : index",
    "%batch_count = stream.dispatch.workgroup.count[1] : index",
    f"%batch_index = arith.remui %batch_axis, {SIZE} : index",
)
"""Lines at the beginning of a kernel over a batch: they define the index of its element, `%batch_index`. Axis 1 of the
grid has the size of the batch times the kernel's own workgroups along it; the element of the batch varies fastest."""

_GRID = {
    "stream.dispatch.workgroup.id[1] : index": f"arith.divui %batch_axis, {SIZE} : index",
    "stream.dispatch.workgroup.count[1] : index": f"arith.divui %batch_count, {SIZE} : index",
}
"""MLIR text of the workgroup index and count along axis 1 of the whole grid, which a batch multiplies → text of those
within the grid of one element of the batch. `within_batch` replaces these texts in a kernel."""


def within_batch(lines: Sequence[str]) -> list[str]:
    """Return the lines of a kernel with the workgroup ids and counts of the whole grid replaced by those of the grid of
    one element of the batch.
    """
    replaced = []
    for line in lines:
        for of_whole_grid, of_element in _GRID.items():
            line = line.replace(of_whole_grid, of_element)
        replaced.append(line)
    return replaced
