"""Operands of a contraction that register blocks can read where they are stored: arguments, pages, and panels of B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import Arithmetic, is_packed_element
from pydispatch.compiler.kernels.matmul.cpu.problem import Operand, Problem
from pydispatch.compiler.kernels.matmul.cpu.schedule import ASSUMED_STEPS
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.panels import Panels, panels_of
from pydispatch.compiler.tensor_ops.registry import source_of

MAX_SINGLE_USE_ROWS = 4
"""Maximum number of rows of A for which elements of B are used too rarely for a packed copy: packing them in groups of
steps, or from rows in many memory pages, takes longer than it saves."""

HALF_BYTES = 2
"""Size in bytes of an element of f16 or bf16."""

Sizes = Sequence[int | None]
"""The size of each dimension of a contraction, by its number; None if dynamic."""


def operand_of(
    factor: Factor, contraction: Contraction, is_readable_in_place: bool, rows: int | None, bytes_in_memory: int
) -> Operand:
    """Return the properties of a factor that decide whether it is read in place.

    Args:
        factor: The factor.
        contraction: Its contraction.
        is_readable_in_place: Whether register blocks can read the factor where it is, without a packed copy.
        rows: Dimension of the contraction that counts the rows of the factor: M for A, K for B; None for no rows.
        bytes_in_memory: Size in bytes of an element in the memory that is read; the distance between rows depends on
            it.
    """
    row_stride = _row_stride(factor, contraction.tensor_of(factor), rows)
    return Operand(
        is_readable_in_place=is_readable_in_place,
        row_stride_bytes=bytes_in_memory * (row_stride or 0),
        is_contiguous_k=factor.is_last(contraction.k),
        is_contiguous_n=factor.is_last(contraction.n),
    )


def _row_stride(factor: Factor, tensor: SSAValue, row_dim: int | None) -> int | None:
    """Return the distance of neighbouring rows of a factor in elements; None without rows or for a dynamic distance.

    `row_dim` is the dimension of the contraction that counts rows. If it indexes several axes of the tensor, the
    distance is that along the first one.
    """
    positions = [] if row_dim is None else factor.positions_of(row_dim)
    if row_dim is None or not positions or not isinstance(tensor.type, TensorType):
        return None
    axis = positions[0]
    inner_sizes = tensor.type.get_shape()[axis + 1 :]
    if any(size < 0 for size in inner_sizes):
        return None
    return prod(inner_sizes) * factor.coordinates[axis].coefficient(row_dim)


def half_operand(contraction: Contraction, problem: Problem, b_in_half_precision: SSAValue, level: Level) -> Operand:
    """Return the properties of an operand B of f16 or bf16 that blocks convert to f32 as they read it.

    B is read from panels of an argument, or in place if its rows are contiguous along N and such reads are fast: the
    rows of B are at most a page of virtual memory apart, B takes at most a third of the third-level cache, which also
    has A, C and what other workers read, or A has at most `MAX_SINGLE_USE_ROWS` rows. In place against packed on a Zen
    5: 13x4096x4096 8,370 against 5,930 us, 4x4096x4096 2,490 against 3,860, 8x768x3072 153 against 230.
    """
    operand = operand_of(
        contraction.b, contraction, is_readable_in_place=True, rows=contraction.k, bytes_in_memory=HALF_BYTES
    )
    l3_bytes = 0 if level.model.l3 is None else level.model.l3.bytes
    stride, steps = operand.row_stride_bytes, problem.k or ASSUMED_STEPS  # bytes of a row of B, and number of rows
    is_fast = stride <= level.model.page or 3 * stride * steps <= l3_bytes or (problem.m or 0) <= MAX_SINGLE_USE_ROWS
    is_in_rows = argument_of(b_in_half_precision) is not None and contraction.b.is_last(contraction.n) and is_fast
    has_panels = problem.panel_width > 0  # in an argument, whose panels blocks read as they are
    # `operand_of` needs the bytes of an element for the distance of rows alone: it leaves `element_bytes` to callers.
    return replace(operand, is_readable_in_place=has_panels or is_in_rows, element_bytes=HALF_BYTES)


def argument_of(value: SSAValue) -> BlockArgument | None:
    """Return the argument that a value is, looking through operations that only state sizes; None for another value."""
    value = source_of(value)
    return value if isinstance(value, BlockArgument) else None


def is_argument_element(factor: Factor, contraction: Contraction, compute: Attribute) -> bool:
    """Return whether a factor is the element of an argument, unchanged, and has the type `compute`."""
    value = contraction.tensor_of(factor)
    has_type = isinstance(value.type, TensorType) and value.type.element_type == compute
    return factor.is_element and has_type and argument_of(value) is not None


def paged_operand(contraction: Contraction, pages: GatheredPages, size: int) -> Operand:
    """Return the properties of an operand B that is gathered pages of an argument, which register blocks read in place.

    `size` is the length of a packed element in bytes.
    """
    assert isinstance(pages.element_type, FixedBitwidthType)
    element_bytes = pages.element_type.size
    rows = contraction.k  # rows of B are steps of K
    operand = operand_of(
        contraction.b, contraction, is_readable_in_place=True, rows=rows, bytes_in_memory=element_bytes
    )
    is_stored_as_packed = element_bytes == size
    return replace(operand, element_bytes=0 if is_stored_as_packed else element_bytes)  # 0: as long as packed ones


def has_packed_rows(contraction: Contraction, sizes: Sizes, arithmetic: Arithmetic) -> bool:
    """Return whether matrix registers can load A from an argument: unchanged, with whole groups of K contiguous.

    A group is the `arithmetic.group` steps of K that one instruction multiplies and adds to one sum.
    """
    a = contraction.a
    value, element = contraction.tensor_of(a), contraction.element_of(a)
    is_static = isinstance(value.type, TensorType) and value.type.has_static_shape()
    reads_other_tensors = set(a.inputs) != {a.main_input}
    subtracts_offset = arithmetic.a_offset != 0  # only packing can subtract it
    if reads_other_tensors or not is_static or argument_of(value) is None or subtracts_offset:
        return False
    steps = sizes[contraction.k] or 1  # an unknown number, or 0, counts as 1: no whole group
    are_groups = a.is_last(contraction.k) and steps % arithmetic.group == 0
    return are_groups and is_packed_element(a.value, element, arithmetic, arithmetic.unsigned_a)


def panels_of_b(
    contraction: Contraction, sizes: Sizes, arithmetic: Arithmetic, b_in_half_precision: SSAValue | None
) -> Panels | None:
    """Return the panels of columns that B is stored in, if register blocks can read these; else None.

    A panel is a fixed number of adjacent columns: a B of shape [K, N] in panels of 32 is an argument of shape [N / 32,
    K, 32], or, in groups of 4 steps of K, [N / 32, K / 4, 32, 4]. Register blocks can read them if
    N is the dimension that panels cut, and the elements, or the groups, are those that the arithmetic multiplies.

    Args:
        contraction: The contraction.
        sizes: Sizes of its dimensions; None if dynamic.
        arithmetic: Element types and instructions.
        b_in_half_precision: Tensor of f16 or bf16 that B is widened from in registers; None where it is not.
    """
    b, n = contraction.b, contraction.n
    panels = panels_of(contraction.tensor_of(b) if b_in_half_precision is None else b_in_half_precision)
    # B is not stored in panels, or they do not cut the dimension that N indexes.
    if panels is None or n is None or b.positions_of(n) != [panels.layout.axis]:
        return None
    layout, columns = panels.layout, sizes[n]
    if not b.coordinates[layout.axis].is_identity(n):
        return None
    # Zeros may fill up the last panel. Register blocks skip them if their number is known and steps are not grouped.
    fills_panels = (columns or 1) % layout.width == 0  # false for an unknown number of columns, which counts as 1
    skips_zeros = columns is not None and layout.step_axis is None
    if not fills_panels and not skips_zeros:
        return None
    if layout.step_axis is None:  # steps of K are not grouped
        # The factor is the element that the panels store, in the type that is multiplied, or is widened to it.
        is_unconverted = arithmetic.reads_in_place(contraction.acc) and b.is_element
        return panels if b_in_half_precision is not None or is_unconverted else None
    are_groups = layout.group == arithmetic.group and b.positions_of(contraction.k) == [layout.step_axis]
    return panels if are_groups and _is_packed_b(contraction, arithmetic) else None


def _is_packed_b(contraction: Contraction, arithmetic: Arithmetic) -> bool:
    """Return whether the elements of B's tensor are equal to the packed elements of the factor.

    A packed element is the factor less `arithmetic.b_offset`, such as 128 for bytes that become signed.
    """
    value, offset = contraction.b.value, 0
    if isinstance(value, OpResult) and isinstance(value.op, arith.AddiOp):
        constant = value.op.rhs.owner
        if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
            value, offset = value.op.lhs, constant.value.value.data
    element = contraction.element_of(contraction.b)
    return is_packed_element(value, element, arithmetic, arithmetic.unsigned_b) and offset == arithmetic.b_offset
