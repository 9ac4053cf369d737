"""Plan of a contraction on a GPU: collapsed dimensions, types, and tiles by shape and element type.

All parallel dimensions that only A has are collapsed into rows, all that only B has into columns, and all reductions
into steps. A convolution becomes a matrix product: the coordinates of an element are computed by splitting the index of
its row, column or step into the indices of the collapsed dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, i32, i64
from xdsl.ir import Attribute, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.types import scalar_width
from pydispatch.compiler.kernels.matmul.gpu.operands import Operand, OperandPlanner
from pydispatch.compiler.kernels.matmul.gpu.tiles import (
    LARGEST_SCALAR_TILE,
    MAX_SCALAR_COLUMNS,
    TENSOR_TILES,
    TILES_32,
    TILES_64,
    Tile,
    choose_tile,
)
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.ir.dialects.pyd.mma import LANES

MIN_EXTENT, MIN_STEPS = 8, 4
"""Minimum number of rows and of columns, and minimum size K, of a product that is tiled. For smaller products, kernels
without workgroup memory are faster (`kernels/loops/gpu/blocks.py`)."""

SKINNY_ROWS = 16
"""Height of the lowest tiles. If the number of rows is dynamic, a second plan is for up to so many rows."""

BAND_HEIGHTS = (8, 4, 2)
"""Heights of a band, in tiles: the first that divides the number of tiles along the rows is used. Workgroups of a band
pass through the columns together, so that the second-level cache serves both operands."""


@dataclass(frozen=True)
class Plan:
    """Decisions made before the GPU kernel of a contraction is emitted: tile, operands and loads.

    Attributes:
        contraction: The contraction.
        tile: The tile of a workgroup.
        form: Instructions that compute products: "tensor" or "fma", see `pyd.mma`.
        element: Type of elements in workgroup memory.
        sum_type: Type of accumulators.
        a, b: The operands.
        outer: Parallel dimensions that are neither rows nor columns: there is a product for each of their indices.
        steps: Reduced dimensions, which are collapsed into K, outer first.
    """

    contraction: Contraction
    tile: Tile
    form: str
    element: Attribute
    sum_type: Attribute
    a: Operand
    b: Operand
    outer: tuple[int, ...]
    steps: tuple[int, ...]


def plans_of(contraction: Contraction, elements: Elements, architecture: int) -> list[Plan]:
    """Return the plans of a contraction; an empty list if it cannot be tiled, or is too small for tiles.

    With a dynamic number of rows, there is a second plan, for at most `SKINNY_ROWS` rows. There is none if elements are
    i64, or if the tile of the first plan is not higher than `SKINNY_ROWS`. The kernel has the code of both plans, and
    the number of rows selects one at run time. If the first plan has a tile of 128x128, which 8 subgroups compute in
    blocks of 32x64, the second one has a tile of 16x256, in 8 blocks of 16x32.

    `architecture` is the compute capability of the device, such as 80.
    """
    plan = plan_of(contraction, elements, architecture)
    if plan is None:
        return []
    sizes = loop_sizes(elements, contraction.generic)
    has_static_rows = all(isinstance(sizes[d], int) for d in plan.a.dims)
    multiplies_i64 = plan.element == i64
    if has_static_rows or plan.tile.height <= SKINNY_ROWS or multiplies_i64:
        return [plan]
    skinny_plan = plan_of(contraction, elements, architecture, _skinny_tile(plan))
    assert skinny_plan is not None  # `plan_of` returns None for reasons that do not depend on the tile
    return [plan, skinny_plan]


def _skinny_tile(plan: Plan) -> Tile:
    """Return the tile of the plan for few rows that joins `plan` in a kernel.

    Both tiles have as many subgroups (NVIDIA's warps), since they share the size of a workgroup. The tile for few rows
    is `SKINNY_ROWS` high, and each subgroup computes a block of that height.
    """
    subgroups = plan.tile.invocations // LANES
    uses_tensor_cores = plan.form == "tensor"
    block_columns = 16 if uses_tensor_cores and subgroups >= 4 else 32
    return Tile(
        height=SKINNY_ROWS,
        width=subgroups * block_columns,
        depth=32 if uses_tensor_cores else 16,
        block_rows=SKINNY_ROWS,
        block_columns=block_columns,
        throughput=0,  # unused: `choose_tile` does not compare this tile with others
    )


def has_skinny_rows(plan: Plan, build: Builder, sizes: Sequence[Index]) -> SSAValue | bool:
    """Return whether there are at most as many rows as the second plan is for: a bool, or an i1 at run time."""
    return build.less(collapsed_size(build, sizes, plan.a.dims), SKINNY_ROWS + 1)


def plan_of(contraction: Contraction, elements: Elements, architecture: int, tile: Tile | None = None) -> Plan | None:
    """Return the plan of a contraction: its types, operands and tile.

    Return None if it cannot be tiled, or is too small to fill tiles. `architecture` is the compute capability of the
    device, such as 80. `tile` is the tile to use; None for the one that is estimated to be fastest.
    """
    dims = _collapsed_dims(contraction)
    multiplication = _multiplication_of(contraction, architecture)
    if dims is None or multiplication is None:
        return None
    sizes = [s if isinstance(s, int) else None for s in loop_sizes(elements, contraction.generic)]
    if _is_too_small(dims, sizes):
        return None
    if tile is None:
        tile = _fastest_tile(multiplication, dims, sizes)
    factors_as_multiplied = replace(
        contraction,
        a=replace(contraction.a, value=multiplication.a),
        b=replace(contraction.b, value=multiplication.b),
    )
    planner = OperandPlanner(elements, factors_as_multiplied, sizes)
    a, b = planner.operands(dims.rows, dims.columns, tile)
    # Loads of single elements take registers: a smaller tile is chosen for them, and the operands again for this tile.
    if multiplication.form == "tensor" and min(a.vector_width, b.vector_width) == 1:
        tile = _tile_of_scalar_loads(tile, are_both_scalar=max(a.vector_width, b.vector_width) == 1)
        a, b = planner.operands(dims.rows, dims.columns, tile)
    return Plan(
        contraction=contraction,
        tile=tile,
        form=multiplication.form,
        element=multiplication.element,
        sum_type=multiplication.sum_type,
        a=a,
        b=b,
        outer=dims.outer,
        steps=dims.steps,
    )


class _CollapsedDims(NamedTuple):
    """Dimensions of a contraction that are collapsed into those of a matrix product. M, N or K is the last of each.

    Attributes:
        rows: Parallel dimensions that only A has.
        columns: Parallel dimensions that only B has.
        outer: Parallel dimensions that both factors have, such as a batch, or that none has.
        steps: Reduced dimensions.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    outer: tuple[int, ...]
    steps: tuple[int, ...]


def _collapsed_dims(contraction: Contraction) -> _CollapsedDims | None:
    """Return the dimensions that a contraction has as a matrix product; None if it has no M or no N.

    The convolution C[h, w, f] += A[h + i, w + j, c] * B[i, j, c, f] has the rows (h, w), the columns (f) and the steps
    (i, j, c). With 28x28 results and 128 filters of 3x3x64, these are 784 rows, 128 columns and 576 steps.
    """
    if contraction.m is None or contraction.n is None:
        return None
    a_dims, b_dims = contraction.a.dims, contraction.b.dims
    rows = (*(d for d in contraction.outer if d in a_dims and d not in b_dims), contraction.m)
    columns = (*(d for d in contraction.outer if d in b_dims and d not in a_dims), contraction.n)
    outer = tuple(d for d in contraction.outer if d not in rows and d not in columns)
    return _CollapsedDims(rows, columns, outer, steps=(*contraction.reductions, contraction.k))


def _is_too_small(dims: _CollapsedDims, sizes: Sequence[int | None]) -> bool:
    """Return whether a product is known to be too small to fill tiles."""
    rows, columns, steps = (_size(sizes, collapsed) for collapsed in (dims.rows, dims.columns, dims.steps))
    is_small = any(extent is not None and extent < MIN_EXTENT for extent in (rows, columns))
    return is_small or (steps is not None and steps < MIN_STEPS)


def _fastest_tile(multiplication: _Multiplication, dims: _CollapsedDims, sizes: Sequence[int | None]) -> Tile:
    """Return the tile that is estimated to be the fastest for a product of `sizes`, the size of each loop."""
    scalar_tiles = TILES_64 if scalar_width(multiplication.element) == 64 else TILES_32
    tiles = TENSOR_TILES if multiplication.form == "tensor" else scalar_tiles
    products = prod(sizes[d] or 1 for d in dims.outer)  # a dynamic size counts as 1
    return choose_tile(tiles, _size(sizes, dims.rows), _size(sizes, dims.columns), products)


def _tile_of_scalar_loads(tile: Tile, are_both_scalar: bool) -> Tile:
    """Return the tile to use instead of `tile` on tensor cores if A or B, or both, are loaded element by element.

    The tile has half the depth, and blocks of at most `MAX_SCALAR_COLUMNS`. If both are loaded element by element, it
    has at most the size of `LARGEST_SCALAR_TILE`. More sums, or a deeper tile, would leave too few registers for these
    loads.
    """
    most_elements = LARGEST_SCALAR_TILE.height * LARGEST_SCALAR_TILE.width
    if are_both_scalar and tile.height * tile.width > most_elements:
        tile = LARGEST_SCALAR_TILE
    return replace(tile, depth=tile.depth // 2, block_columns=min(tile.block_columns, MAX_SCALAR_COLUMNS))


def _size(sizes: Sequence[int | None], dims: Sequence[int]) -> int | None:
    """Return the product of the sizes of `dims`: 0 if one of them is empty, else None if one is dynamic."""
    known_sizes = [s for d in dims if (s := sizes[d]) is not None]
    if 0 in known_sizes:
        return 0
    return prod(known_sizes) if len(known_sizes) == len(dims) else None


class _Multiplication(NamedTuple):
    """Instruction and types by which a GPU multiplies the factors of a contraction.

    Attributes:
        form: Form of `pyd.mma`: "tensor" for tensor cores, or "fma".
        element: Type of the elements of both factors in workgroup memory.
        sum_type: Type of the accumulators.
        a, b: The values that are multiplied: the factors, or for tensor cores the f16 or bf16 values that are extended
            to the factors.
    """

    form: str
    element: Attribute
    sum_type: Attribute
    a: SSAValue
    b: SSAValue


def _multiplication_of(contraction: Contraction, architecture: int) -> _Multiplication | None:
    """Return how factors are multiplied on a device of the compute capability `architecture`, such as 80.

    Factors of 16-bit floats are multiplied by tensor cores ("tensor") if the device has them for these types, other
    factors by scalar multiply-adds ("fma"). Return None for element types without a kernel.
    """
    a, b = contraction.a.value, contraction.b.value
    if isinstance(contraction.acc, Float16Type | BFloat16Type | Float32Type):
        left, right = (_half_precision(f) for f in (contraction.a, contraction.b))
        if left is not None and right is not None and _has_tensor_cores(architecture, left.type, right.type):
            return _Multiplication(form="tensor", element=left.type, sum_type=Float32Type(), a=left, b=right)
        return _Multiplication(form="fma", element=Float32Type(), sum_type=Float32Type(), a=a, b=b)
    if isinstance(contraction.acc, Float64Type):
        return _Multiplication(form="fma", element=contraction.acc, sum_type=contraction.acc, a=a, b=b)
    if isinstance(contraction.acc, IntegerType) and contraction.acc.width.data in (8, 16, 32, 64):
        type_ = i64 if contraction.acc.width.data == 64 else i32  # i8 and i16 are multiplied and added as i32
        return _Multiplication(form="fma", element=type_, sum_type=type_, a=a, b=b)
    return None


def _has_tensor_cores(architecture: int, left: Attribute, right: Attribute) -> bool:
    """Return whether the tensor cores of a compute capability multiply factors of these types, f16 or bf16.

    Capability 75 has tensor cores for f16, 80 and later ones for both.
    """
    if left != right:
        return False
    return architecture >= 80 or (architecture == 75 and isinstance(left, Float16Type))


def _half_precision(factor: Factor) -> SSAValue | None:
    """Return the f16 or bf16 value that a factor is, or is extended from; None for another factor."""
    value = factor.value
    if isinstance(value.type, Float16Type | BFloat16Type):
        return value
    if isinstance(value, OpResult) and value.op.name == "arith.extf":
        inner = value.op.operands[0]
        if isinstance(inner.type, Float16Type | BFloat16Type):
            return inner
    return None


def _tile_counts(plan: Plan, build: Builder, sizes: Sequence[Index]) -> tuple[list[Index], Index, Index]:
    """Return the sizes of the outer dimensions, the number of tiles along the rows, and that along the columns."""
    rows = build.ceil_quotient(collapsed_size(build, sizes, plan.a.dims), plan.tile.height)
    columns = build.ceil_quotient(collapsed_size(build, sizes, plan.b.dims), plan.tile.width)
    return [sizes[d] for d in plan.outer], rows, columns


def collapsed_size(build: Builder, sizes: Sequence[Index], dims: Sequence[int]) -> Index:
    """Return the product of the sizes of `dims`; `sizes` has the sizes of all loop dimensions."""
    return build.product([sizes[d] for d in dims])


def workgroups_of(plan: Plan, build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of workgroups of a plan."""
    outer, rows, columns = _tile_counts(plan, build, sizes)
    return build.product([*outer, rows, columns])


def workgroups_of_selected_plan(plans: Sequence[Plan], build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of workgroups of the plan that the number of rows selects at run time.

    plans: the general plan, and optionally one for few rows. sizes: the size of each loop of the contraction.
    """
    general_count, *skinny_count = (workgroups_of(plan, build, sizes) for plan in plans)
    if not skinny_count:
        return general_count
    has_few_rows = has_skinny_rows(plans[0], build, sizes)
    assert isinstance(has_few_rows, SSAValue)  # there are two plans only if the number of rows is dynamic
    return build.pure(arith.SelectOp(has_few_rows, build.value(skinny_count[0]), build.value(general_count)))


def tile_of(
    plan: Plan, build: Builder, workgroup_id: Index, sizes: Sequence[Index]
) -> tuple[list[Index], Index, Index]:
    """Return the indices of the outer dimensions, and the row and column of the tile, in tiles, of a workgroup.

    A band is a few rows of tiles. Workgroups with successive numbers compute a band column by column, so that they
    share both factors in the cache. With a band of 2, workgroups 0 to 3 have the tiles (0, 0), (1, 0), (0, 1), (1, 1).
    `workgroup_id` is the workgroup's linear number, `sizes` has the size of each loop of the contraction.
    """
    outer_sizes, rows, columns = _tile_counts(plan, build, sizes)
    # The first height that divides the rows of tiles; 1 if none does, or if their number is dynamic.
    band_height = next((b for b in BAND_HEIGHTS if isinstance(rows, int) and rows % b == 0), 1)
    *batch, band, column, row_in_band = build.split(
        workgroup_id, [*outer_sizes, build.quotient(rows, band_height), columns, band_height]
    )
    return batch, build.linear(band, band_height, row_in_band), column
